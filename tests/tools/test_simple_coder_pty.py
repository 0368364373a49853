"""SimpleCoder's programs in a terminal: judged and refused before they run, typed into, and waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mindx.core.command import Exec, Terminal
from mindx.core.observation import Status
from mindx.sandbox.fake import FakeSandbox
from mindx.sandbox.fake_programs import ProgramContext
from mindx.tools.command_tool import BoundTool, CallError
from mindx.tools.simple_coder import SimpleCoder
from mindx.tools.simple_coder_keys import KEYS
from mindx.tools.simple_coder_lower import CoderSettings
from mindx.tools.simple_coder_state import CoderState
from tests.tools.test_simple_coder_jobs import vetted

Work = Callable[[BoundTool[Any, CoderState], FakeSandbox], Awaitable[None]]


async def ask(ctx: ProgramContext) -> int:
    """Ask a few things, as an installer does; what it prints is not all clean."""
    ctx.write_stdout(b"\x1b[1mname?\x1b[0m \xff ")
    assert ctx.terminal is not None
    name = (await ctx.terminal.read()).strip()
    ctx.write_stdout(b"hello " + name + b"\nsure? ")
    return 0 if await ctx.terminal.read() == b"y\n" else 3


async def flood(ctx: ProgramContext) -> int:
    ctx.write_stdout(b"z" * 500)
    await asyncio.Event().wait()
    return 0


def session(work: Work, *, timeout_s: float | None = 20.0, most: int = 2) -> None:
    async def run() -> None:
        tool = SimpleCoder(CoderSettings(timeout_s=timeout_s, max_output_bytes=200, background=most))
        async with FakeSandbox({"ask": ask, "flood": flood}, background=most) as sandbox:
            await work(tool.bind(sandbox, tool.initial_state()), sandbox)

    asyncio.run(run())


def test_a_talk_from_the_open_to_the_close() -> None:
    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        opened = await tool.execute(command="pty_open", argv=["ask"], rows=30)
        assert opened == {"status": "SUCCESS", "job": "job1", "message": "`job1` runs `ask` in a terminal"}
        (sent,) = sandbox.commands
        assert isinstance(sent, Exec)
        assert (sent.terminal, sent.timeout_s) == (Terminal(30, 80), None)
        asked = await tool.execute(command="pty_expect", job="job1", text="name?")
        assert asked == {
            "status": "SUCCESS", "job": "job1", "state": "running", "return_code": None, "exit_cause": None,
            "message": "`job1` has shown `name?`", "output": "\x1b[1mname?",
        }  # fmt: skip
        typed = await tool.execute(command="pty_send", job="job1", text="Ann", keys=["enter"])
        assert typed == {"status": "SUCCESS", "job": "job1", "message": "Typed 4 bytes into `job1`"}
        sure = await tool.execute(command="pty_expect", job="job1", text="sure?")
        assert sure["output"] == "\x1b[0m \\xff Ann\r\nhello Ann\r\nsure?"
        assert (await tool.execute(command="pty_resize", job="job1", rows=2, cols=3))["status"] == "SUCCESS"
        await tool.execute(command="pty_send", job="job1", text="n\n")
        ended = await tool.execute(command="pty_expect", job="job1")
        assert (ended["status"], ended["state"], ended["return_code"]) == ("SUCCESS", "ended", 3)
        assert (ended["message"], ended["output"]) == ("`ask` ended with exit code 3", " n\r\n")
        closed = await tool.execute(command="pty_close", job="job1")
        assert (closed["status"], closed["return_code"], closed["exit_cause"]) == ("SUCCESS", 3, "exit")
        late = await tool.execute(command="pty_send", job="job1", text="x")
        assert late == {"status": "ERROR", "message": "the background command b1 has ended"}

    session(work)


def test_what_does_not_come_is_a_failure_and_stays_to_be_found() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        await tool.execute(command="pty_open", cmdline="cat")
        await tool.execute(command="pty_send", job="job1", text="abc\n")
        late = await tool.execute(command="pty_expect", job="job1", text="never", timeout_seconds=0.01)
        assert (late["status"], late["state"], late["output"]) == ("FAILURE", "running", "abc\r\nabc\r\n")
        assert late["message"] == "`never` of `job1` did not come in time"
        found = await tool.execute(command="pty_expect", job="job1", text="c\r\nabc")
        assert (found["status"], found["output"]) == ("SUCCESS", "abc\r\nabc")
        none = await tool.execute(command="pty_expect", job="job1", text="abc", timeout_seconds=0.01)
        assert (none["status"], none["output"]) == ("FAILURE", "\r\n")  # what was found is not found again
        waiting = await tool.execute(command="pty_expect", job="job1", timeout_seconds=0.01)
        assert (waiting["status"], waiting["message"]) == ("FAILURE", "the end of `job1` did not come in time")
        await tool.execute(command="pty_send", job="job1", keys=["ctrl-d"])
        over = await tool.execute(command="pty_expect", job="job1", text="abc")
        assert (over["status"], over["state"], over["return_code"]) == ("FAILURE", "ended", 0)
        assert over["message"] == "`job1` has ended without `abc`"

    session(work)


def test_a_text_in_pieces_is_found_and_waiting_ends_with_its_last_piece() -> None:
    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        await tool.execute(command="pty_open", argv=["cat"])
        waiting = asyncio.create_task(tool.execute(command="pty_expect", job="job1", text="one two"))
        for piece in (b"on", b"e t", b"w", b"o!"):
            await asyncio.sleep(0)
            await sandbox.send_background("b1", piece)
        assert (await waiting)["output"] == "one two"

    session(work)


def test_output_over_the_policys_ends_the_wait_at_once() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        await tool.execute(command="pty_open", argv=["flood"])
        full = await tool.execute(command="pty_expect", job="job1", text="never")
        assert (full["status"], full["output"]) == ("FAILURE", "z" * 200)
        assert full["message"] == "`job1` has printed the 200 bytes that are kept, without `never`; close it"
        assert (await tool.execute(command="logs", job="job1"))["truncated"]
        assert (await tool.execute(command="pty_close", job="job1"))["exit_cause"] == "cancelled"

    session(work, timeout_s=None)


def test_a_job_in_a_terminal_is_a_job_like_any() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        await tool.execute(command="start", argv=["sleep", "1000"])
        assert (await tool.execute(command="pty_open", argv=["cat"]))["job"] == "job2"
        assert (await tool.execute(command="pty_open", argv=["cat"]))["status"] == "ERROR"  # the policy's number
        await tool.execute(command="pty_send", job="job2", text="hey\n")
        await tool.execute(command="pty_expect", job="job2", text="hey\r\nhey")
        assert (await tool.execute(command="poll", job="job2"))["state"] == "running"
        assert (await tool.execute(command="logs", job="job2", tail=1))["stdout"] == "hey"
        assert (await tool.execute(command="stop", job="job2"))["exit_cause"] == "cancelled"

    session(work)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"command": "pty_open", "argv": ["x"], "rows": 0}, "is from 1 to 1,000, not 0"),
        ({"command": "pty_open", "argv": ["x"], "cols": 1001}, "is from 1 to 1,000, not 1001"),
        ({"command": "pty_open", "cmdline": "a | b"}, "`cmdline`:"),
        ({"command": "pty_send", "job": "job1"}, "takes `text` or `keys`; none is there"),
        ({"command": "pty_send", "job": "job1", "keys": ["entre"]}, "has no key `entre`, did you mean `enter`?"),
        ({"command": "pty_send", "job": "job1", "text": "x" * 65_537}, "at most 65,536"),
        ({"command": "pty_send", "job": "job1", "text": "\ud800"}, "half of a surrogate pair"),
        ({"command": "pty_send", "job": "job1", "keys": ["up"] * 1001}, "at most 1,000"),
        ({"command": "pty_expect", "job": "job1", "text": "x" * 1001}, "is at most 1,000 characters"),
        ({"command": "pty_expect", "job": "job1", "timeout_seconds": 0.0}, "is more than 0"),
        ({"command": "pty_resize", "job": "job1", "rows": 1}, "`cols` is missing"),
        ({"command": "pty_close"}, "`job` is missing"),
    ],
)
def test_wrong_calls(params: dict[str, Any], said: str) -> None:
    with pytest.raises(CallError) as caught:
        SimpleCoder().validate(params)
    assert said in caught.value.message


def test_a_plan_is_judged_before_it_runs() -> None:
    opened = {"command": "pty_open", "argv": ["python3", "-i"]}
    about = [
        {"command": "pty_send", "job": "job1", "text": "x"},
        {"command": "pty_expect", "job": "job1", "text": "x", "timeout_seconds": 60.0},
        {"command": "pty_resize", "job": "job1", "rows": 1, "cols": 1},
        {"command": "pty_close", "job": "job1"},
    ]
    assert vetted(opened, *about, background=1) == (None, [])
    outcome, faults = vetted(opened, *about)
    assert (outcome, len(faults)) == ("denied", 5)
    assert all("limits.background" in fault for fault in faults)
    outcome, faults = vetted({"command": "pty_open", "argv": ["curl", "x"]}, background=1)
    assert (outcome, len(faults)) == ("denied", 1)
    outcome, faults = vetted(*about, background=1)
    assert (outcome, {fault.split(" ", 1)[1] for fault in faults}) == ("invalid", {"there is no job `job1`"})
    outcome, faults = vetted({"command": "start", "argv": ["cat"]}, *about, background=1)
    assert (outcome, {fault.split(" ", 1)[1] for fault in faults}) == ("invalid", {"`job1` has no terminal"})
    outcome, faults = vetted(opened, {**about[1], "timeout_seconds": 61.0}, background=1)
    assert outcome == "denied"
    assert faults == [
        "$[1].params.timeout_seconds 61 s is longer than the policy's limits.command_timeout of 60 s"
    ]  # fmt: skip


def test_a_denial_is_an_outcome_too_and_reaches_no_sandbox() -> None:
    async def run() -> None:
        tool = SimpleCoder()
        async with FakeSandbox(background=1) as sandbox:
            outcome = await tool.perform({"command": "pty_open", "argv": ["cat"]}, tool.initial_state(), sandbox)
            assert outcome.status is Status.DENIED
            assert sandbox.commands == []

    asyncio.run(run())


def test_keys_are_what_a_terminal_sends() -> None:
    call = SimpleCoder().validate(
        {"command": "pty_send", "job": "j", "text": "\u00e9", "keys": ["up", "ctrl-c", "enter", "tab", "ctrl-z"]}
    )
    assert call.typed == "\u00e9".encode() + b"\x1b[A\x03\r\t\x1a"
    assert len(set(KEYS.values())) == len(KEYS) - 2  # ctrl-i is tab, and ctrl-m is enter
