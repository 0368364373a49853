"""Acceptance criteria: what must hold, checked in the sandbox, before a goal counts as achieved."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Union

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mindx.core.command import WORKSPACE, Exec
from mindx.core.quote import quoted
from mindx.core.validation import faults
from mindx.errors import InputError

MAX_CRITERIA = 50
_Word = Annotated[str, Field(max_length=32_768)]
_Path = Annotated[str, Field(min_length=1, max_length=4096)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CommandCriterion(_Model):
    """A program that must end with `exit_code`; it runs in the workspace's root.

    `timeout_s` None, and more than the policy allows, mean the policy's own limit of a command.
    """

    command: tuple[_Word, ...] = Field(min_length=1, max_length=1000)
    exit_code: int = Field(0, ge=0, le=255)
    timeout_s: float | None = Field(None, gt=0, le=3600)

    def exec(self, limit_s: float) -> Exec:
        """Return the Command; `limit_s` is the policy's limit in seconds."""
        return Exec(self.command, timeout_s=limit_s if self.timeout_s is None else min(limit_s, self.timeout_s))

    def __str__(self) -> str:
        ending = "succeeds" if self.exit_code == 0 else f"ends with exit code {self.exit_code}"
        return f"{quoted(shlex.join(self.command), 200)} {ending}"


class FileCriterion(_Model):
    """A file of the workspace that must be there (or not, with `absent`), with this content if one is given."""

    file: _Path
    contains: str | None = Field(None, max_length=100_000)
    equals: str | None = Field(None, max_length=1_000_000)
    absent: bool = False

    @model_validator(mode="after")
    def _fits(self) -> FileCriterion:
        posixpath_of(self.file)
        if self.absent and (self.contains is not None or self.equals is not None):
            raise ValueError("a file that must be absent has no content")
        return self

    def __str__(self) -> str:
        if self.absent:
            return f"there is no file {quoted(self.file)}"
        if self.equals is not None:
            return f"the file {quoted(self.file)} is exactly {quoted(self.equals)}"
        if self.contains is not None:
            return f"the file {quoted(self.file)} contains {quoted(self.contains)}"
        return f"the file {quoted(self.file)} exists"


class StatementCriterion(_Model):
    """A sentence that a model judges by the results of the plan; the weakest kind, for what no program can check."""

    statement: str = Field(min_length=1, max_length=4000)

    def __str__(self) -> str:
        return f"it is true that {quoted(self.statement, 200)}"


Criterion = Union[CommandCriterion, FileCriterion, StatementCriterion]  # noqa: UP007 - evaluated on 3.10
CriterionLike = Union[Criterion, str, Mapping[str, Any]]  # noqa: UP007


def posixpath_of(path: str) -> str:
    """Return the absolute path of a file in the workspace. Raises ValueError for one outside of it."""
    absolute = posixpath.normpath(posixpath.join(WORKSPACE, path))
    if not absolute.startswith(f"{WORKSPACE}/") or "\0" in path:
        raise ValueError(f"{quoted(path)} is no file of the workspace; name it from the workspace's root")
    return absolute


def criteria_of(given: Iterable[CriterionLike]) -> tuple[Criterion, ...]:
    """Return criteria, from models, from objects such as `{"command": ["pytest"]}`, or from statements as texts.

    Raises InputError: criterion_invalid; criteria_contradictory when two of them can never hold together.
    """
    made = tuple(_criterion(item) for item in given)
    if len(made) > MAX_CRITERIA:
        raise InputError("criterion_invalid", f"{len(made)} criteria; a goal has at most {MAX_CRITERIA}")
    for index, later in enumerate(made):
        for earlier in made[:index]:
            if _contradict(earlier, later):
                raise InputError("criteria_contradictory", f"both cannot hold: {earlier}, and {later}; drop one")
    return made


def _criterion(item: CriterionLike) -> Criterion:
    if isinstance(item, str):
        item = {"statement": item}
    if not isinstance(item, Mapping):
        return item
    # By the key that names its kind: pydantic would list the faults of all three.
    kinds: dict[str, type[Criterion]] = {
        "command": CommandCriterion,
        "file": FileCriterion,
        "statement": StatementCriterion,
    }
    named = [kind for key, kind in kinds.items() if key in item]
    if len(named) != 1:
        raise InputError("criterion_invalid", f"a criterion has one of {', '.join(kinds)}")
    try:
        made: Criterion = named[0].model_validate(dict(item))
        return made
    except ValidationError as error:
        raise InputError("criterion_invalid", f"a criterion is not usable: {faults(error, 1)}") from None


def _contradict(one: Criterion, other: Criterion) -> bool:
    if isinstance(one, CommandCriterion) and isinstance(other, CommandCriterion):
        return one.command == other.command and one.exit_code != other.exit_code
    if not isinstance(one, FileCriterion) or not isinstance(other, FileCriterion):
        return False
    if posixpath_of(one.file) != posixpath_of(other.file):
        return False
    if one.absent or other.absent:
        return one.absent != other.absent
    return _unequal(one, other) or _unequal(other, one)


def _unequal(one: FileCriterion, other: FileCriterion) -> bool:
    if one.equals is None:
        return False
    differs = other.equals is not None and other.equals != one.equals
    return differs or (other.contains is not None and other.contains not in one.equals)


def described(criteria: Sequence[Criterion]) -> str:
    """Return the criteria as a numbered list, "none" when there are none."""
    return "\n".join(f"{number}. {item}" for number, item in enumerate(criteria, 1)) or "none"
