"""The planner: a model says whether one agent, several side by side, or a pipeline of them fits a goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from mindx.agents.answer import ask_json
from mindx.agents.orchestrator import AgentOrchestrator
from mindx.agents.pipeline import AgentPipeline, OnFailure, PipelineResult, PipelineStep
from mindx.errors import InputError
from mindx.providers.base import BaseProvider
from mindx.providers.router import ProviderRouter

MAX_STEPS = 16
_STEP = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "agent": {"type": "string"},
        "task": {"type": "string"},
        "depends_on": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "agent", "task", "depends_on"],
    "additionalProperties": False,
}
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "steps": {"type": "array", "items": _STEP}},
    "required": ["reason", "steps"],
    "additionalProperties": False,
}
_PROMPT = """You divide work among agents. Answer with JSON alone: {{"reason": ..., "steps": [{{"name", "agent", "task",
"depends_on"}}]}}. Use one step when one agent can do it all; several without depends_on when parts are independent;
depends_on where a step needs the answers of others, which are then added to its task. An agent sees only its task.
At most {most} steps. The agents:
{agents}"""


class OrchestrationMode(str, Enum):
    """What shape the work has."""

    SINGLE = "single"
    MULTI = "multi"
    PIPELINE = "pipeline"


@dataclass(frozen=True, slots=True)
class OrchestrationPlan:
    """The steps for a goal, and why. It can be shown to a person before it is run."""

    goal: str
    steps: tuple[PipelineStep, ...]
    reason: str = ""

    @property
    def mode(self) -> OrchestrationMode:
        """One step, several that do not depend on each other, or some that do."""
        if len(self.steps) == 1:
            return OrchestrationMode.SINGLE
        depends = any(step.depends_on for step in self.steps)
        return OrchestrationMode.PIPELINE if depends else OrchestrationMode.MULTI


class OrchestrationPlanner:
    """Plans for the agents of `orchestrator` and runs the plan within its bounds; `router` is the model that plans."""

    def __init__(
        self, orchestrator: AgentOrchestrator, router: ProviderRouter | BaseProvider, *, model: str = ""
    ) -> None:
        self._orchestrator = orchestrator
        self._router = router
        self._model = model

    async def plan(self, goal: str) -> OrchestrationPlan:
        """Return a plan that can be run; with one agent alone no model is asked.

        A model whose plan cannot be run is told why, up to three times in all. Raises ProviderError, and InputError
        (agent_unknown) when there are no agents.
        """
        workers = self._orchestrator.workers
        if len(workers) < 2:
            name = workers[0].name if workers else self._orchestrator.worker("any").name
            return OrchestrationPlan(goal, (PipelineStep("only", name, goal),), "there is one agent")
        agents = "\n".join(f"- {worker.name}: {worker.description or 'no description'}" for worker in workers)
        prompt, read = _PROMPT.format(most=MAX_STEPS, agents=agents), partial(self._checked, goal)
        return await ask_json(self._router, prompt, goal, read, schema=_SCHEMA, model=self._model)

    async def run(self, plan: OrchestrationPlan, *, parent_id: str | None = None) -> PipelineResult:
        """Run a plan. Where steps depend on each other a failure stops the rest, else the others go on."""
        stops = plan.mode is OrchestrationMode.PIPELINE
        on_failure = OnFailure.STOP if stops else OnFailure.SKIP
        return await AgentPipeline(self._orchestrator, plan.steps, on_failure=on_failure).run(parent_id=parent_id)

    def _checked(self, goal: str, value: Any) -> OrchestrationPlan:
        steps = value.get("steps") if isinstance(value, dict) else None
        if not isinstance(steps, list) or not 0 < len(steps) <= MAX_STEPS:
            raise InputError("pipeline_invalid", f"it is no object with 1 to {MAX_STEPS} steps")
        made = tuple(_step(step) for step in steps)
        AgentPipeline(self._orchestrator, made)  # names, agents, circles
        return OrchestrationPlan(goal, made, str(value.get("reason", ""))[:2000])


def _step(value: Any) -> PipelineStep:
    if isinstance(value, dict):
        texts = [value.get(name) for name in ("name", "agent", "task")]
        depends = value.get("depends_on", [])
        if all(isinstance(text, str) and text for text in texts) and isinstance(depends, list):
            name, agent, task = map(str, texts)
            return PipelineStep(name, agent, task, tuple(map(str, depends)))
    raise InputError("pipeline_invalid", "a step has name, agent and task (texts) and depends_on (names)")
