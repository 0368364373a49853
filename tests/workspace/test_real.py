"""The whole way with a real container: copied in, changed by a hostile program, collected, applied."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mindx.core.command import Exec
from mindx.policy.model import Limits
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.docker import DockerSandbox
from mindx.workspace.apply import apply, undo
from mindx.workspace.copy_in import copy_in, plan_copy
from mindx.workspace.pull import collect
from mindx.workspace.store import ChangesFolder
from tests.workspace.support import LIMIT_BYTES, Worked, fill, listing

LIMITS = Limits(workspace_bytes=64 * 1024 * 1024, workspace_inodes=8192)

HOSTILE = r"""
import os, socket, stat
w = os.fsencode(os.getcwd())
os.chdir(w)
open("edit", "w").write("new\n")
os.unlink("gone")
os.rename("d", "e")
os.chmod("script", 0o755)
os.symlink("/etc/passwd", "link")
os.symlink("/", "slash")
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
os.makedirs("sub/.GIT/hooks"); open("sub/.GIT/hooks/post-checkout", "w").write("#!/bin/sh\n")
open(b"caf\xe9", "w").write("x")
open("line\nbreak", "w").write("x")
open("-rf", "w").write("x")
open("empty", "w").close()
open("n" * 255, "w").write("x")
open("open", "w").write("x"); os.chmod("open", 0o666)
open("hidden", "w").write("x"); os.chmod("hidden", 0)
os.link("edit", "hard")
os.makedirs("deep/" * 60); open("deep/" * 60 + "f", "w").write("x")
os.makedirs("env"); open("env/pyvenv.cfg", "w").write("home = /usr\n"); open("env/x", "w").write("x" * 100)
"""


@pytest.fixture
def worked(derived_image: object, tmp_path: Path) -> Worked:
    folder = tmp_path / "w"
    fill(folder, {"edit": "old\n", "gone": "x", "d/f": "f", "script": "#!/bin/sh\n", "same": "s", "p/s": "secret"})
    for path, mode in {"p": 0o700, "p/s": 0o600, "same": 0o664, "d": 0o775}.items():
        (folder / path).chmod(mode)
    (folder / "inner").symlink_to("d/f")
    run = ChangesFolder(tmp_path / "run")
    run.path.mkdir()

    async def whole() -> Worked:
        async with DockerSandbox(ContainerSettings(LIMITS)) as sandbox:
            with plan_copy(folder, max_bytes=LIMIT_BYTES) as copy:
                baseline = await copy_in(sandbox, copy)
            untouched = await collect(sandbox, baseline, run)
            assert untouched == ()  # no mode, owner or link reads as a change
            done = await sandbox.execute(Exec(("python3", "-c", HOSTILE)))
            assert done.ok, done.stderr_text
            return Worked(run, baseline, await collect(sandbox, baseline, run))

    return asyncio.run(whole())


def test_what_a_hostile_program_did_comes_back_as_files_and_folders_only(worked: Worked, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    before = listing(folder)
    report = apply(worked.changes, worked.run, folder)
    assert report.ok
    refused = {item.path for item in report.skipped}
    assert refused == {"env", "fifo", "link", "slash", "socket", "sub/.GIT", "sub/.GIT/hooks",
                       "sub/.GIT/hooks/post-checkout"}  # fmt: skip
    after = listing(folder)
    assert after["edit"] == after["hard"] == (0o644, b"new\n")
    assert (folder / "edit").stat().st_ino != (folder / "hard").stat().st_ino
    assert after["script"] == (0o755, b"#!/bin/sh\n")
    assert after["open"] == after["hidden"] == (0o644, b"x")
    assert after["empty"] == (0o644, b"")
    assert (after["e"], after["e/f"]) == (0o755, (0o644, b"f"))
    assert after["same"] == (0o664, b"s")
    assert after["p/s"] == (0o600, b"secret")
    assert after["deep/" * 60 + "f"] == (0o644, b"x")
    assert not {"gone", "d", "d/f"} & after.keys()
    assert not any(path.casefold().startswith("sub/.git") for path in after)
    assert undo(worked.run).ok
    assert listing(folder) == before
