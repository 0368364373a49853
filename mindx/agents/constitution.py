"""The Constitution: what each layer of the society may do, and what nobody may order it to do.

Every layer asks before it acts. The rules stand in `constitution.yaml`; what no rule allows is refused.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import unicodedata
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mindx.core.fault import Fault
from mindx.core.quote import quoted
from mindx.errors import DeniedError, InputError
from mindx.policy.document import MAX_FILE_BYTES, read_document

BUILT_IN = Path(__file__).with_name("constitution.yaml")
FILE = "constitution.yaml"  # of the user's, in the folder of the society's state
MAX_TARGET = 1024  # characters of a path


class Layer(str, Enum):
    """Who acts; the first has the most trust."""

    MASTERMIND = "mastermind"
    COORDINATOR = "coordinator"
    AGINT = "agint"
    BDI = "bdi"
    IMPROVEMENT = "improvement"
    TOOL = "tool"

    def is_below(self, other: Layer) -> bool:
        """Return True when this layer has less trust than the other."""
        order = list(Layer)
        return order.index(self) > order.index(other)


class Act(str, Enum):
    """Everything that a rule can speak of. What stands here and in no rule is done by nobody."""

    START_CAMPAIGN = "campaign.start"
    START_MISSION = "mission.start"
    PURSUE_GOAL = "goal.pursue"
    EXECUTE_TOOL = "tool.execute"
    RUN_COMMAND = "sandbox.command"
    CALL_MODEL = "model.call"
    WRITE_BELIEF = "belief.write"
    WRITE_REGISTRY = "registry.write"
    REGISTER_AGENT = "agent.register"
    PUBLISH_EVENT = "event.publish"
    VERIFY_TASK = "task.verify"
    ANALYZE_SYSTEM = "system.analyze"
    BUILD_CANDIDATE = "code.candidate"
    CHANGE_CODE = "code.change"
    APPLY_CODE = "code.apply"
    ROLL_BACK_CODE = "code.rollback"
    REQUEST_QUERY = "request.query"
    REQUEST_SYSTEM_ANALYSIS = "request.system_analysis"
    REQUEST_COMPONENT_IMPROVEMENT = "request.component_improvement"
    REQUEST_AGENT_REGISTRATION = "request.agent_registration"
    REQUEST_PUBLISH_EVENT = "request.publish_event"
    REQUEST_VERIFY_TASK = "request.verify_task"
    REQUEST_APPROVE_IMPROVEMENT = "request.approve_improvement"
    REQUEST_REJECT_IMPROVEMENT = "request.reject_improvement"
    REQUEST_ROLLBACK_COMPONENT = "request.rollback_component"
    APPROVE_IMPROVEMENT = "improvement.approve"
    REJECT_IMPROVEMENT = "improvement.reject"
    RUN_ON_HOST = "host.run"
    IMPORT_ON_HOST = "host.import"
    WRITE_ON_HOST = "host.write"
    READ_SECRET = "secret.read"
    OPEN_NETWORK = "network.open"
    CHANGE_CONSTITUTION = "constitution.change"
    CHANGE_POLICY = "policy.change"
    RAISE_BUDGET = "budget.raise"
    GRANT_AUTONOMY = "autonomy.grant"
    CHANGE_TRACE = "trace.change"
    CHANGE_HISTORY = "history.change"


# These change files: without a path that is clear there is nothing to judge.
_NEEDS_TARGET = frozenset({Act.BUILD_CANDIDATE, Act.CHANGE_CODE, Act.APPLY_CODE, Act.ROLL_BACK_CODE})


class Rule(BaseModel):
    """One rule: these acts, on these targets (none: on all)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")
    acts: tuple[Act, ...] = Field(min_length=1)
    targets: tuple[str, ...] = ()
    reason: str = Field(min_length=1, max_length=500)

    def covers(self, act: Act, target: str) -> bool:
        """Return True when the rule speaks of this act on this target, a folder above it, or an unknown one."""
        return act in self.acts and (not self.targets or any(_touches(pattern, target) for pattern in self.targets))


class Document(BaseModel):
    """The file as it is written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal["1"]
    trust: dict[Layer, tuple[Act, ...]] = {}
    never: tuple[Rule, ...] = ()
    person: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the Constitution says by which `rule`. `needs_person`: a person's yes would allow it."""

    allowed: bool
    needs_person: bool
    rule: str
    reason: str


class ConstitutionError(DeniedError):
    """A layer must not do this: `constitution_forbids`, or `constitution_needs_person`."""


class Constitution:
    """The rules in force; make it with `of`, or `load`."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._trust = {layer: frozenset(document.trust.get(layer, ())) for layer in Layer}

    @classmethod
    def load(cls, path: Path | None = None) -> Constitution:
        """Return the built-in rules, tightened by the file at `path` (None: no file).

        The file can take trust away and add rules. Raises InputError (constitution_unreadable, constitution_invalid).
        """
        base = _read(BUILT_IN)
        if path is None:
            return cls(base)
        more = _read(path)
        names = {rule.name for rule in (*base.never, *base.person)}
        again = [rule.name for rule in (*more.never, *more.person) if rule.name in names]
        if again:
            raise _invalid(path, f"the rule {again[0]} is built in; give yours another name")
        trust = {layer: _narrowed(acts, more.trust.get(layer)) for layer, acts in base.trust.items()}
        never, person = (*base.never, *more.never), (*base.person, *more.person)
        return cls(Document(version="1", trust=trust, never=never, person=person))

    @classmethod
    def of(cls, folder: Path) -> Constitution:
        """Return the rules for work in this folder, which a `constitution.yaml` in it tightens. Raises as `load`."""
        path = folder / FILE
        return cls.load(path if path.exists() else None)

    def check(self, layer: Layer, act: str, target: str = "", *, approved: bool = False) -> Ruling:
        """Return whether a layer may do this now; pure and quick.

        `target` is a path below the project (or a module's name, or `self`) for acts on code, "" for unknown or none.
        `approved` says that a person said yes to this very act: it opens what waits for a person, nothing else.
        """
        try:
            known = Act(act)
        except ValueError:
            return Ruling(False, False, "unknown-act", f"no rule speaks of {quoted(str(act))}")
        place = clear_target(target)
        if place is None and known in _NEEDS_TARGET:
            return Ruling(False, False, "unclear-target", f"{quoted(target)} is no path below the project")
        for rule in self.document.never:
            if rule.covers(known, place or ""):
                return Ruling(False, False, rule.name, rule.reason)
        if known not in self._trust[Layer(layer)]:
            return Ruling(False, False, f"trust-{layer.value}", f"{layer.value} is not trusted with {known.value}")
        for rule in self.document.person:
            if rule.covers(known, place or ""):
                return Ruling(approved, not approved, rule.name, rule.reason)
        return Ruling(True, False, f"trust-{layer.value}", f"{layer.value} is trusted with {known.value}")

    def require(self, layer: Layer, act: str, target: str = "", *, approved: bool = False) -> Ruling:
        """Return the ruling when it allows. Raises ConstitutionError with the rule in its details."""
        ruling = self.check(layer, act, target, approved=approved)
        if ruling.allowed:
            return ruling
        code = "constitution_needs_person" if ruling.needs_person else "constitution_forbids"
        todo = "; a person must approve it" if ruling.needs_person else ""
        on = f" on {quoted(target)}" if target else ""
        message = f"{layer.value} must not do {quoted(str(getattr(act, 'value', act)))}{on}: {ruling.reason}{todo}"
        raise ConstitutionError(code, message, details={"rule": ruling.rule, "layer": layer.value, "target": target})


def clear_target(target: str) -> str | None:
    """Return the one plain spelling of a path below the project, None for what is not clearly one.

    Small letters only, so that a file system that does not tell them apart cannot be used to get past a rule.
    """
    if target in ("self", "mindx.agents.improvement"):
        return "mindx/agents/improvement"
    text = unicodedata.normalize("NFKC", target).strip().casefold()
    if len(text) > MAX_TARGET or "\\" in text or not text.isprintable() or text.startswith(("/", "~")):
        return None
    if ".." in text.split("/"):
        return None
    if re.fullmatch(r"mindx(\.[a-z_][a-z0-9_]*)+", text) and not text.endswith((".py", ".yaml")):
        text = text.replace(".", "/")
    plain = posixpath.normpath(text) if text else ""
    return None if plain in ("", ".") else plain


def _touches(pattern: str, target: str) -> bool:
    """Return True for a match, for a folder that holds matches, for a module's name, and for no target at all."""
    pattern = pattern.casefold()
    if not target or fnmatch.fnmatchcase(target, pattern):
        return True
    fixed = re.split(r"[*?\[]", pattern)[0]
    return fixed.startswith(f"{target}/") or fnmatch.fnmatchcase(f"{target}.py", pattern) or f"{target}/" == fixed


def _narrowed(acts: tuple[Act, ...], kept: tuple[Act, ...] | None) -> tuple[Act, ...]:
    return acts if kept is None else tuple(act for act in acts if act in kept)


def _read(path: Path) -> Document:
    try:
        with path.open("rb") as file:
            found = read_document(file.read(MAX_FILE_BYTES + 1))
    except OSError as error:
        message = f"the constitution {path} cannot be read: {error.strerror}"
        raise InputError("constitution_unreadable", message) from error
    if found.faults:
        raise _invalid(path, _told(found.faults[0]))
    try:
        document = Document.model_validate(found.value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _invalid(path, _told(found.fault(tuple(first["loc"]), first["msg"]))) from None
    names = [rule.name for rule in (*document.never, *document.person)]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise _invalid(path, f"two rules are called {twice[0]}")
    return document


def _told(fault: Fault) -> str:
    return f"line {fault.line}: {fault.path}: {fault.message}"


def _invalid(path: Path, problem: str) -> InputError:
    return InputError("constitution_invalid", f"the constitution {path} is not usable: {problem}")
