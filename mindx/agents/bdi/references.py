"""References of a plan: `{"$ref": "steps.2.result.path"}` and `{"$ref": "beliefs.key"}` stand for values known later.

Steps count from 1, and only earlier ones can be meant; more names after it lead into an object, numbers into a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mindx.core.plan import REFERENCE, is_reference
from mindx.core.quote import quoted
from mindx.core.strict_json import member_path
from mindx.errors import InputError

PLACEHOLDER = "reference"  # what stands for a value that is not known yet
MAX_REFERENCE = 512
MAX_NAMES = 32  # in one reference: each of their beginnings may be a belief's key
MAX_REFERENCES = 500  # in one plan
MAX_FILLED = 1024 * 1024  # characters of JSON that the references of one step bring
_STEP = re.compile(r"steps\.([1-9][0-9]{0,4})\.result((?:\.[^.]+)*)")
_BELIEF = re.compile(r"beliefs\.(.+)", re.S)


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference. `step` counts from 1 and is None for a belief, whose `names` are then its key, cut at the dots."""

    text: str
    step: int | None
    names: tuple[str, ...]


def parse_reference(text: str) -> Reference:
    """Return a reference. Raises InputError (reference_invalid)."""
    if len(text) <= MAX_REFERENCE:
        step = _STEP.fullmatch(text)
        if step is not None:
            return Reference(text, int(step[1]), tuple(step[2].split(".")[1:]))
        belief = _BELIEF.fullmatch(text)
        if belief is not None and belief[1].count(".") < MAX_NAMES:
            return Reference(text, None, tuple(belief[1].split(".")))
    raise InputError(
        "reference_invalid", f"{quoted(text)} is no reference; write steps.N.result, steps.N.result.name or beliefs.key"
    )


def references_in(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the JSON path and the text of each reference in a value; what only looks like one is told as "" text."""
    if is_reference(value):
        yield path, value[REFERENCE]
    elif isinstance(value, Mapping):
        if REFERENCE in value:
            yield path, ""
        for name, item in value.items():
            yield from references_in(item, member_path(path, name))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from references_in(item, f"{path}[{index}]")


def filled(value: Any, resolve: Callable[[str], Any]) -> Any:
    """Return a plain copy of a value with what `resolve` returns in the place of each reference."""
    if is_reference(value):
        return resolve(value[REFERENCE])
    if isinstance(value, Mapping):
        return {name: filled(item, resolve) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [filled(item, resolve) for item in value]
    return value


def follow(value: Any, names: Sequence[str], text: str) -> Any:
    """Return what the names lead to. Raises InputError (reference_unresolved) where they lead nowhere."""
    for name in names:
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, (list, tuple)) and _is_number(name) and int(name) < len(value):
            value = value[int(name)]
        else:
            known = f"; it has {', '.join(map(str, list(value)[:20]))}" if isinstance(value, Mapping) else ""
            raise InputError("reference_unresolved", f"{quoted(text)}: there is no {quoted(name)}{known}")
    return value


def within(resolve: Callable[[str], Any], most: int = MAX_FILLED) -> Callable[[str], Any]:
    """Return `resolve` for one step, bounded: a short plan could else bring one large value thousands of times.

    It raises InputError (reference_too_large) besides.
    """
    left = most

    def bounded(text: str) -> Any:
        nonlocal left
        value = resolve(text)
        left -= len(json.dumps(value, default=str))
        if left < 0:
            message = f"{quoted(text)}: the references of one step bring more than {most:,} characters; use a file"
            raise InputError("reference_too_large", message)
        return value

    return bounded


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()
