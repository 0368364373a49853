"""Phases: the major parts of a mission, with what must hold at the end of each, and what each depends on."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from mindx.agents.bdi.criteria import Criterion, criteria_of
from mindx.core.validation import faults
from mindx.errors import InputError

MAX_PHASES = 16
MAX_CRITERIA = 16
MAX_TASK = 8000  # characters
MAX_TOLD = 2000  # characters of an outcome


class PhaseStatus(str, Enum):
    """How a phase stands."""

    PENDING = "pending"
    RUNNING = "running"
    ACHIEVED = "achieved"
    FAILED = "failed"


PhaseName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]


class PhaseDraft(BaseModel):
    """A phase as a model proposes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: PhaseName
    task: str = Field(min_length=1, max_length=MAX_TASK)
    criteria: tuple[Criterion, ...] = Field(default=(), max_length=MAX_CRITERIA)
    depends_on: tuple[PhaseName, ...] = Field(default=(), max_length=MAX_PHASES)

    @field_validator("criteria", mode="before")
    @classmethod
    def _read_criteria(cls, value: Any) -> Any:
        """Read them as a BDI agent does, whose messages say what is wrong with one, and whether two contradict."""
        if not isinstance(value, (list, tuple)):
            return value
        try:
            return criteria_of(value)
        except InputError as error:
            raise ValueError(error.message) from None


class PhasesDraft(BaseModel):
    """What a model answers when it is asked for phases."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: str = Field(default="", max_length=MAX_TOLD)
    phases: tuple[PhaseDraft, ...] = Field(min_length=1, max_length=MAX_PHASES)


class Phase(PhaseDraft):
    """A phase of a mission. `attempts` counts the BDI agents that were given it.

    `agent` names the last one, whose state lies in a file of that name; `told` is what it said.
    """

    status: PhaseStatus = PhaseStatus.PENDING
    attempts: int = 0
    agent: str = ""
    told: str = Field(default="", max_length=MAX_TOLD)


def read_phases(value: Any) -> tuple[PhaseDraft, ...]:
    """Return the phases in an order in which they can be done. Raises InputError (phases_invalid) with all faults."""
    try:
        draft = PhasesDraft.model_validate(value)
    except ValidationError as error:
        raise InputError("phases_invalid", faults(error, 12)) from None
    return in_order(draft.phases)


def in_order(phases: Sequence[PhaseDraft], done: Sequence[str] = ()) -> tuple[PhaseDraft, ...]:
    """Return the phases so that each comes after what it depends on, which may also be among the names `done`.

    Raises InputError (phases_invalid): a name used twice, a dependency that there is not, a circle.
    """
    names = [phase.name for phase in phases]
    problems = [f"two phases are called {name}" for name in dict.fromkeys(names) if names.count(name) > 1]
    known = {*names, *done}
    problems += [
        f"phase {phase.name} depends on {other}, which there is not"
        for phase in phases
        for other in phase.depends_on
        if other not in known
    ]
    if problems:
        raise InputError("phases_invalid", "; ".join(problems))
    ordered: list[PhaseDraft] = []
    left, reached = list(phases), set(done)
    while left:
        ready = next((phase for phase in left if reached.issuperset(phase.depends_on)), None)
        if ready is None:
            circle = ", ".join(phase.name for phase in left)
            raise InputError("phases_invalid", f"these phases wait for each other in a circle: {circle}")
        left.remove(ready)
        reached.add(ready.name)
        ordered.append(ready)
    return tuple(ordered)
