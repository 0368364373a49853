"""Intentions: the validated plan for one goal, how far it has come, and what its steps gave."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mindx.core.observation import Observation
from mindx.core.plan import EXECUTE_TOOL


class StepStatus(str, Enum):
    """How a step stands."""

    PENDING = "pending"
    STARTED = "started"
    DONE = "done"
    FAILED = "failed"


class PlanStatus(str, Enum):
    """How a plan stands."""

    READY = "READY"
    EXECUTING = "EXECUTING"
    PAUSED = "PAUSED"  # its goal waits for goals that it was split into
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class PlanStep(BaseModel):
    """One action. `params` may hold references; `result` is there when it is done; `attempts` counts its tries."""

    model_config = ConfigDict(extra="forbid")

    type: str
    params: dict[str, Any]
    status: StepStatus = StepStatus.PENDING
    result: dict[str, Any] | None = None
    message: str = ""
    attempts: int = 0

    @property
    def label(self) -> str:
        """Which action it is, in a few words."""
        if self.type != EXECUTE_TOOL:
            return self.type
        return f"{self.params.get('tool_id')} {self.params.get('command', '')}".strip()[:100]


class Intention(BaseModel):
    """A plan that was validated. `index` is the step that comes next, from 0; `sha256` is of the actions alone."""

    model_config = ConfigDict(extra="forbid")

    plan_id: str
    goal_id: str
    sha256: str
    steps: list[PlanStep] = Field(min_length=1)
    index: int = 0
    status: PlanStatus = PlanStatus.READY

    @property
    def step(self) -> PlanStep | None:
        """The step that comes next, None at the end."""
        return self.steps[self.index] if self.index < len(self.steps) else None

    @property
    def action_id(self) -> str:
        """The id of the coming try of the coming step: unique, as an action is asked for once."""
        step = self.steps[self.index]
        again = f"_try{step.attempts + 1}" if step.attempts else ""
        return f"act_{self.plan_id.removeprefix('plan_')}_{self.index}{again}"


def step_result(observation: Observation) -> dict[str, Any]:
    """Return what references to a step find: the tool's own dict, and `value` when it gave something else."""
    value = observation.value
    return {**observation.result} if value is None else {**observation.result, "value": value}
