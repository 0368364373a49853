"""The contract of execute, with programs that every backend has."""

from __future__ import annotations

import asyncio
import hashlib
import os

import pytest

from mindx.core.command import Exec, ReadFile, WriteFile
from mindx.core.receipt import EMPTY_SHA256, ExitCause

pytestmark = pytest.mark.anyio

FOR_EVER = Exec(("yes",), timeout_s=None, max_output_bytes=1000)


class Listener:
    """Keeps each piece with its stream, and lets a test wait for them."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, bytes]] = []
        self._arrived = asyncio.Event()

    def __call__(self, stream: str, data: bytes) -> None:
        self.pieces.append((stream, data))
        self._arrived.set()

    async def first(self) -> None:
        await asyncio.wait_for(self._arrived.wait(), 10)

    def joined(self, stream: str) -> bytes:
        return b"".join(data for name, data in self.pieces if name == stream)


async def cancelled(task: asyncio.Task) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# ends


async def test_true_succeeds_and_says_nothing(sandbox):
    command = Exec(("true",))
    result = await sandbox.execute(command)
    receipt = result.receipt
    assert result.ok
    assert result.command == command
    assert (receipt.exit_cause, receipt.exit_code, receipt.signal) == (ExitCause.EXIT, 0, None)
    assert (result.stdout, result.stderr, result.truncated) == (b"", b"", False)
    assert (receipt.stdout_bytes, receipt.stderr_bytes) == (0, 0)
    assert receipt.stdout_sha256 == receipt.stderr_sha256 == EMPTY_SHA256
    assert (receipt.oom_kills, receipt.killed, receipt.killed_count) == (0, (), 0)
    assert 0 <= receipt.duration_s < 10
    assert receipt.cpu_s >= 0


async def test_a_failed_command_is_a_value(sandbox):
    result = await sandbox.execute(Exec(("false",)))
    assert not result.ok
    assert (result.exit_cause, result.exit_code) == (ExitCause.EXIT, 1)


async def test_a_program_that_is_not_there_runs_nothing(sandbox):
    result = await sandbox.execute(Exec(("no-such-program", "x")))
    assert not result.ok
    assert (result.exit_cause, result.exit_code) == (ExitCause.NOT_FOUND, None)
    assert (result.stdout, result.receipt.stdout_bytes) == (b"", 0)


async def test_an_executable_that_is_not_there_or_may_not_run(sandbox, folder):
    await sandbox.write_file(WriteFile(folder / "plain", b"#!/bin/true\n", mode=0o644))
    missing = await sandbox.execute(Exec(("true",), executable=folder / "missing"))
    plain = await sandbox.execute(Exec(("true",), executable=folder / "plain"))
    directory = await sandbox.execute(Exec(("true",), executable=folder.path))
    assert (missing.exit_cause, missing.exit_code) == (ExitCause.NOT_FOUND, None)
    assert (plain.exit_cause, plain.exit_code) == (ExitCause.NOT_EXECUTABLE, None)
    assert (directory.exit_cause, directory.exit_code) == (ExitCause.NOT_EXECUTABLE, None)


async def test_a_missing_cwd_runs_nothing(sandbox, folder):
    await sandbox.write_file(WriteFile(folder / "file", b""))
    for cwd in (folder / "missing", folder / "file"):
        result = await sandbox.execute(Exec(("true",), cwd=cwd))
        assert (result.exit_cause, result.exit_code) == (ExitCause.NOT_EXECUTABLE, None)


async def test_duration_is_the_programs(sandbox):
    result = await sandbox.execute(Exec(("sleep", "0.2")))
    assert result.ok
    assert 0.19 <= result.duration_s < 10


# what goes in


async def test_arguments_arrive_as_they_are(sandbox):
    words = ("-rf", "a b", "", "$HOME", "`id`", "'\"\\", "*", ";|&>", "two\nlines", os.fsdecode(b"\xff"), "日本")
    result = await sandbox.execute(Exec(("echo", *words)))
    assert result.stdout == " ".join(words).encode("utf-8", "surrogateescape") + b"\n"


async def test_env_is_added_for_one_command(sandbox):
    added = await sandbox.execute(Exec(("printenv", "MINDX_TEST"), env={"MINDX_TEST": "a=b c\n$d"}))
    assert added.stdout == b"a=b c\n$d\n"
    gone = await sandbox.execute(Exec(("printenv", "MINDX_TEST")))
    assert (gone.stdout, gone.exit_code) == (b"", 1)


async def test_env_has_its_fixed_variables_and_nothing_of_the_hosts(sandbox, monkeypatch):
    monkeypatch.setenv("MINDX_HOST_SECRET", "seen")
    result = await sandbox.execute(Exec(("printenv",)))
    names = {line.partition("=")[0] for line in result.stdout_text.splitlines()}
    assert {"PATH", "HOME", "LANG"} <= names
    assert "MINDX_HOST_SECRET" not in names
    changed = await sandbox.execute(Exec(("printenv", "LANG"), env={"LANG": "C"}))
    assert changed.stdout == b"C\n"


async def test_cwd_is_the_workspace_or_what_is_given(sandbox, folder):
    assert (await sandbox.execute(Exec(("pwd",)))).stdout == b"/workspace\n"
    assert (await sandbox.execute(Exec(("pwd",), cwd=folder.path))).stdout == folder.path.encode() + b"\n"


async def test_stdin_is_read_and_then_ends(sandbox):
    assert (await sandbox.execute(Exec(("cat",), stdin=b"a\0b\xff"))).stdout == b"a\0b\xff"
    assert (await sandbox.execute(Exec(("cat",)))).stdout == b""


async def test_large_stdin_and_stdout_at_once(sandbox):
    data = os.urandom(1024) * (4 * 1024)
    result = await sandbox.execute(Exec(("cat",), stdin=data, max_output_bytes=2 * len(data)))
    assert result.ok
    assert result.stdout == data


async def test_stdin_that_nobody_reads_does_no_harm(sandbox):
    result = await sandbox.execute(Exec(("true",), stdin=bytes(1024 * 1024)))
    assert result.ok


async def test_a_file_operation_and_a_program_see_the_same_file(sandbox, folder):
    await sandbox.write_file(WriteFile(folder / "-rf", b"content"))
    assert (await sandbox.execute(Exec(("cat", folder / "-rf")))).stdout == b"content"
    assert (await sandbox.execute(Exec(("cat", "./-rf"), cwd=folder.path))).stdout == b"content"


# what comes out


async def test_the_streams_stay_apart(sandbox, folder):
    await sandbox.write_file(WriteFile(folder / "a", b"out"))
    result = await sandbox.execute(Exec(("cat", "a", "missing"), cwd=folder.path))
    assert result.exit_code == 1
    assert result.stdout == b"out"
    assert b"missing" in result.stderr
    assert b"out" not in result.stderr
    assert result.receipt.stderr_bytes == len(result.stderr)
    assert result.receipt.stderr_sha256 == hashlib.sha256(result.stderr).hexdigest()


async def test_output_that_is_not_utf8_is_kept_as_bytes(sandbox):
    data = bytes(range(256))
    result = await sandbox.execute(Exec(("cat",), stdin=data))
    assert result.stdout == data
    assert "\\xff" in result.stdout_text


async def test_large_output_within_the_cap_is_whole(sandbox, folder):
    data = b"".join(b"%07d\n" % number for number in range(1024 * 1024))
    await sandbox.write_file(WriteFile(folder / "a", data))
    result = await sandbox.execute(Exec(("cat", folder / "a"), max_output_bytes=len(data)))
    assert result.stdout == data
    assert not result.truncated
    assert result.receipt.stdout_bytes == len(data)
    assert result.receipt.stdout_sha256 == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("over", [0, 1, 999, 5_000_000])
async def test_over_the_cap_head_and_tail_are_kept_and_the_rest_is_counted(sandbox, folder, over):
    cap = 100_000
    data = (b"0123456789abcdef\n" * ((cap + over) // 17 + 1))[: cap + over]
    await sandbox.write_file(WriteFile(folder / "a", data))
    result = await sandbox.execute(Exec(("cat", folder / "a"), max_output_bytes=cap))
    assert result.ok, "a command goes on when its cap is reached"
    assert result.stdout_truncated == result.truncated == (over > 0)
    assert not result.stderr_truncated
    assert result.receipt.stdout_bytes == len(data)
    assert result.receipt.stdout_sha256 == hashlib.sha256(data).hexdigest()
    marker = b"\n[mindx: %d bytes left out]\n" % over
    assert result.stdout == (data[:75_000] + marker + data[-25_000:] if over else data)


async def test_a_cap_of_nothing_keeps_nothing_and_counts_all(sandbox):
    result = await sandbox.execute(Exec(("echo", "hello"), max_output_bytes=0))
    assert result.stdout == b"\n[mindx: 6 bytes left out]\n"
    assert result.receipt.stdout_bytes == 6


async def test_each_stream_has_the_whole_cap(sandbox, folder):
    await sandbox.write_file(WriteFile(folder / "a", b"x" * 300))
    missing = "m" * 200
    result = await sandbox.execute(Exec(("cat", "a", missing), cwd=folder.path, max_output_bytes=300))
    assert result.stdout == b"x" * 300
    assert missing.encode() in result.stderr
    assert not result.truncated


async def test_the_listener_gets_all_within_the_cap_in_order(sandbox, folder):
    data = b"".join(b"%07d\n" % number for number in range(100_000))
    await sandbox.write_file(WriteFile(folder / "a", data))
    listener = Listener()
    command = Exec(("cat", "a", "missing"), cwd=folder.path)
    result = await sandbox.execute(command, listener)
    assert listener.joined("stdout") == result.stdout == data
    assert listener.joined("stderr") == result.stderr != b""
    assert all(piece for _, piece in listener.pieces)


async def test_the_listener_gets_the_beginning_up_to_the_cap(sandbox, folder):
    data = b"".join(b"%07d\n" % number for number in range(100_000))
    await sandbox.write_file(WriteFile(folder / "a", data))
    listener = Listener()
    await sandbox.execute(Exec(("cat", folder / "a"), max_output_bytes=10_000), listener)
    heard = listener.joined("stdout")
    assert 7_500 <= len(heard) <= 10_000
    assert data.startswith(heard)


async def test_the_listener_hears_while_the_command_runs(sandbox):
    listener = Listener()
    task = asyncio.create_task(sandbox.execute(FOR_EVER, listener))
    await listener.first()
    assert not task.done()
    await cancelled(task)
    assert listener.joined("stdout").startswith(b"y\ny\n")


# deadlines and cancelling


async def test_a_deadline_ends_a_silent_command(sandbox):
    result = await sandbox.execute(Exec(("sleep", "600"), timeout_s=0.2))
    receipt = result.receipt
    assert not result.ok
    assert (receipt.exit_cause, receipt.exit_code) == (ExitCause.TIMEOUT, None)
    assert 0.19 <= receipt.duration_s < 10
    assert receipt.killed_count == 1
    assert [process.name for process in receipt.killed] == ["sleep"]
    assert (await sandbox.execute(Exec(("echo", "next")))).stdout == b"next\n"


async def test_a_deadline_keeps_what_was_written_before(sandbox):
    result = await sandbox.execute(Exec(("yes", "line"), timeout_s=0.3, max_output_bytes=1000))
    assert (result.exit_cause, result.exit_code) == (ExitCause.TIMEOUT, None)
    total = result.receipt.stdout_bytes
    assert total > 1000
    assert result.stdout_truncated
    assert result.stdout.startswith(b"line\nline\n")
    assert b"\n[mindx: %d bytes left out]\n" % (total - 1000) in result.stdout
    assert (await sandbox.execute(Exec(("true",)))).ok


async def test_no_deadline_is_no_deadline(sandbox):
    assert (await sandbox.execute(Exec(("sleep", "0.05"), timeout_s=None))).ok


async def test_cancelling_kills_and_the_next_command_works(sandbox):
    listener = Listener()
    for _ in range(3):
        task = asyncio.create_task(sandbox.execute(FOR_EVER, listener))
        await listener.first()
        await cancelled(task)
        result = await asyncio.wait_for(sandbox.execute(Exec(("echo", "next"))), 10)
        assert result.stdout == b"next\n"


async def test_cancelling_before_the_start_of_a_command(sandbox):
    task = asyncio.create_task(sandbox.execute(Exec(("sleep", "600"))))
    await cancelled(task)
    assert (await sandbox.execute(Exec(("true",)))).ok


async def test_a_callers_own_timeout_is_a_cancellation(sandbox):
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(sandbox.execute(Exec(("sleep", "600"), timeout_s=None)), 0.1)
    assert (await sandbox.execute(Exec(("true",)))).ok


# the queue


async def test_commands_run_one_at_a_time(sandbox):
    first, second = Listener(), Listener()
    running = asyncio.create_task(sandbox.execute(FOR_EVER, first))
    await first.first()
    queued = asyncio.create_task(sandbox.execute(Exec(("echo", "second")), second))
    # As long as the first has not ended, nothing of the second may be heard.
    done, _ = await asyncio.wait({queued}, timeout=0.3)
    assert not done
    assert not second.pieces
    await cancelled(running)
    assert (await asyncio.wait_for(queued, 10)).stdout == b"second\n"


async def test_queued_commands_run_in_the_order_they_came(sandbox):
    ends: list[int] = []

    async def run(number: int) -> None:
        await sandbox.execute(Exec(("echo", str(number))))
        ends.append(number)

    await asyncio.gather(*(run(number) for number in range(8)))
    assert ends == list(range(8))


async def test_cancelling_a_queued_command_leaves_the_running_one_alone(sandbox):
    running = asyncio.create_task(sandbox.execute(Exec(("sleep", "0.4"))))
    await asyncio.sleep(0)
    heard = Listener()
    queued = asyncio.create_task(sandbox.execute(Exec(("echo", "never")), heard))
    await asyncio.sleep(0)
    await cancelled(queued)
    assert (await running).ok
    assert (await sandbox.execute(Exec(("true",)))).ok
    assert not heard.pieces


async def test_file_operations_answer_while_a_command_runs(sandbox, folder):
    listener = Listener()
    running = asyncio.create_task(sandbox.execute(FOR_EVER, listener))
    await listener.first()
    await asyncio.wait_for(sandbox.write_file(WriteFile(folder / "a", b"1")), 10)
    assert await asyncio.wait_for(sandbox.read_file(ReadFile(folder / "a")), 10) == b"1"
    assert not running.done()
    await cancelled(running)


async def test_a_listener_that_fails_ends_the_command_and_its_error_is_the_callers(sandbox):
    def listen(stream: str, data: bytes) -> None:
        raise KeyError("the caller's own")

    with pytest.raises(KeyError):
        await asyncio.wait_for(sandbox.execute(FOR_EVER, listen), 10)
    assert (await sandbox.execute(Exec(("true",)))).ok


# changed files


async def test_a_receipt_names_the_files_that_changed_if_it_is_asked_to(sandbox):
    await sandbox.write_file(WriteFile("/workspace/kept", b"1"))
    await sandbox.write_file(WriteFile("/workspace/touched", b"2"))
    command = Exec(("chmod", "600", "touched"), tells_files=True)
    altered = (await sandbox.execute(command)).receipt
    idle = (await sandbox.execute(Exec(("true",), tells_files=True))).receipt
    unasked = (await sandbox.execute(Exec(("chmod", "640", "touched")))).receipt
    assert "touched" in altered.files_changed
    assert altered.files_changed_complete
    assert (idle.files_changed, idle.files_changed_count, idle.files_changed_complete) == ((), 0, True)
    assert (unasked.files_changed, unasked.files_changed_count) == ((), None)
