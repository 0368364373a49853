"""A mission: its directive, its phases, and all that AGInt knows of how it goes. Durable, one writer at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mindx.agents.agint.life import AGIntDecision, AGIntStage, AGIntStatus
from mindx.agents.agint.phase import MAX_PHASES, Phase, PhaseStatus
from mindx.core.nearest import nearest_id
from mindx.core.quote import quoted
from mindx.core.validation import faults
from mindx.errors import InputError
from mindx.runtime.run_ids import checked_id
from mindx.runtime.tasks.atomic import is_free, load_all, locked, names_in, read_file, replace_file

MAX_DIRECTIVE = 20_000  # characters
MAX_NOTES = 50  # of the latest cycles
MAX_FILE = 8 * 1024 * 1024  # bytes


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MissionBudget(_Frozen):
    """What a mission may spend from its start, or from when it was taken up. What is reached ends it as PARTIAL.

    `cooldown_s` is what a cycle waits when the model does not answer; `repairs` how often in a row it may not.
    """

    max_cycles: int = Field(default=60, ge=1, le=10_000)
    max_seconds: float = Field(default=4 * 3600.0, gt=0)
    max_tokens: int = Field(default=2_000_000, ge=1)
    max_attempts: int = Field(default=2, ge=1, le=10)  # of one phase, before its plan must change
    max_revisions: int = Field(default=3, ge=0, le=20)
    max_researches: int = Field(default=2, ge=0, le=20)
    max_repairs: int = Field(default=3, ge=1, le=20)
    cooldown_s: float = Field(default=30.0, ge=0)


class CycleNote(_Frozen):
    """What one cycle decided, why, and what came of it."""

    cycle: int
    at: float  # seconds since 1970
    decision: AGIntDecision
    reason: str = Field(default="", max_length=2000)
    phase: str = ""
    outcome: str = ""
    message: str = Field(default="", max_length=2000)


class Spent(_Frozen):
    """What was spent so far, over all processes that worked on the mission."""

    seconds: float = 0.0
    tokens: int = 0
    revisions: int = 0
    researches: int = 0
    repairs: int = 0  # in a row


class Mission(_Frozen):
    """One mission. `awareness` is one sentence on how it stands; `notes` are the latest cycles, the newest last."""

    version: int = 1
    mission_id: str
    directive: str = Field(min_length=1, max_length=MAX_DIRECTIVE)
    workspace: str | None = None
    status: AGIntStatus = AGIntStatus.INACTIVE
    stage: AGIntStage = AGIntStage.IDLE
    phases: tuple[Phase, ...] = Field(default=(), max_length=MAX_PHASES * 2)
    cycle: int = 0
    spent: Spent = Spent()
    awareness: str = Field(default="", max_length=2000)
    findings: tuple[str, ...] = Field(default=(), max_length=20)
    notes: tuple[CycleNote, ...] = Field(default=(), max_length=MAX_NOTES)
    message: str = Field(default="", max_length=2000)
    error_code: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0

    def phase(self, name: str) -> Phase:
        """Return a phase. Raises KeyError."""
        for phase in self.phases:
            if phase.name == name:
                return phase
        raise KeyError(name)

    def with_phase(self, changed: Phase) -> Mission:
        """Return the mission with this phase in the place of its namesake."""
        phases = tuple(changed if phase.name == changed.name else phase for phase in self.phases)
        return self.model_copy(update={"phases": phases})

    @property
    def achieved(self) -> tuple[Phase, ...]:
        """The phases that are achieved."""
        return tuple(phase for phase in self.phases if phase.status is PhaseStatus.ACHIEVED)


class MissionStore:
    """Missions in `folder`: `<mission_id>/mission.json`, replaced as a whole.

    Raises InputError: id_invalid, mission_in_use, mission_unknown, mission_corrupt; and StateError.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, mission_id: str) -> Path:
        """Return the folder of a mission. Raises InputError (id_invalid)."""
        return self.folder / checked_id(mission_id, "mission's id")

    @contextmanager
    def writing(self, mission_id: str) -> Iterator[None]:
        """Be the one AGInt of a mission. Raises InputError (mission_in_use) when another is."""
        busy = InputError("mission_in_use", f"the mission {mission_id} is being worked on already; wait, or stop it")
        with locked(self.path(mission_id) / "lock", busy):
            yield

    def is_free(self, mission_id: str) -> bool:
        """Return whether nobody works on a mission now."""
        return is_free(self.path(mission_id) / "lock")

    def load(self, mission_id: str) -> Mission:
        """Return a mission. Raises InputError (mission_unknown, mission_corrupt), StateError."""
        path = self.path(mission_id) / "mission.json"
        data = read_file(path, MAX_FILE)
        if data is None:
            hint = nearest_id(mission_id, names_in(self.folder), "`mindx missions list` names them")
            raise InputError("mission_unknown", f"there is no mission {quoted(mission_id)}; {hint}")
        try:
            found = Mission.model_validate_json(data)
        except ValidationError as error:
            problem = f"the record {path} of a mission is damaged ({faults(error, 1)})"
            message = f"{problem}; it was left as it is: mend or remove it"
            raise InputError("mission_corrupt", message, details={"path": str(path)}) from None
        if found.mission_id != mission_id:
            raise InputError("mission_corrupt", f"{path} is the record of another mission")
        return found

    def save(self, mission: Mission) -> None:
        """Write a mission; call it inside `writing`."""
        data = mission.model_dump_json(indent=1).encode()
        replace_file(self.path(mission.mission_id) / "mission.json", data + b"\n")

    def list(self) -> tuple[Mission, ...]:
        """Return all missions, the latest first; a damaged one is left out."""
        return tuple(sorted(load_all(self.folder, self.load), key=lambda one: one.created_at, reverse=True))
