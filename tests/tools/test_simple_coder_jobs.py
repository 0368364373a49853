"""Background jobs of SimpleCoder: off unless the policy says so, named before they run, and told as they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mindx.core.command import Exec
from mindx.core.observation import Status
from mindx.core.plan import parse_plan
from mindx.core.receipt import ExitCause
from mindx.errors import SandboxError, SandboxLostError
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import load_policy
from mindx.policy.model import Limits
from mindx.runtime.vetting import refusal_of, tools_for
from mindx.sandbox.base import BackgroundState
from mindx.sandbox.driver import Driver
from mindx.sandbox.fake import FakeSandbox
from mindx.sandbox.fake_programs import ProgramContext, ProgramEnd
from mindx.tools.command_tool import BoundTool, CallError
from mindx.tools.simple_coder import SimpleCoder
from mindx.tools.simple_coder_jobs import printed
from mindx.tools.simple_coder_lower import CoderSettings
from mindx.tools.simple_coder_state import CoderState
from mindx.tools.vet import vet

OFF = "the policy allows none: its limits.background is 0; limits: {background: 2} in a policy allows two"
Work = Callable[[BoundTool[Any, CoderState], FakeSandbox], Awaitable[None]]


async def serve(ctx: ProgramContext) -> int:
    """Say a few lines that are not all clean, and go on for ever."""
    ctx.write_stdout(b"one\ntwo \xff\n\x1b[2Jthree\n")
    ctx.write_stderr(b"\nwarned\n")
    await asyncio.Event().wait()
    return 0


async def fail(ctx: ProgramContext) -> int:
    ctx.write_stderr(b"no\n")
    return 3


async def out_of_sight(ctx: ProgramContext) -> int:
    raise ProgramEnd(ExitCause.ENGINE)


PROGRAMS = {"serve": serve, "fail": fail, "out_of_sight": out_of_sight}


def session(work: Work, *, most: int = 2, allowed: int | None = None) -> None:
    """Run `work` with a tool in a fresh sandbox that takes `most` jobs; the tool believes in `allowed`."""

    async def run() -> None:
        tool = SimpleCoder(CoderSettings(background=most if allowed is None else allowed))
        async with FakeSandbox(PROGRAMS, background=most) as sandbox:
            await work(tool.bind(sandbox, tool.initial_state()), sandbox)

    asyncio.run(run())


async def ended(tool: BoundTool[Any, CoderState], job: str) -> dict[str, Any]:
    """Poll until a job has ended; its end is a matter of the loop's next turns."""
    for _ in range(1000):
        found = await tool.execute(command="poll", job=job)
        if found.get("state") != "running":
            return found
        await asyncio.sleep(0)
    raise AssertionError("it goes on")


def test_a_job_from_its_start_to_its_stop() -> None:
    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        started = await tool.execute(command="start", argv=["serve", "x"])
        assert started == {"status": "SUCCESS", "job": "job1", "message": "`job1` runs `serve` in the background"}
        assert (await tool.execute(command="run", argv=["echo", "beside"]))["stdout"] == "beside"
        running = {"status": "SUCCESS", "job": "job1", "state": "running", "return_code": None, "exit_cause": None}
        assert await tool.execute(command="poll", job="job1") == {**running, "message": "`job1` is running"}
        logs = {"status": "SUCCESS", "job": "job1", "state": "running", "stderr": "warned"}
        assert await tool.execute(command="logs", job="job1") == {**logs, "stdout": "one\ntwo \\xff\n\x1b[2Jthree"}
        assert (await tool.execute(command="logs", job="job1", tail=2))["stdout"] == "two \\xff\n\x1b[2Jthree"
        stopped = await tool.execute(command="stop", job="job1")
        wanted = {"state": "ended", "exit_cause": "cancelled", "message": "`serve` was cancelled"}
        assert stopped == {**running, **wanted}
        assert await tool.execute(command="stop", job="job1") == stopped
        assert await tool.execute(command="poll", job="job1") == stopped
        assert (await tool.execute(command="logs", job="job1"))["state"] == "ended"

    session(work)


def test_a_job_that_fails_is_told_by_a_poll_that_succeeds() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        await tool.execute(command="start", cmdline="fail")
        found = await ended(tool, "job1")
        assert (found["status"], found["state"], found["return_code"], found["exit_cause"]) == (
            "SUCCESS", "ended", 3, "exit",
        )  # fmt: skip
        assert found["message"] == "`fail` ended with exit code 3"
        await tool.execute(command="start", cmdline="true")
        assert (await ended(tool, "job2"))["message"] == "`job2` ended with exit code 0"
        await tool.execute(command="start", cmdline="nowhere")
        assert (await ended(tool, "job3"))["exit_cause"] == "not_found"

    session(work)


def test_what_is_not_certain_is_no_success() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        await tool.execute(command="start", argv=["out_of_sight"])
        assert (await ended(tool, "job1"))["status"] == "ERROR"

    session(work)


def test_the_policys_number_is_kept_and_a_failed_start_takes_no_name() -> None:
    async def work(tool: BoundTool[Any, CoderState], _: FakeSandbox) -> None:
        await tool.execute(command="start", argv=["serve"])
        full = await tool.execute(command="start", argv=["serve"])
        assert full == {"status": "ERROR", "message": "too many background commands run already; stop one"}
        assert list(tool.state.jobs) == ["job1"]
        await tool.execute(command="stop", job="job1")
        assert (await tool.execute(command="start", argv=["serve"]))["job"] == "job2"

    session(work, most=1)


def test_a_sandbox_without_background_commands_breaks_nothing_silently() -> None:
    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        with pytest.raises(SandboxError) as caught:
            await tool.execute(command="start", argv=["serve"])
        assert caught.value.code == "background_off"
        sandbox.lose("it died")
        with pytest.raises(SandboxLostError):
            await tool.execute(command="start", argv=["serve"])

    session(work, most=0, allowed=1)


@pytest.mark.parametrize(
    "params",
    [
        {"command": "start", "argv": ["serve"]},
        {"command": "poll", "job": "job1"},
        {"command": "logs", "job": "job1"},
        {"command": "stop", "job": "job1"},
    ],
    ids=lambda params: params["command"],
)
def test_off_by_default_with_the_key_that_turns_it_on(params: dict[str, Any]) -> None:
    async def run() -> None:
        tool = SimpleCoder()
        async with FakeSandbox(PROGRAMS, background=2) as sandbox:
            outcome = await tool.perform(params, tool.initial_state(), sandbox)
            assert outcome.status is Status.DENIED
            assert outcome.message == f"`{params['command']}` needs background commands, and {OFF}"
            assert sandbox.commands == []

    asyncio.run(run())


def test_lowering_is_what_is_judged_and_names_the_job() -> None:
    tool = SimpleCoder(CoderSettings(timeout_s=9, max_output_bytes=77, background=1))
    state = CoderState(cwd="/workspace/app", env={"A": "b"}, venv="/workspace/v")
    call = tool.validate({"command": "start", "cmdline": "python 'a b'", "timeout_seconds": 5})
    lowered = tool.lower(call, state)
    (command,) = lowered.commands
    assert command == Exec(
        ("python", "a b"),
        cwd="/workspace/app",
        env=state.program_env(),
        timeout_s=5,
        max_output_bytes=77,
        executable="/workspace/v/bin/python",
    )
    assert dict(lowered.state.jobs) == {"job1": ""}
    assert (lowered.subject, tool.lower(tool.validate({"command": "start", "argv": ["x"]}), state).subject) == (
        ".cmdline", ".argv",
    )  # fmt: skip
    poll = tool.validate({"command": "poll", "job": "job1"})
    assert tool.lower(poll, lowered.state).commands == ()
    with pytest.raises(CallError, match="there is no job `job1`; no job was started"):
        tool.lower(poll, state)
    with pytest.raises(CallError, match="there is no job `job7`; the jobs are job1"):
        tool.lower(tool.validate({"command": "stop", "job": "job7"}), lowered.state)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"command": "start"}, "`start` takes exactly one of `argv`, `cmdline` and `shell`; none is there"),
        ({"command": "start", "cmdline": "a | b"}, "`cmdline`:"),
        ({"command": "start", "argv": ["./a"]}, "is a path"),
        ({"command": "start", "argv": ["a"], "stdin": "x"}, "unknown parameter `stdin`"),
        ({"command": "start", "argv": ["a"], "timeout_seconds": 0.0}, "is more than 0"),
        ({"command": "poll"}, "`job` is missing"),
        ({"command": "logs", "job": "job1", "tail": 0}, "is from 1 to 1,000,000 lines, not 0"),
        ({"command": "logs", "job": "job1", "tail": "2"}, "`tail` is"),
        ({"command": "stop", "job": 1}, "`job` is text, not a number"),
    ],
)
def test_wrong_calls(params: dict[str, Any], said: str) -> None:
    with pytest.raises(CallError) as caught:
        SimpleCoder().validate(params)
    assert said in caught.value.message


def test_a_deadline_is_the_policys_to_allow_and_none_means_until_it_is_stopped() -> None:
    policy = load_policy().policy
    limits = Limits(background=2)
    seen: list[float | None] = []

    class Watched(FakeSandbox):
        async def start_background(self, command: Exec) -> str:
            seen.append(command.timeout_s)
            return await super().start_background(command)

    async def run() -> None:
        tool = tools_for(limits).get("simple_coder")
        assert isinstance(tool, SimpleCoder)
        async with Driver(Watched(background=2), PolicyEngine(policy, autonomous=False).judge) as sandbox:
            bound = tool.bind(sandbox, tool.initial_state())
            assert (await bound.execute(command="start", cmdline="sleep 1000"))["status"] == "SUCCESS"
            assert (await bound.execute(command="start", cmdline="sleep 9", timeout_seconds=60.0))["job"] == "job2"
            late = await bound.execute(command="start", cmdline="sleep 9", timeout_seconds=61.0)
            assert "limits.command_timeout" in late["message"]
            denied = await bound.execute(command="start", cmdline="curl x")
            assert denied["message"].startswith("denied by the policy")

    asyncio.run(run())
    assert seen == [None, 60.0]


def vetted(*calls: dict[str, Any], background: int = 0) -> tuple[str | None, list[str]]:
    """Return a plan's outcome before it runs, and the faults."""
    plan = [{"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", **call}} for call in calls]
    tools = tools_for(Limits(background=background))
    judge = PolicyEngine(load_policy().policy, autonomous=False).judge
    found = vet(parse_plan(json.dumps(plan).encode()), tools, judge)
    refusal = refusal_of(found)
    return None if refusal is None else refusal.value, [f"{fault.path} {fault.message}" for fault in found.faults]


def test_a_plan_is_judged_before_it_runs() -> None:
    start, poll = {"command": "start", "argv": ["sleep", "9"]}, {"command": "poll", "job": "job1"}
    assert vetted(start, poll, background=2) == (None, [])
    outcome, faults = vetted(start, poll)
    assert outcome == "denied"  # not invalid: the plan is right, the policy is not for it
    assert all("limits.background" in fault for fault in faults)
    outcome, faults = vetted(start, {"command": "poll", "job": "job2"}, background=2)
    assert (outcome, faults) == ("invalid", ["$[1].params.job there is no job `job2`"])
    outcome, faults = vetted({"command": "start", "argv": ["curl", "x"]}, background=2)
    assert outcome == "denied"
    assert faults[0].startswith("$[0].params.argv policy rule")


def test_logs_say_that_there_may_have_been_more() -> None:
    command = Exec(("x",), max_output_bytes=3)
    assert printed("job1", BackgroundState("b1", command, b"abc", b"", None), None)["truncated"]
    assert "truncated" not in printed("job1", BackgroundState("b1", command, b"ab", b"", None), None)


def test_what_another_has_started_is_out_of_reach() -> None:
    async def work(tool: BoundTool[Any, CoderState], sandbox: FakeSandbox) -> None:
        assert await sandbox.start_background(Exec(("serve",))) == "b1"
        await tool.execute(command="start", argv=["serve"])
        assert dict(tool.state.jobs) == {"job1": "b2"}
        assert (await tool.execute(command="stop", job="b1"))["message"].startswith("there is no job `b1`")

    session(work)
