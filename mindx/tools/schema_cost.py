"""What it costs to hold a value against a schema that a model wrote: known beforehand, so that it can be refused.

A validator walks through every subschema that speaks of a place, for every value that stands there. With alternatives
inside lists that is a product that neither size limits: a short schema and a short answer can take hours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MAX_STEPS = 60_000  # some two seconds of the validator, at its slowest
_LISTED_AT_ONCE = 20  # names or words that are compared in the time of one step
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")


def schema_width(schemas: Iterable[Any]) -> int:
    """Return the most steps that one value can cost whose place all of `schemas` speak of."""
    here: list[Mapping[str, Any]] = []
    waiting = [schema for schema in schemas if isinstance(schema, Mapping)]
    while waiting:
        schema = waiting.pop()
        here.append(schema)
        found = [item for word in _ALTERNATIVES for item in schema.get(word, ())] + [schema.get("not")]
        waiting += [item for item in found if isinstance(item, Mapping)]
    if not here:
        return 0
    named: dict[str, list[Any]] = {}
    for schema in here:
        for name, inner in schema.get("properties", {}).items():
            named.setdefault(name, []).append(inner)
    members = max((schema_width(group) for group in named.values()), default=0)
    others = schema_width(schema.get("additionalProperties") for schema in here)
    items = schema_width(inner for schema in here for inner in (schema.get("items"), *schema.get("prefixItems", ())))
    return max(sum(map(_own, here)), members + others, items)


def too_costly(width: int, value: Any) -> bool:
    """Return whether holding a value against a schema of this width could take longer than anyone waits."""
    left = MAX_STEPS // max(width, 1)
    waiting = [value]
    while waiting and left >= 0:
        left -= 1
        item = waiting.pop()
        waiting.extend(item.values() if isinstance(item, Mapping) else item if isinstance(item, (list, tuple)) else ())
    return left < 0


def _own(schema: Mapping[str, Any]) -> int:
    listed = sum(len(schema.get(word, ())) for word in ("enum", "properties", "required"))
    return 1 + listed // _LISTED_AT_ONCE
