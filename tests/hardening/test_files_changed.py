"""Files changed, in Receipts: what a program cannot hide, what is bounded, and what is said when not all was seen."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mindx.core.command import Exec, WriteFile
from mindx.core.receipt import Receipt
from mindx.guest.changed import BETWEEN_LOOKS, MAX_LOOKED, MAX_TOLD, Moment, _Walk
from mindx.guest.files import Root
from mindx.guest.identity import Identity
from mindx.policy.model import Limits
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.docker import DockerSandbox

KERNEL = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
RunScript = Callable[[str], Awaitable[Receipt]]


def in_sandbox(test: Callable[[RunScript, DockerSandbox], Awaitable[None]]) -> None:
    async def go() -> None:
        async with DockerSandbox(ContainerSettings(Limits(background=1))) as sandbox:

            async def run(script: str) -> Receipt:
                result = await sandbox.execute(Exec(("sh", "-ec", script), tells_files=True))
                assert result.ok, result.stderr_text
                return result.receipt

            await test(run, sandbox)

    asyncio.run(go())


def test_made_altered_and_removed_files_are_told_whatever_their_times_are_set_to(ready: None) -> None:
    async def check(run: RunScript, sandbox: DockerSandbox) -> None:
        made = await run("mkdir -p a/b; echo 1 > a/b/c; ln -s c a/b/link; touch top")
        assert made.files_changed == ("./", "a/", "a/b/", "a/b/c", "a/b/link", "top")
        altered = await run("echo 2 > a/b/c; touch -d 2001-01-01 a/b/c")
        assert altered.files_changed == ("a/b/c",)
        removed = await run("rm a/b/link; touch -d 2001-01-01 a/b")
        assert removed.files_changed == ("a/b/",)
        idle = await run("cat a/b/c")
        assert (idle.files_changed_count, idle.files_changed_complete) == (0, True)

    in_sandbox(check)


@pytest.mark.skipif(KERNEL < (6, 13), reason="before Linux 6.13 the times of files have the grain of a tick")
def test_what_was_written_right_before_is_not_told(ready: None) -> None:
    async def check(run: RunScript, sandbox: DockerSandbox) -> None:
        for turn in range(50):
            await sandbox.write_file(WriteFile("/workspace/input", b"%d" % turn))
            assert (await run("cat input")).files_changed_count == 0

    in_sandbox(check)


def test_many_names_are_counted_and_a_walk_that_stops_early_says_so(ready: None) -> None:
    async def check(run: RunScript, sandbox: DockerSandbox) -> None:
        some = await run("mkdir d; cd d; seq 1 2000 | xargs touch")
        assert (some.files_changed_count, some.files_changed_complete) == (2002, True)
        assert len(some.files_changed) == MAX_TOLD
        many = await run(f"mkdir e; cd e; seq 1 {MAX_LOOKED} | xargs touch")
        assert not many.files_changed_complete

    in_sandbox(check)


def test_a_folder_that_was_closed_or_is_too_deep_is_not_passed_over_in_silence(ready: None) -> None:
    async def check(run: RunScript, sandbox: DockerSandbox) -> None:
        assert not (await run("mkdir shut; touch shut/x; chmod 0 shut")).files_changed_complete
        await run("chmod 700 shut; rm -r shut")
        deep = "import os\nfor _ in range(400): os.mkdir('d'); os.chdir('d')"
        assert not (await run(f'python3 -c "{deep}"')).files_changed_complete

    in_sandbox(check)


def test_a_background_command_s_own_files_are_told(ready: None) -> None:
    async def check(run: RunScript, sandbox: DockerSandbox) -> None:
        script = "umask 077; mkdir own; touch own/file; echo made; exec sleep 600"
        background_id = await sandbox.start_background(Exec(("sh", "-c", script), timeout_s=None, tells_files=True))
        while b"made" not in (await sandbox.poll_background(background_id)).stdout:
            await run("true")
        ended = await sandbox.stop_background(background_id)
        assert ended.result is not None
        receipt = ended.result.receipt
        assert {"own/", "own/file"} <= set(receipt.files_changed)
        assert receipt.files_changed_complete

    in_sandbox(check)


class Folder(Root):
    """A folder of this machine in the place of the workspace."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)


@pytest.mark.parametrize(("until_ns", "complete"), [(0, False), (1 << 62, True)])
def test_the_walk_ends_when_a_command_beside_it_has_its_deadline(tmp_path: Path, until_ns: int, complete: bool) -> None:
    for number in range(BETWEEN_LOOKS + 1):
        (tmp_path / str(number)).touch()
    found = _Walk(0, Identity(os.geteuid(), os.getegid()), until_ns).run(Folder(tmp_path))
    assert found.complete is complete
    assert (found.count == BETWEEN_LOOKS + 2) is complete


def test_a_clock_that_was_set_meanwhile_is_noticed(tmp_path: Path) -> None:
    with open(tmp_path / "mark", "wb") as mark:
        moment = Moment(mark.fileno())
        assert moment.holds()
        moment.offset_ns += 3_600_000_000_000  # as if the clock had been put back by an hour since
        assert not moment.holds()
