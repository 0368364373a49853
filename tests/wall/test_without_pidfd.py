"""WALL rule 4: where the kernel has no pidfd (gVisor), ends are found by waitpid."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mindx import guest
from mindx.core.receipt import ExitCause
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.image import DerivedImage, ensure_derived
from tests.hardening.toolchain import ToolchainSandbox
from tests.wall.support import only_ours, sh

pytestmark = pytest.mark.anyio
WITHOUT = "\n\ndef open_pidfd(pid):\n    return -1\n"


@pytest.fixture
def image(engine, base_image, tmp_path: Path) -> Iterator[DerivedImage]:
    folder = tmp_path / "guest"
    shutil.copytree(Path(guest.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "command.py").open("a") as file:
        file.write(WITHOUT)
    made = ensure_derived(engine, base_image.image_id, guest_folder=folder)
    yield made
    engine.images.remove(made.image_id, force=True)


@pytest.fixture
async def sandbox(image: DerivedImage) -> AsyncIterator[DockerSandbox]:
    async with ToolchainSandbox(image) as started:
        yield started


async def test_rule_4_without_pidfd_every_end_is_found(engine, sandbox):
    assert (await sandbox.execute(sh("exit 3"))).exit_code == 3
    assert (await sandbox.execute(sh("kill -TERM $$"))).receipt.signal == 15
    late = await sandbox.execute(sh("setsid sleep 60 & sleep 60", timeout_s=0.3))
    assert late.exit_cause is ExitCause.TIMEOUT
    assert late.duration_s < 2
    left = await sandbox.execute(sh("setsid sleep 60 & echo done"))
    assert (left.stdout, left.receipt.killed_count) == (b"done\n", 1)
    assert only_ours(engine, sandbox)
