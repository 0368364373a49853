"""Mastermind's long-term objectives: what a person wants of the system beyond any one campaign."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mindx.core.nearest import nearest_id
from mindx.core.quote import quoted
from mindx.core.validation import faults
from mindx.errors import InputError, StateError
from mindx.runtime.run_ids import new_id
from mindx.runtime.tasks.atomic import read_file, replace_file

FILE = "mastermind_objectives.json"
MAX_OBJECTIVES = 100
MAX_TEXT = 2000  # characters
MAX_FILE = 4 * 1024 * 1024  # bytes


class Objective(BaseModel):
    """One objective; `reached` is set by whoever finds that it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    objective_id: str
    text: str = Field(min_length=1, max_length=MAX_TEXT)
    added_at: float = 0.0  # seconds since 1970
    reached: bool = False


class Objectives(BaseModel):
    """The file as it is written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = 1
    objectives: tuple[Objective, ...] = Field(default=(), max_length=MAX_OBJECTIVES)


class ObjectiveStore:
    """The objectives of one system; every campaign sees those that are open.

    Raises InputError (objective_invalid, objective_unknown), StateError, also objectives_corrupt for a damaged file,
    which is left as it is.
    """

    def __init__(
        self, folder: Path, *, now: Callable[[], float] = time.time, new_id: Callable[[str], str] = new_id
    ) -> None:
        self._path = folder / FILE
        self._now, self._new_id = now, new_id

    def all(self) -> tuple[Objective, ...]:
        """Return all objectives, the oldest first."""
        data = read_file(self._path, MAX_FILE)
        if data is None:
            return ()
        try:
            return Objectives.model_validate_json(data).objectives
        except ValidationError as error:
            message = f"{self._path} is damaged ({faults(error, 1)}); it was left as it is: mend it or move it away"
            raise StateError("objectives_corrupt", message, details={"path": str(self._path)}) from None

    def open(self) -> tuple[Objective, ...]:
        """Return the objectives that are not reached yet."""
        return tuple(one for one in self.all() if not one.reached)

    def add(self, text: str) -> Objective:
        """Take in an objective; one that is open in the same words already is returned as it is."""
        known = self.all()
        same = next((one for one in known if one.text == text.strip() and not one.reached), None)
        if same is not None:
            return same
        if len(known) >= MAX_OBJECTIVES or not 0 < len(text.strip()) <= MAX_TEXT:
            raise InputError(
                "objective_invalid", f"an objective has 1 to {MAX_TEXT:,} characters, and there are {MAX_OBJECTIVES}"
            )
        made = Objective(objective_id=self._new_id("objective"), text=text.strip(), added_at=self._now())
        self._write((*known, made))
        return made

    def reach(self, objective_id: str) -> Objective:
        """Note that an objective is reached."""
        known = self.all()
        found = next((one for one in known if one.objective_id == objective_id), None)
        if found is None:
            hint = nearest_id(objective_id, (one.objective_id for one in known), f"there are {len(known)}")
            raise InputError("objective_unknown", f"there is no objective {quoted(objective_id)}; {hint}")
        reached = found.model_copy(update={"reached": True})
        self._write(tuple(reached if one is found else one for one in known))
        return reached

    def _write(self, objectives: tuple[Objective, ...]) -> None:
        replace_file(self._path, Objectives(objectives=objectives).model_dump_json(indent=1).encode() + b"\n")
