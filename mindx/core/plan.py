"""Plans: an ordered, validated, immutable list of Actions with a digest, and the reader of plan files.

The reader checks the envelope of each action. The arguments of EXECUTE_TOOL belong to the tool, which has its own
models for them (mindx.tools.vet brings both together).
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from mindx.core.fault import Fault
from mindx.core.frozen import dataclass
from mindx.core.nearest import LONGEST_NAME, did_you_mean
from mindx.core.quote import quoted
from mindx.core.strict_json import MAX_FAULTS, Document, Duplicate, Position, member_path, read_json

MAX_ACTIONS = 10_000
REFERENCE = "$ref"

THINK, EXECUTE_TOOL, NO_OP, FAIL = "THINK", "EXECUTE_TOOL", "NO_OP", "FAIL"

_KINDS = {str: "text", dict: "an object", list: "a list", bool: "true or false", int: "a number", float: "a number"}


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters of one type of action, all of them texts; `open` leaves the others to the tool."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    open: bool = False


SHAPES = {
    THINK: Shape(required=("thought",)),
    EXECUTE_TOOL: Shape(required=("tool_id", "command"), open=True),
    NO_OP: Shape(),
    FAIL: Shape(optional=("message",)),
}
ACTION_TYPES = tuple(SHAPES)


@dataclass(frozen=True, slots=True)
class Action:
    """One typed step. `index` counts from 0, as in its JSON path `$[index]`; `params` is immutable all the way down."""

    action_id: str
    type: str
    params: Mapping[str, Any]
    index: int

    def to_dict(self) -> dict[str, Any]:
        """Return `type` and `params` as plain values, as a plan file holds them."""
        return {"type": self.type, "params": thaw(self.params)}


@dataclass(frozen=True, slots=True)
class Plan:
    """At least one Action. `sha256` is of the actions themselves: layout and order of keys do not change it."""

    actions: tuple[Action, ...]
    sha256: str

    @property
    def plan_id(self) -> str:
        """`plan_` and the first six digits of the digest; the action ids carry the same six."""
        return f"plan_{self.sha256[:6]}"


@dataclass(frozen=True, slots=True)
class ParsedPlan:
    """`plan` is None when any fault is more than a warning; `actions` then holds those whose envelope is sound.

    `positions` maps a JSON path (`$[2].params.path`) to line and column, both from 1.
    """

    plan: Plan | None
    faults: tuple[Fault, ...]
    positions: Mapping[str, Position]
    actions: tuple[Action, ...] = ()

    def fault(self, path: str, message: str, suggestion: str = "", kind: Any = "invalid") -> Fault:
        """Make a Fault for `path` with the line of that value, or of the nearest one around it."""
        return _fault(self.positions, path, message, suggestion, kind)


def parse_plan(
    source: str | bytes, shapes: Mapping[str, Shape] = SHAPES, *, most: int = MAX_ACTIONS, references: bool = False
) -> ParsedPlan:
    """Read a plan: a JSON list of `{"type": ..., "params": {...}}`. Never raises: all that is wrong is in `faults`.

    `shapes` has the types of action and what each takes, `most` is how many actions there may be. With `references` a
    parameter may be `{"$ref": "..."}` where a text is wanted.
    """
    return _Reader(read_json(source), shapes, most, references).parsed()


def is_reference(value: Any) -> bool:
    """Return True for `{"$ref": "..."}`, which stands for a value that is known later."""
    return isinstance(value, Mapping) and set(value) == {REFERENCE} and isinstance(value[REFERENCE], str)


def thaw(value: Any) -> Any:
    """Return a plain, mutable copy of a frozen value."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [thaw(item) for item in value]
    return value


def _freeze(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType({key: _freeze(item) for key, item in value.items()})
    if isinstance(value, list):
        return tuple(_freeze(item) for item in value)
    return value


def _fault(positions: Mapping[str, Position], path: str, message: str, suggestion: str, kind: Any = "invalid") -> Fault:
    around = path
    while around not in positions and len(around) > 1:
        around = around[: max(around.rfind("."), around.rfind("["), 1)]
    line, column = positions.get(around, (None, None))
    return Fault(path, line, message, suggestion, kind, column)


def sort_faults(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Return faults in the order of the text; those without a line come last."""
    return tuple(sorted(faults, key=lambda fault: (fault.line or math.inf, fault.column or 0)))


class _TooManyFaults(Exception):
    pass


class _Reader:
    """From a document to actions, gathering every fault."""

    def __init__(self, document: Document, shapes: Mapping[str, Shape], most: int, references: bool) -> None:
        self.document = document
        self.shapes = shapes
        self.most = most
        self.references = references
        self.positions = dict(document.positions)
        self.faults = list(document.faults)
        self.wrong = len(self.faults)

    def parsed(self) -> ParsedPlan:
        sound: list[tuple[int, str, dict[str, Any]]] = []
        try:
            for index, item in enumerate(self.items()):
                known = self.envelope(f"$[{index}]", item)
                if known:
                    sound.append((index, *known))
        except _TooManyFaults:
            self.faults.append(Fault("$", None, f"{MAX_FAULTS} faults; the rest is not checked"))
        digest = _digest(sound)
        actions = tuple(
            Action(f"act_{digest[:6]}_{index}", kind, _freeze(params), index) for index, kind, params in sound
        )
        broken = any(fault.kind != "warning" for fault in self.faults)
        plan = None if broken else Plan(actions, digest)
        return ParsedPlan(plan, sort_faults(self.faults), MappingProxyType(self.positions), actions)

    def add(self, path: str, message: str, suggestion: str = "", kind: Any = "invalid") -> None:
        self.note(_fault(self.positions, path, message, suggestion, kind))

    def note(self, fault: Fault) -> None:
        self.faults.append(fault)
        self.wrong += fault.kind != "warning"
        if self.wrong >= MAX_FAULTS:
            raise _TooManyFaults

    def items(self) -> list[Any]:
        """Return what may be actions, once the repeated keys are dealt with."""
        value = self.document.value
        if not self.document.complete:
            return []
        if not isinstance(value, list):
            held = [key for key in ("actions", "steps", "plan") if isinstance(value, dict) and key in value]
            advice = f"give the list in `{held[0]}` alone" if held else 'write [{"type": ..., "params": {...}}, ...]'
            self.add("$", f"a plan is a list of actions, not {_kind(value)}", advice)
            return []
        if not value:
            self.add("$", "the plan is empty", "give at least one action")
        if len(value) > self.most:
            self.add("$", f"{len(value):,} actions; a plan has at most {self.most:,}")
        items = value[: self.most]
        self.duplicates(items)
        return items

    def duplicates(self, items: list[Any]) -> None:
        again: dict[str, list[Duplicate]] = {}
        for duplicate in self.document.duplicates:
            again.setdefault(duplicate.parent, []).append(duplicate)
        for parent, found in again.items():
            if not self.seed_command(parent, found, items):
                for duplicate in found:
                    self.repeated(duplicate)

    def repeated(self, duplicate: Duplicate) -> None:
        path = member_path(duplicate.parent, duplicate.key)
        line, column = duplicate.position
        first = self.positions[path][0] if path in self.positions else None
        message = f"{quoted(duplicate.key)} is given twice{f' (first on line {first})' if first else ''}"
        self.note(Fault(path, line, message, "keep one of them", column=column))

    def seed_command(self, parent: str, found: list[Duplicate], items: list[Any]) -> bool:
        """Understand `"command": "run", "command": "..."` as the seed plans write it: the verb, then its line."""
        index = parent[2 : -len("].params")]
        if parent != f"$[{index}].params" or not index.isdigit() or int(index) >= len(items) or len(found) != 1:
            return False
        params = items[int(index)].get("params")
        second = found[0]
        fits = second.key == "command" and params.get("command") == "run" and isinstance(second.value, str)
        if not fits or "cmdline" in params or "argv" in params:
            return False
        params["cmdline"] = second.value
        self.positions[f"{parent}.cmdline"] = second.position
        self.add(
            f"{parent}.cmdline",
            "`command` is given twice: the first is taken as the command, the second as the command line",
            f'write "command": "run", "cmdline": {json.dumps(second.value[:60])}',
            "warning",
        )
        return True

    def envelope(self, path: str, item: Any) -> tuple[str, dict[str, Any]] | None:
        """Check one action; return its type and params when they are sound."""
        if not isinstance(item, dict):
            self.add(path, f"an action is an object, not {_kind(item)}", 'write {"type": ..., "params": {...}}')
            return None
        before = len(self.faults)
        kind = item.get("type")
        for key in item.keys() - {"type", "params"}:
            advice = did_you_mean(key, ("type", "params")) or "an action has `type` and `params`, and all else in there"
            self.add(member_path(path, key), f"unknown key {quoted(key)}", advice)
        if not isinstance(kind, str):
            self.missing(path, "type", item, f"one of {', '.join(self.shapes)}")
        elif kind not in self.shapes:
            known = f"the types are {', '.join(self.shapes)}"
            near = did_you_mean(kind, self.shapes)
            self.add(f"{path}.type", f"unknown type {quoted(kind)}", f"{near} {known}".strip())
        params = item.get("params")
        if not isinstance(params, dict):
            self.missing(path, "params", item, "{} when there are none", "an object")
        elif isinstance(kind, str) and kind in self.shapes:
            self.params(f"{path}.params", self.shapes[kind], kind, params)
        if len(self.faults) > before or not isinstance(kind, str) or not isinstance(params, dict):
            return None
        return kind, params

    def params(self, path: str, shape: Shape, kind: str, params: dict[str, Any]) -> None:
        for key in shape.required:
            if not self.is_text(params.get(key)):
                self.missing(path, key, params)
        known = (*shape.required, *shape.optional)
        for key, value in params.items():
            if key in shape.optional and not self.is_text(value):
                self.missing(path, key, params)
            if key not in known and not shape.open:
                takes = f"{kind} takes {', '.join(f'`{name}`' for name in known) or 'no parameters'}"
                advice = did_you_mean(key, known) or takes
                self.add(member_path(path, key), f"unknown parameter {quoted(key)}", advice)

    def is_text(self, value: Any) -> bool:
        return isinstance(value, str) or (self.references and is_reference(value))

    def missing(self, path: str, key: str, holder: dict[str, Any], suggestion: str = "", wanted: str = "text") -> None:
        if key in holder:
            self.add(f"{path}.{key}", f"`{key}` is {wanted}, not {_kind(holder[key])}", suggestion)
        else:
            others = [name for name in itertools.islice(holder, 20) if len(name) <= LONGEST_NAME]
            near = difflib.get_close_matches(key, others, 1, 0.6)
            advice = f"rename {quoted(near[0])}" if near else suggestion or f'add "{key}": "..."'
            self.add(path, f"`{key}` is missing", advice)


def _kind(value: Any) -> str:
    return "null" if value is None else _KINDS[type(value)]


def _digest(sound: list[tuple[int, str, dict[str, Any]]]) -> str:
    plain = [{"type": kind, "params": params} for _, kind, params in sound]
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
