"""Intentions: the validated plan for one goal, how far it has come, and what its steps gave."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mindx.core.observation import Observation
from mindx.core.plan import EXECUTE_TOOL

MAX_KEPT = 8 * 1024 * 1024  # characters of all results of a plan
SMALL = 64 * 1024


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
    """A plan that was validated. `index` is the step that comes next, from 0; `sha256` is of the actions alone.

    `complete` False: at its end the goal gets a further plan, that builds on what this one found.
    """

    model_config = ConfigDict(extra="forbid")

    plan_id: str
    goal_id: str
    sha256: str
    complete: bool = True
    steps: list[PlanStep] = Field(min_length=1)
    index: int = 0
    status: PlanStatus = PlanStatus.READY

    @property
    def open(self) -> bool:
        """True until it is completed or failed."""
        return self.status not in (PlanStatus.COMPLETED, PlanStatus.FAILED)

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

    def done(self, index: int, result: dict[str, Any]) -> None:
        """Note that a step is done; the oldest large results are let go when all have over MAX_KEPT characters."""
        step = self.steps[index]
        step.status, step.result = StepStatus.DONE, result
        self.index = index + 1
        if len(str(result)) <= SMALL:
            return
        sizes = [(len(str(item.result)), item) for item in self.steps if item.result is not None and item is not step]
        total = len(str(result)) + sum(size for size, _ in sizes)
        for size, item in sizes:
            if total > MAX_KEPT and size > SMALL:
                item.result = {"status": "SUCCESS", "note": "too large to keep"}
                total -= size


def step_result(observation: Observation) -> dict[str, Any]:
    """Return what references to a step find: the tool's own dict, and `value` when it gave something else."""
    value = observation.value
    return {**observation.result} if value is None else {**observation.result, "value": value}
