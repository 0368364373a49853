"""The backends that the contract suite runs over, and a folder of its own for each test."""

from __future__ import annotations

import errno
import itertools
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from typing import Any

import pytest

from mindx.core.command import WORKSPACE, Exec, MakeDir
from mindx.errors import FileError
from mindx.policy.model import Limits
from mindx.sandbox.base import Sandbox
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.fake import FakeSandbox
from mindx.sandbox.fake_tree import Node

WORKSPACE_BYTES = 64 * 1024 * 1024
WORKSPACE_INODES = 8192
_numbers = itertools.count(1)


class FakeBackend:
    """Sandboxes in memory."""

    def make(
        self,
        workspace_bytes: int = WORKSPACE_BYTES,
        workspace_inodes: int = WORKSPACE_INODES,
        background: int = 0,
    ) -> Sandbox:
        return FakeSandbox(workspace_bytes=workspace_bytes, workspace_inodes=workspace_inodes, background=background)

    async def make_fifo(self, sandbox: Sandbox, path: str) -> None:
        """Put something there that is no file, directory or link; no command of the contract can."""
        assert isinstance(sandbox, FakeSandbox)
        folder, _, name = path.rpartition("/")
        sandbox.tree.look(folder).children[name] = Node("other", 0o644)


class DockerBackend:
    """Real containers."""

    def make(
        self,
        workspace_bytes: int = WORKSPACE_BYTES,
        workspace_inodes: int = WORKSPACE_INODES,
        background: int = 0,
    ) -> Sandbox:
        limits = Limits(workspace_bytes=workspace_bytes, workspace_inodes=workspace_inodes, background=background)
        return DockerSandbox(ContainerSettings(limits))

    async def make_fifo(self, sandbox: Sandbox, path: str) -> None:
        result = await sandbox.execute(Exec(("mkfifo", path)))
        assert result.ok, result.stderr_text


Backend = FakeBackend | DockerBackend


@pytest.fixture(scope="module", params=["fake", "docker"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "fake":
        return FakeBackend()
    request.getfixturevalue("derived_image")  # built once, and outside of any test's own time
    return DockerBackend()


@pytest.fixture(scope="module")
async def sandbox(backend: Backend) -> AsyncIterator[Sandbox]:
    """One started sandbox for a whole module; a test that breaks its sandbox makes its own."""
    async with backend.make() as started:
        yield started


@dataclass(frozen=True)
class Folder:
    """A folder that belongs to one test: `path` is absolute, `name` relative to the workspace."""

    name: str

    @property
    def path(self) -> str:
        return f"{WORKSPACE}/{self.name}"

    def __truediv__(self, name: str) -> str:
        return f"{self.path}/{name}"


@pytest.fixture
async def folder(sandbox: Sandbox) -> Folder:
    made = Folder(f"test-{next(_numbers)}")
    await sandbox.make_dir(MakeDir(made.path))
    return made


class Refusals:
    """Says by name which system error a call ends with."""

    async def __call__(self, call: Awaitable[Any]) -> str:
        with pytest.raises(FileError) as caught:
            await call
        assert isinstance(caught.value, OSError)
        assert caught.value.code
        assert caught.value.details["errno"] == caught.value.errno
        return errno.errorcode[caught.value.errno or 0]


@pytest.fixture
def refusal() -> Refusals:
    return Refusals()
