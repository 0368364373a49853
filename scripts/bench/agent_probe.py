"""The agent's figures: what a step of the loop costs with a model that answers at once, alone and in 100 sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from mindx import ActionRisk, AgentRuntime, FunctionExecutor, RunConfig, SessionEventType, ToolCall, TraceRecorder
from mindx.core.agent_context import AgentContext
from mindx.core.command import Exec
from mindx.core.message import Role
from mindx.providers.base import ModelRequest
from mindx.providers.scripted import ScriptedProvider, ScriptedTurn
from mindx.runtime.context.manager import ContextManager
from mindx.runtime.provider_reasoner import ProviderReasoner
from mindx.runtime.session import Session
from mindx.sandbox.fake import FakeSandbox

STEPS = 10
SESSIONS = 100
_SCHEMA = {"name": "cat", "description": "Print a text.", "parameters": {"type": "object"}}


async def _cat(arguments: Mapping[str, Any], context: AgentContext) -> dict[str, Any]:
    assert context.open_sandbox is not None
    sandbox = await context.open_sandbox()
    done = await sandbox.execute(Exec(("cat",), stdin=b"text"))
    return {"status": "SUCCESS", "stdout": done.stdout_text}


def _runtime(folder: Path, recorder: TraceRecorder) -> AgentRuntime:
    numbers = count()

    def answer(request: ModelRequest) -> str | ScriptedTurn:
        done = sum(message.role is Role.TOOL for message in request.messages)
        return "done" if done >= STEPS else ScriptedTurn(calls=(ToolCall(f"c{next(numbers)}", "cat", {"n": done}),))

    return AgentRuntime(
        ProviderReasoner(ScriptedProvider(answer), [_SCHEMA]),
        FunctionExecutor({"cat": _cat}, {"cat": ActionRisk.READ_ONLY}),
        context_manager=ContextManager(),
        event_handler=recorder,
        config=RunConfig(max_steps=STEPS + 1, interactive=False),
        open_session=lambda environment, policy: Session(open_sandbox=lambda loaded, progress: FakeSandbox()),
    )


async def _run_session(runtime: AgentRuntime) -> None:
    session = runtime.create_session()
    await session.submit_run("ten steps")
    async for event in session.events():
        if event.event_type is SessionEventType.RUN_COMPLETED:
            assert event.payload["result"].ok, event.payload["result"].error
            break
    await session.close()


async def seconds_per_step(folder: Path, sessions: int) -> float:
    """Return wall seconds for one step when so many sessions of STEPS steps run at once, traces included."""
    with TraceRecorder(folder) as recorder:
        async with _runtime(folder, recorder) as runtime:
            began = time.perf_counter()
            await asyncio.gather(*(_run_session(runtime) for _ in range(sessions)))
            return (time.perf_counter() - began) / (sessions * STEPS)
