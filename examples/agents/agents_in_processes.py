"""Agents in processes of their own: one answers, one dies in the middle of its task, and the chief goes on."""

import asyncio
import os

from mindx import (
    ActionDispatcher,
    ActionRequest,
    ActionRisk,
    ActionType,
    AgentDecision,
    AgentOrchestrator,
    AgentProcess,
    AgentRuntime,
    AgentWorkerSpec,
    FunctionExecutor,
    ScriptedReasoner,
    SubAgentExecutor,
)


def reader() -> AgentRuntime:
    """Return the runtime of a worker; this is called in its own process."""
    other = "another process" if os.environ.get("CHIEF") != str(os.getpid()) else "the chief's process"
    return AgentRuntime(ScriptedReasoner([AgentDecision.complete(f"read in {other}")]), FunctionExecutor({}))


def crasher() -> AgentRuntime:
    """Return a runtime whose one tool takes its process down."""
    crash = FunctionExecutor({"crash": lambda arguments, context: os._exit(7)}, {"crash": ActionRisk.READ_ONLY})
    return AgentRuntime(ScriptedReasoner([AgentDecision.act(ActionRequest("1", "crash", {}))]), crash)


def chief(orchestrator: AgentOrchestrator) -> AgentRuntime:
    """Return an agent that asks both, and says what came of it."""

    def ask(name: str) -> ActionRequest:
        return ActionRequest(name, name, {"task": "look into it"}, ActionType.AGENT)

    def told(context) -> AgentDecision:
        said = {
            item.action_id: item.result["final_answer"] or item.error_info.code.value for item in context.observations
        }
        return AgentDecision.complete("; ".join(f"{name}: {text}" for name, text in said.items()))

    executors = {ActionType.TOOL: FunctionExecutor({}), ActionType.AGENT: SubAgentExecutor(orchestrator)}
    script = [AgentDecision.act(ask("reader"), ask("crasher")), told]
    return AgentRuntime(ScriptedReasoner(script), ActionDispatcher(executors))


async def main() -> None:
    os.environ["CHIEF"] = str(os.getpid())
    async with AgentOrchestrator() as orchestrator:
        for name in ("reader", "crasher"):
            orchestrator.register(AgentWorkerSpec(name, AgentProcess(f"{__file__}:{name}")))
        orchestrator.register(AgentWorkerSpec("chief", chief(orchestrator)))
        print((await orchestrator.run_agent("chief", "look into it")).final_answer)


if __name__ == "__main__":
    asyncio.run(main())
