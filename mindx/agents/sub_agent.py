"""Actions of the type AGENT: one agent gives another a task, by name, and gets its answer as an Observation."""

from __future__ import annotations

import dataclasses
from typing import Any

from mindx.agents.orchestrator import AgentOrchestrator
from mindx.agents.worker import Bounds
from mindx.core.action import ActionRequest, ActionTraits, ActionType
from mindx.core.agent_context import AgentContext
from mindx.core.agent_result import AgentResult
from mindx.core.checkpoint import RunOutcome
from mindx.core.observation import Observation, Status
from mindx.errors import InputError

MAX_TASK_CHARS = 100_000
_STATUSES = {
    RunOutcome.FINAL: Status.SUCCESS,
    RunOutcome.PARTIAL: Status.FAILURE,
    RunOutcome.CANCELLED: Status.CANCELLED,
    RunOutcome.ERROR: Status.ERROR,
}


class SubAgentExecutor:
    """Runs AGENT Actions as child tasks: the Action's name is the agent's, its one argument `task` a text.

    A child may do what both it and the one who asks may do. Give a ProviderReasoner `provider_schemas()` and
    `action_types()` beside those of the tools.
    """

    def __init__(self, orchestrator: AgentOrchestrator) -> None:
        self._orchestrator = orchestrator

    def provider_schemas(self) -> list[dict[str, Any]]:
        """Return one function for each agent that is registered by now."""
        task = {
            "type": "string",
            "minLength": 1,
            "description": "all that the agent needs to know; it sees nothing else",
        }
        parameters = {
            "type": "object",
            "properties": {"task": task},
            "required": ["task"],
            "additionalProperties": False,
        }
        return [
            {
                "type": "function",
                "function": {"name": one.name, "description": one.description, "parameters": parameters},
            }
            for one in self._orchestrator.workers
        ]

    def action_types(self) -> dict[str, ActionType]:
        """Return the type of each agent's name."""
        return {one.name: ActionType.AGENT for one in self._orchestrator.workers}

    def assess(self, request: ActionRequest, context: AgentContext) -> ActionTraits:
        """Return the agent's risk, or why it cannot be asked."""
        try:
            spec = self._orchestrator.worker(request.name)
        except InputError as error:
            return ActionTraits(problem=error.message)
        task = request.arguments.get("task")
        if not isinstance(task, str) or not task.strip() or len(task) > MAX_TASK_CHARS:
            return ActionTraits(problem=f"`task` is a text of at most {MAX_TASK_CHARS:,} characters")
        if set(request.arguments) != {"task"}:
            return ActionTraits(problem="the only argument is `task`")
        return ActionTraits(spec.risk, spec.require_approval)

    async def execute(self, request: ActionRequest, context: AgentContext) -> Observation:
        """Run the task to its end. Raises InputError when a bound of the orchestrator forbids it."""
        ceiling = Bounds(context.config, context.policy, context.environment)
        result = await self._orchestrator.run_agent(request.name, request.arguments["task"], ceiling=ceiling)
        return _observation(request, result)


def _observation(request: ActionRequest, result: AgentResult) -> Observation:
    told = {
        "status": _STATUSES[result.outcome].value,
        "agent": request.name,
        "task_id": result.run_id,
        "outcome": result.outcome.value,
        "final_answer": result.final_answer,
    }
    if result.error is not None:
        told["error"] = result.error
    # Ids are unique in one run; here those of several runs come together.
    evidence = tuple(
        dataclasses.replace(item, evidence_id=f"{result.run_id}.{item.evidence_id}") for item in result.evidence
    )
    return Observation(
        request.action_id,
        _STATUSES[result.outcome],
        result.error or "",
        told,
        error_info=result.error_info,
        evidence=evidence,
    )
