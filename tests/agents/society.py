"""What the tests of several agents share: agents that are a function, and an orchestrator of them."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from mindx import (
    ActionDispatcher,
    ActionRequest,
    ActionRisk,
    ActionType,
    AgentDecision,
    AgentOrchestrator,
    AgentRuntime,
    AgentWorkerSpec,
    RunConfig,
    SubAgentExecutor,
)
from tests.agents.support import World

CONFIG = RunConfig(heartbeat_s=0.0)
say = AgentDecision.complete


class Mind:
    """A Reasoner that is a function of the context; what is no decision is the final answer."""

    def __init__(self, decide: Any) -> None:
        self._decide = decide

    async def decide(self, context: Any) -> AgentDecision:
        decision = self._decide(context)
        if inspect.isawaitable(decision):
            decision = await decision
        return decision if isinstance(decision, AgentDecision) else say(str(decision))


class Society:
    """An orchestrator with agents, each a function of its context; AGENT Actions reach the other agents."""

    def __init__(self, minds: dict[str, Any], specs: dict[str, dict[str, Any]] | None = None, **bounds: Any) -> None:
        self.world = World()
        self.orchestrator = AgentOrchestrator(**bounds)
        self.executor = SubAgentExecutor(self.orchestrator)
        self.contexts: dict[str, list[Any]] = {name: [] for name in minds}
        for name, mind in minds.items():
            options = (specs or {}).get(name, {})
            self.orchestrator.register(AgentWorkerSpec(name, self.runtime(name, mind), **options))

    def runtime(self, name: str, mind: Any) -> AgentRuntime:
        def decide(context: Any) -> Any:
            if context.step == 1:
                self.contexts[name].append(context)
            return mind(context)

        parts = {ActionType.TOOL: self.world.executor(), ActionType.AGENT: self.executor}
        return AgentRuntime(Mind(decide), ActionDispatcher(parts), config=CONFIG)


def ask(*agents: str, task: str = "do it") -> AgentDecision:
    """Return the decision to give each of the agents a task."""
    requests = (
        ActionRequest(f"a{number}", name, {"task": task}, ActionType.AGENT) for number, name in enumerate(agents)
    )
    return AgentDecision.act(*requests)


def delegate(*agents: str) -> Any:
    """Return a mind that gives its own task to others and answers with what they said."""

    def decide(context: Any) -> Any:
        if context.step == 1:
            return ask(*agents, task=context.task)
        return "+".join(item.result.get("final_answer") or item.status.value for item in context.observations)

    return decide


def waits(gate: asyncio.Event, running: list[str]) -> Any:
    """Return a mind that thinks until `gate` is set; `running` holds the runs that do."""

    async def decide(context: Any) -> str:
        running.append(context.run_id)
        try:
            await gate.wait()
        finally:
            running.remove(context.run_id)
        return "waited"

    return decide


async def until(condition: Any) -> None:
    """Let the others go on until it is so."""
    while not condition():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0)


READ_ONLY = {"risk": ActionRisk.READ_ONLY}
