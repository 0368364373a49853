"""Loud agents: what a run holds in memory is bounded, however much its programs print."""

from __future__ import annotations

import asyncio
import tracemalloc

from mindx import (
    ActionRequest,
    AgentDecision,
    AgentEventType,
    AgentRuntime,
    ContextManager,
    ExecCommandTool,
    RunConfig,
    RunOutcome,
    Session,
    SessionEventType,
    ToolExecutor,
)
from mindx.core.command import Exec
from mindx.core.observation import Observation, Status
from mindx.core.receipt import ExecResult, ExitCause, Receipt
from mindx.runtime.kept import KeptObservations
from mindx.sandbox.fake import FakeSandbox

MIB = 1024 * 1024
STEPS = 300  # of 900 KB each, which stand in the result, in the streams and in the events: half a gigabyte
LIMIT = 64 * MIB


class Loud:
    """Runs one loud program after another, and keeps nothing."""

    tools = ()

    async def decide(self, context):
        if context.step > STEPS:
            return AgentDecision.complete("done")
        arguments = {"command": ["true"], "max_output_bytes": 500_000}
        return AgentDecision.act(ActionRequest(f"a{context.step}", "exec_command", arguments))


async def shout(ctx):
    ctx.write_stdout(b"o" * 500_000)
    ctx.write_stderr(b"e" * 400_000)
    return 0


def open_session(environment, policy):
    return Session("python-dev", open_sandbox=lambda loaded, progress: FakeSandbox({"true": shout}))


def test_a_loud_agent_takes_at_most_64_mib_and_every_action_keeps_its_observation():
    async def work():
        config = RunConfig(STEPS + 1, total_timeout_s=600, heartbeat_s=0.0, interactive=False)
        executor = ToolExecutor([ExecCommandTool()])
        async with AgentRuntime(
            Loud(), executor, context_manager=ContextManager(), config=config, open_session=open_session
        ) as runtime:
            return await runtime.run("be loud")

    tracemalloc.start()
    try:
        result = asyncio.run(work())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.outcome is RunOutcome.FINAL, result.error
    assert peak < LIMIT
    assert [seen.status for seen in result.observations] == [Status.SUCCESS] * STEPS
    assert len(result.observations[0].result["stdout"]) == 500_000
    assert len(result.evidence) == STEPS


def test_a_session_whose_events_nobody_reads_takes_no_more():
    async def work():
        config = RunConfig(STEPS + 1, total_timeout_s=600, heartbeat_s=0.0, interactive=False)
        executor = ToolExecutor([ExecCommandTool()])
        finished = asyncio.Event()

        def hear(event):
            if event.event_type is AgentEventType.RUN_FINISHED:
                finished.set()

        runtime = AgentRuntime(
            Loud(),
            executor,
            context_manager=ContextManager(),
            config=config,
            open_session=open_session,
            event_handler=hear,
        )
        async with runtime:
            session = runtime.create_session()
            await session.submit_run("be loud")
            await finished.wait()
            dropped = 0
            while True:
                event = await session.next_event()
                dropped += event.payload.get("dropped", 0)
                if event.event_type is SessionEventType.RUN_COMPLETED:
                    return dropped, event.payload["result"]

    tracemalloc.start()
    try:
        dropped, result = asyncio.run(work())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.outcome is RunOutcome.FINAL, result.error
    assert dropped > STEPS, "what was dropped is told"
    assert peak < LIMIT


def test_less_and_less_is_kept_and_what_is_kept_says_so():
    text = "x" * 100_000
    ran = ExecResult(Exec(("true",)), Receipt(ExitCause.EXIT, 0, stdout_bytes=len(text)), text.encode(), b"")
    seen = Observation("a", Status.SUCCESS, "well", {"stdout": text}, ran)
    kept = KeptObservations(whole_bytes=250_000, abridged_bytes=10_000)
    whole, shorter, bare = (kept.keep(seen) for _ in range(3))
    assert whole is seen
    assert len(shorter.result["stdout"]) < 5000
    assert "characters left out" in shorter.result["stdout"]
    assert shorter.execution is not None
    assert shorter.execution.stdout_truncated
    assert shorter.execution.receipt.stdout_bytes == len(text)
    assert (bare.status, bare.message, dict(bare.result), bare.execution) == (Status.SUCCESS, "well", {}, None)
