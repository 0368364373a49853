"""A host process for test_durable: runs a session with a state folder until it is killed in the middle of an action."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from mindx import (
    ActionRequest,
    ActionRisk,
    AgentDecision,
    AgentRuntime,
    ApprovalResult,
    ApprovalScope,
    FunctionExecutor,
    RunConfig,
    ScriptedReasoner,
    SessionPolicy,
)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def main(state: Path, marks: Path, where: str) -> None:
    def mark(arguments: Any, context: Any) -> str:
        with marks.open("a") as file:
            file.write(f"{arguments['n']}\n")
        return "marked"

    async def mark_and_hang(arguments: Any, context: Any) -> str:
        if where == "before":
            say("in the middle")
            await asyncio.Event().wait()
        mark(arguments, context)
        say("in the middle")
        await asyncio.Event().wait()
        return "never"

    async def think_for_ever(context: Any) -> AgentDecision:
        say("in the middle")
        await asyncio.Event().wait()
        return AgentDecision.complete()

    executor = FunctionExecutor(
        {"mark": mark, "hang": mark_and_hang, "danger": mark},
        {"mark": ActionRisk.WRITE, "hang": ActionRisk.WRITE, "danger": ActionRisk.DANGEROUS},
    )
    lines: list[Any] = [
        AgentDecision.act(ActionRequest("1", "mark", {"n": 1}), ActionRequest("2", "danger", {"n": 2})),
        think_for_ever if where == "thinking" else AgentDecision.act(ActionRequest("3", "hang", {"n": 3})),
    ]
    runtime = AgentRuntime(
        ScriptedReasoner(lines),
        executor,
        config=RunConfig(heartbeat_s=0.0, allow_dangerous=True),
        state_dir=state,
        approval_handler=lambda request: ApprovalResult(True, scope=ApprovalScope.SESSION),
    )
    session = runtime.create_session("task-1", policy=SessionPolicy(allow_dangerous=True))
    await session.submit_run("make three marks", run_id="r1", artifacts={"colour": "blue"})
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
