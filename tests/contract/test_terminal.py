"""The contract of a background command in a terminal: it is typed into, waited for, resized, and ended like any."""

from __future__ import annotations

import asyncio
from hashlib import sha256

import pytest

from mindx.core.command import Exec, Terminal
from mindx.core.receipt import ExitCause
from mindx.errors import SandboxError, SandboxLostError

pytestmark = pytest.mark.anyio
CAT = Exec(("cat",), timeout_s=None, terminal=Terminal())
THE_END = 1 << 60
PATIENCE_S = 20.0


async def refusal(call) -> str:
    with pytest.raises(SandboxError) as caught:
        await call
    return caught.value.code


async def shows(sandbox, name: str, wanted: bytes):
    state = await sandbox.poll_background(name)
    while wanted not in state.stdout and state.running:
        before = len(state.stdout)
        state = await sandbox.await_background(name, before, PATIENCE_S)
        assert len(state.stdout) > before or not state.running, state.stdout
    return state


async def end(sandbox, name: str):
    state = await sandbox.await_background(name, THE_END, PATIENCE_S)
    assert not state.running
    return state


async def test_it_is_a_terminal_and_what_has_none_says_so(backend):
    async with backend.make(background=1) as sandbox:
        with_one = await end(sandbox, await sandbox.start_background(Exec(("tty",), terminal=Terminal())))
        assert with_one.stdout.startswith(b"/dev/pts/")
        without = await end(sandbox, await sandbox.start_background(Exec(("tty",))))
        assert without.stdout == b"not a tty\n"


async def test_lines_are_echoed_and_read_and_control_d_ends_the_input(backend):
    async with backend.make(background=1) as sandbox:
        name = await sandbox.start_background(CAT)
        await sandbox.send_background(name, b"one\r")
        await shows(sandbox, name, b"one\r\none\r\n")
        await sandbox.send_background(name, b"two\n\x04")
        state = await end(sandbox, name)
        assert state.stdout == b"one\r\none\r\ntwo\r\ntwo\r\n"
        assert (state.result.ok, state.stderr) == (True, b"")
        assert state.result.receipt.stdout_sha256 == sha256(state.stdout).hexdigest()


async def test_input_that_comes_with_the_command_is_typed_first(backend):
    async with backend.make(background=1) as sandbox:
        name = await sandbox.start_background(Exec(("cat",), stdin=b"early\n", terminal=Terminal()))
        await sandbox.send_background(name, b"late\n\x04")
        assert (await end(sandbox, name)).stdout.count(b"early\r\n") == 2


async def test_control_c_is_the_signal(backend):
    async with backend.make(background=1) as sandbox:
        name = await sandbox.start_background(CAT)
        await sandbox.send_background(name, b"on\n")
        await shows(sandbox, name, b"on\r\non\r\n")
        await sandbox.send_background(name, b"\x03")
        state = await end(sandbox, name)
        assert (state.result.exit_cause, state.result.receipt.signal) == (ExitCause.SIGNAL, 2)
        assert b"^C" in state.stdout


async def test_its_size_is_told_and_changed(backend):
    async with backend.make(background=2) as sandbox:
        size = Exec(("stty", "size"), terminal=Terminal(30, 1000))
        assert (await end(sandbox, await sandbox.start_background(size))).stdout == b"30 1000\r\n"
        name = await sandbox.start_background(CAT)
        await sandbox.resize_background(name, Terminal(1000, 1))
        for wrong in (Terminal(0, 80), Terminal(24, 1001)):
            assert await refusal(sandbox.resize_background(name, wrong)) == "bad_command"
            assert await refusal(sandbox.start_background(Exec(("cat",), terminal=wrong))) == "bad_command"
        assert (await sandbox.poll_background(name)).running


async def test_waiting_ends_at_its_time_and_at_once_where_more_is_there(backend):
    async with backend.make(background=1) as sandbox:
        name = await sandbox.start_background(CAT)
        state = await sandbox.await_background(name, 0, 0.05)
        assert (state.running, state.stdout) == (True, b"")
        waiting = asyncio.create_task(sandbox.await_background(name, 0, PATIENCE_S))
        await sandbox.send_background(name, b"x")
        assert (await waiting).stdout == b"x"
        assert (await sandbox.await_background(name, 0, PATIENCE_S)).stdout == b"x"


async def test_a_stop_and_a_close_end_the_wait_for_it(backend):
    async with backend.make(background=2) as sandbox:
        names = [await sandbox.start_background(CAT) for _ in range(2)]
        stopped, lost = (asyncio.create_task(sandbox.await_background(name, THE_END, PATIENCE_S)) for name in names)
        await asyncio.sleep(0)
        assert (await sandbox.stop_background(names[0])).result.exit_cause is ExitCause.CANCELLED
        assert (await stopped).result.exit_cause is ExitCause.CANCELLED
    with pytest.raises(SandboxLostError):
        await lost


async def test_the_first_of_its_output_is_kept_and_all_is_counted(backend):
    async with backend.make(background=1) as sandbox:
        flood = Exec(("yes",), timeout_s=None, max_output_bytes=1000, terminal=Terminal())
        name = await sandbox.start_background(flood)
        state = await sandbox.await_background(name, 999, PATIENCE_S)
        assert state.stdout == (b"y\r\n" * 334)[:1000]
        await sandbox.stop_background(name)
        name = await sandbox.start_background(Exec(("echo", "x" * 50), max_output_bytes=10, terminal=Terminal()))
        result = (await end(sandbox, name)).result
        assert result.stdout == b"x" * 10 + b"\n[mindx: 42 bytes left out]\n"
        assert (result.truncated, result.receipt.stdout_bytes) == (True, 52)
        assert result.receipt.stdout_sha256 == sha256(b"x" * 50 + b"\r\n").hexdigest()


async def test_what_only_a_running_terminal_can_do_is_refused_elsewhere(backend):
    async with backend.make(background=2) as sandbox:
        assert await refusal(sandbox.execute(CAT)) == "bad_command"
        plain = await sandbox.start_background(Exec(("sleep", "1000"), timeout_s=None))
        over = await sandbox.start_background(Exec(("true",), terminal=Terminal()))
        await end(sandbox, over)
        for name, code in ((plain, "background_no_terminal"), (over, "background_over"), ("b9", "background_unknown")):
            assert await refusal(sandbox.send_background(name, b"x")) == code
            assert await refusal(sandbox.resize_background(name, Terminal())) == code
        assert await refusal(sandbox.await_background("b9", 0, 1)) == "background_unknown"


async def test_what_cannot_be_started_ends_the_same_way(backend):
    async with backend.make(background=1) as sandbox:
        name = await sandbox.start_background(Exec(("nowhere",), terminal=Terminal()))
        assert (await end(sandbox, name)).result.exit_cause is ExitCause.NOT_FOUND
        name = await sandbox.start_background(Exec(("cat",), cwd="/workspace/none", terminal=Terminal()))
        assert (await end(sandbox, name)).result.exit_cause is ExitCause.NOT_EXECUTABLE
