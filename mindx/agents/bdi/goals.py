"""Desires: the goals of an agent, which of them comes next, and what depends on what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum

from pydantic import BaseModel, ConfigDict, Field

from mindx.agents.bdi.criteria import Criterion
from mindx.core.quote import quoted
from mindx.errors import InputError

PRIMARY_PRIORITY = 100
MAX_GOAL_CHARS = 20_000


class GoalStatus(str, Enum):
    """How a goal stands."""

    PENDING = "pending"
    ACTIVE = "active"
    PAUSED_DEPENDENCY = "paused_dependency"  # it waits for the goals that it depends on
    COMPLETED_SUCCESS = "completed_success"
    FAILED_PLANNING = "failed_planning"
    FAILED_EXECUTION = "failed_execution"
    CANCELLED = "cancelled"

    @property
    def done(self) -> bool:
        """True when it was achieved."""
        return self is GoalStatus.COMPLETED_SUCCESS

    @property
    def failed(self) -> bool:
        """True when it was given up."""
        return self in (GoalStatus.FAILED_PLANNING, GoalStatus.FAILED_EXECUTION, GoalStatus.CANCELLED)


class Goal(BaseModel):
    """What is wanted, in words, with criteria. `depends_on` are goals that must be achieved first."""

    model_config = ConfigDict(extra="forbid")

    goal_id: str
    text: str
    priority: int = PRIMARY_PRIORITY
    status: GoalStatus = GoalStatus.PENDING
    primary: bool = False
    criteria: tuple[Criterion, ...] = ()
    parent_id: str | None = None
    depends_on: list[str] = Field(default_factory=list)
    added: float = 0.0
    plan_ids: list[str] = Field(default_factory=list)
    reason: str = ""

    @property
    def open(self) -> bool:
        """True until it is achieved or given up."""
        return not self.status.done and not self.status.failed


class Desires:
    """All goals, in the order they came. Raises InputError: goal_invalid, goal_unknown, goal_circular, goals_full."""

    def __init__(self, goals: Iterable[Goal] = (), *, most: int = 50, depth: int = 4) -> None:
        self._goals = {goal.goal_id: goal for goal in goals}
        self._most = most
        self._depth = depth

    def __len__(self) -> int:
        return len(self._goals)

    def get(self, goal_id: str) -> Goal:
        """Return a goal."""
        goal = self._goals.get(goal_id)
        if goal is None:
            raise InputError("goal_unknown", f"there is no goal {quoted(goal_id)}")
        return goal

    @property
    def primary(self) -> Goal | None:
        """The primary goal, or None."""
        return next((goal for goal in reversed(list(self._goals.values())) if goal.primary), None)

    @property
    def all(self) -> tuple[Goal, ...]:
        """All goals."""
        return tuple(self._goals.values())

    def add(self, goal: Goal) -> None:
        """Take in a goal. One that leads back to itself, by what it depends on or by its words, is refused."""
        if not goal.text.strip() or len(goal.text) > MAX_GOAL_CHARS:
            raise InputError("goal_invalid", f"a goal has 1 to {MAX_GOAL_CHARS:,} characters")
        if sum(item.open for item in self._goals.values()) >= self._most:
            raise InputError("goals_full", f"there are {self._most} open goals already")
        for needed in goal.depends_on:
            self.get(needed)
        above = self.above(goal)
        if len(above) > self._depth:
            raise InputError("goal_circular", f"{quoted(goal.text)} is more than {self._depth} goals deep")
        if any(_words(item.text) == _words(goal.text) for item in above):
            raise InputError("goal_circular", f"{quoted(goal.text)} is a part of itself; find a smaller step")
        self._goals[goal.goal_id] = goal

    def depend(self, goal_id: str, on: Sequence[str]) -> None:
        """Let a goal wait for others. Raises InputError (goal_circular) for a circle."""
        goal = self.get(goal_id)
        for needed in on:
            if needed == goal_id or goal_id in self._needs(needed):
                raise InputError("goal_circular", f"the goals {goal_id} and {needed} would wait for each other")
        goal.depends_on += [needed for needed in on if needed not in goal.depends_on]

    def above(self, goal: Goal) -> tuple[Goal, ...]:
        """Return the goals that this one is a part of, the nearest first."""
        found: list[Goal] = []
        parent = goal.parent_id
        while parent is not None:
            found.append(self.get(parent))
            parent = found[-1].parent_id
        return tuple(found)

    def below(self, goal_id: str) -> tuple[Goal, ...]:
        """Return the goals that are parts of this one, however deep."""
        return tuple(goal for goal in self.all if any(item.goal_id == goal_id for item in self.above(goal)))

    def next(self) -> Goal | None:
        """Return the open goal to pursue next, or None: by priority, then by age; what waits for others is left out."""
        ready = [goal for goal in self._goals.values() if goal.open and not self.waits_for(goal)]
        return min(ready, key=lambda goal: -goal.priority, default=None)

    def waits_for(self, goal: Goal) -> tuple[Goal, ...]:
        """Return the open goals that it depends on."""
        return tuple(item for needed in goal.depends_on if (item := self.get(needed)).open)

    def failed_needs(self, goal: Goal) -> tuple[Goal, ...]:
        """Return the goals that it depends on and that were given up."""
        return tuple(item for needed in goal.depends_on if (item := self.get(needed)).status.failed)

    def _needs(self, goal_id: str) -> set[str]:
        found: set[str] = set()
        rest = [goal_id]
        while rest:
            for needed in self.get(rest.pop()).depends_on:
                if needed not in found:
                    found.add(needed)
                    rest.append(needed)
        return found


def _words(text: str) -> str:
    """Return the text without what makes no difference."""
    return " ".join(re.findall(r"\w+", text.casefold()))
