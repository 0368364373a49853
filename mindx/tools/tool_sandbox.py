"""The sandbox as tools get it: programs and files, each Command judged; the host's own work stays the host's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import NoReturn

from mindx.core.command import Command
from mindx.core.verdict import Verdict
from mindx.errors import InputError
from mindx.sandbox.base import ManifestEntry, PutItem, Sandbox
from mindx.sandbox.driver import Driver


class ToolSandbox(Driver):
    """Passes on what a model's arguments may decide about, to a sandbox that judges it.

    Copying in and out and the manifest are not judged by the policy, so that no argument of a model may reach them:
    they raise InputError (not_for_tools). `start` and `close` do nothing: the session began and ends it.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox, _passed_on)

    async def start(self) -> None:
        """Do nothing: it has been started."""

    async def close(self) -> None:
        """Do nothing: the session ends it."""

    async def put(self, items: Iterable[PutItem]) -> None:
        """Refuse."""
        _refuse("write_file")

    def fetch(self, path: str, max_bytes: int) -> AsyncIterator[bytes]:
        """Refuse."""
        _refuse("read_file")

    async def manifest(self, max_entries: int = 200_000) -> list[ManifestEntry]:
        """Refuse."""
        _refuse("list_dir")


def _passed_on(command: Command) -> Verdict:
    return Verdict("allow", "tool", "the sandbox below judges it")


def _refuse(instead: str) -> NoReturn:
    raise InputError("not_for_tools", f"that is the host's own work, which no policy judges; a tool uses `{instead}`")
