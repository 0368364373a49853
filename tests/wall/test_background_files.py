"""What a background command keeps to itself is in the manifest all the same: a closed folder must hide nothing."""

from __future__ import annotations

import hashlib
import os

import pytest

from mindx.core.command import ReadFile
from mindx.errors import FileError
from mindx.sandbox.base import ManifestEntry
from tests.attack.test_machine import SUPERVISOR
from tests.wall.support import MIB, first_pid, python, sh

pytestmark = pytest.mark.anyio

# Folders and files that only their owner may see, one that not even the owner may, and what was the writer's, moved in.
HIDE = """
set -e
umask 077
mkdir -p hidden/deep; printf secret > hidden/deep/file; printf x > hidden/none; chmod 0 hidden/none
ln -s /etc/passwd hidden/link
mv theirs folder hidden/
mkdir locked; printf y > locked/y; chmod 0 locked
printf z > top; chmod 600 top
echo done; sleep 1000
"""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def told(sandbox, name: str, word: bytes) -> None:
    """Wait until a background command has said something; a foreground one passes the time."""
    for _ in range(500):
        state = await sandbox.poll_background(name)
        if word in state.stdout:
            return
        assert state.running, state
        await sandbox.execute(sh("sleep 0.02"))
    raise AssertionError("it said nothing")


async def listed(sandbox) -> dict[str, ManifestEntry]:
    return {entry.path: entry for entry in await sandbox.manifest()}


async def test_rule_14_a_closed_folder_of_a_background_command_is_listed_with_digests(make):
    async with make(background=2) as sandbox:
        await sandbox.execute(sh("umask 077; printf mine > theirs; umask 002; mkdir folder; printf in > folder/in"))
        name = await sandbox.start_background(sh(HIDE, timeout_s=None))
        await told(sandbox, name, b"done")
        assert not (await sandbox.execute(sh("ls hidden"))).ok  # it is closed indeed
        found = await listed(sandbox)
        contents = {
            "hidden/deep/file": b"secret",
            "hidden/none": b"x",
            "hidden/theirs": b"mine",
            "hidden/folder/in": b"in",
            "locked/y": b"y",
            "top": b"z",
        }
        assert {path: entry.sha256 for path, entry in found.items() if entry.kind == "file"} == {
            path: digest(data) for path, data in contents.items()
        }
        assert found["hidden/link"].target == "/etc/passwd"
        modes = {"hidden": 0o700, "hidden/deep": 0o700, "hidden/none": 0, "hidden/theirs": 0o600, "locked": 0}
        assert {path: found[path].mode for path in modes} == modes
        assert await listed(sandbox) == found  # nothing stays lent
        with pytest.raises(FileError):
            async for _ in sandbox.fetch("/workspace/hidden/deep/file", 100):
                pass
        # PID 1 is the writer again: what it makes is the writer's, and programs run as before
        result = await sandbox.execute(sh("id -u; cat locked/y hidden/none"))
        assert result.stdout_text.strip() == str(sandbox.ids.uid)
        await sandbox.stop_background(name)


async def test_rule_14_two_users_and_rights_that_are_taken_away_all_the_time(make):
    """A command closes its folder in a loop while the manifest walks it; another user's file lies in it."""
    closing = """
import os, pathlib
os.umask(0o077)
os.mkdir("race")
for number in range(50):
    pathlib.Path(f"race/{number}").write_text("r")
print("done", flush=True)
while True:
    os.chmod("race", 0)
    os.chmod("race", 0o700)
"""
    async with make(background=2) as sandbox:
        first = await sandbox.start_background(python(closing, timeout_s=None))
        await told(sandbox, first, b"done")
        second = await sandbox.start_background(sh("umask 077; mkdir own; echo s > own/s; echo done; sleep 1000"))
        await told(sandbox, second, b"done")
        for _ in range(20):
            found = await listed(sandbox)
            assert len([path for path in found if path.startswith("race/")]) == 50
            assert found["own/s"].sha256 == digest(b"s\n")
        assert (await sandbox.execute(sh("echo on"))).ok
        await sandbox.stop_background(first)


async def test_rule_14_a_large_file_of_another_user_is_hashed_in_slices(make):
    async with make(background=1, workspace=64 * MIB) as sandbox:
        script = "umask 077; mkdir big; head -c 20000000 /dev/zero > big/zeros; echo done; sleep 1000"
        name = await sandbox.start_background(sh(script, timeout_s=None))
        await told(sandbox, name, b"done")
        assert (await listed(sandbox))["big/zeros"].sha256 == digest(bytes(20_000_000))
        with pytest.raises(FileError):
            await sandbox.read_file(ReadFile("/workspace/big/zeros"))


async def test_rule_6_pid_1_cannot_be_touched_while_it_looks_as_that_user(engine, make):
    hide = "import os; os.umask(0o077); os.mkdir('d'); [open(f'd/{n}', 'w').write('x') for n in range(200)]\n"
    async with make(background=1) as sandbox:
        pid = first_pid(engine, sandbox)

        def standing():
            return os.getpriority(os.PRIO_PROCESS, pid), os.sched_getaffinity(pid), os.sched_getscheduler(pid)

        before = standing()
        name = await sandbox.start_background(python(hide + SUPERVISOR, timeout_s=60))
        walks = 0
        while (state := await sandbox.poll_background(name)).running:
            if b"on" in state.stdout:
                assert all(entry.sha256 for entry in await sandbox.manifest() if entry.kind == "file")
                walks += 1
            else:
                await sandbox.execute(sh("sleep 0.02"))
        assert walks > 10
        assert state.result.ok, state.stderr
        assert state.stdout.endswith(b" []\n")  # nothing that it tried against PID 1 worked
        assert standing() == before
        assert (await sandbox.execute(sh("true"))).ok
