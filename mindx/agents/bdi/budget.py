"""What an agent may spend, and what it has spent, over all of its runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from mindx.core.agent_error import ErrorCode
from mindx.core.agent_state import AgentState
from mindx.core.checkpoint import BoundaryReason, BoundaryScope, ExecutionBoundary
from mindx.errors import InputError
from mindx.runtime.limits import LimitReachedError

KINDS = ("cycles", "tokens", "seconds", "commands")


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that pursuing goals may cost; None means no limit. Raises InputError (budget_invalid).

    A cycle is one walk through perceive, deliberate, plan and execute. `tokens` are all that models count, `seconds`
    are of work, without the time that people take, `commands` are actions that use a tool. `plan_steps` is how long a
    plan may be, `repairs` how often a plan with faults goes back, `replans` how often a goal gets a new one after
    a failure, `plans` how many it may have in all.
    """

    cycles: int | None = 200
    tokens: int | None = 500_000
    seconds: float | None = 3600.0
    commands: int | None = 200
    plan_steps: int = 100
    repairs: int = 3
    replans: int = 3
    plans: int = 20
    goals: int = 50
    depth: int = 4

    def __post_init__(self) -> None:
        for name in ("cycles", "tokens", "seconds", "commands", "plan_steps", "plans", "goals", "depth"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or math.isnan(value) or value <= 0):
                raise InputError("budget_invalid", f"the budget of {name} is a number above 0")
        if self.repairs < 0 or self.replans < 0:
            raise InputError("budget_invalid", "repairs and replans are 0 or more")

    def reached(self, spent: Spent, names: Iterable[str] = KINDS) -> BudgetReachedError | None:
        """Return the error of the first of these budgets that is spent, or None."""
        for name in names:
            limit = getattr(self, name)
            if limit is not None and getattr(spent, name) >= limit:
                return BudgetReachedError(name, limit)
        return None


class Spent(BaseModel):
    """What was spent so far."""

    model_config = ConfigDict(extra="forbid")

    cycles: int = 0
    tokens: int = 0
    seconds: float = 0.0
    commands: int = 0


class BudgetReachedError(LimitReachedError):
    """A budget is spent: the run is PARTIAL, and a larger budget lets it go on."""

    def __init__(self, name: str, limit: float) -> None:
        self.name = name
        boundary = ExecutionBoundary(BoundaryScope.RUN, BoundaryReason.BUDGET, limit)
        message = f"the agent has used its budget of {limit:,g} {name}"
        super().__init__(ErrorCode.BUDGET_REACHED, message, boundary, AgentState.TIMEOUT)
