"""Closing: sessions and runs end, nothing new begins, and what you gave is yours unless you say otherwise."""

import asyncio

from mindx import (
    AgentOrchestrator,
    AgentRuntime,
    AgentWorkerSpec,
    FunctionExecutor,
    InputError,
    ProviderReasoner,
    ScriptedProvider,
    ScriptedTurn,
)


async def main() -> None:
    asked, never = asyncio.Event(), asyncio.Event()
    model = ScriptedProvider([ScriptedTurn("too late", gate=never, asked=asked)])
    runtime = AgentRuntime(ProviderReasoner(model), FunctionExecutor({}))
    session = runtime.create_session()
    await session.submit_run("wait for a model that never answers")
    await asked.wait()
    report = await runtime.close()
    print("session:", session.state.value, "runs left:", len(runtime.active_run_ids), "clean:", report.ok)
    try:
        await runtime.run("one more")
    except InputError as error:
        print("refused:", error.code)
    print("the model is", "closed" if model.closed else "still the caller's")
    await runtime.close(close_dependencies=True)
    print("the model is", "closed" if model.closed else "still the caller's")

    slow = ScriptedProvider(lambda request: ScriptedTurn("too late", gate=never))
    worker = AgentRuntime(ProviderReasoner(slow), FunctionExecutor({}))
    async with AgentOrchestrator([AgentWorkerSpec("slow", worker)]) as orchestrator:
        task_id = await orchestrator.start_agent("slow", "wait")
    print("background task:", orchestrator.task_view(task_id).outcome.value)
    await orchestrator.close(close_workers=True)
    print("the worker's model is", "closed" if slow.closed else "still the caller's")


asyncio.run(main())
