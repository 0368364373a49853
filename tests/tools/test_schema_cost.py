"""A schema that a model wrote cannot hold up the host, and ordinary ones are not refused for fear of it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mindx.tools.container_entry import ToolSpec
from mindx.tools.container_tool import CapabilityCall
from mindx.tools.schema_cost import MAX_STEPS, schema_width, too_costly

INTEGER = {"type": "integer"}
MAYBE = {"anyOf": [{"type": "string"}, {"type": "null"}]}
ROW = {"type": "object", "properties": dict.fromkeys("abcdefgh", MAYBE), "additionalProperties": False}


def doubled(schema: dict[str, Any], times: int) -> dict[str, Any]:
    for _ in range(times):
        schema = {"anyOf": [schema, schema]}
    return schema


@pytest.mark.parametrize(
    ("schema", "width"),
    [
        ({}, 1),
        (ROW, 3),
        ({"items": ROW}, 3),
        ({"properties": {"a": INTEGER, "b": INTEGER}}, 1),
        ({"anyOf": [{"items": INTEGER}, {"items": MAYBE}]}, 4),
        ({"allOf": [{"properties": {"a": MAYBE}}, {"properties": {"a": MAYBE}}]}, 6),
        ({"allOf": [{"properties": {"a": MAYBE}}, {"additionalProperties": MAYBE}]}, 6),
        ({"not": {"not": INTEGER}}, 3),
        ({"enum": list(range(2000))}, 101),
        (doubled(INTEGER, 7), 255),
    ],
)
def test_the_width_is_how_many_schemas_speak_of_one_place(schema: dict[str, Any], width: int):
    """Alternatives add up where they meet; members of an object lie side by side."""
    assert schema_width([schema]) == width


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"anyOf": [{"type": "object"} for _ in range(500)]}}, list(range(100_000))),
        ({"items": doubled(INTEGER, 8)}, ["x"] * 100_000),
        ({"items": {"enum": [f"word {number}" for number in range(1500)]}}, ["none"] * 60_000),
        ({"items": {"properties": {f"p{number}": {} for number in range(1500)}}}, [{}] * 60_000),
    ],
)
def test_what_would_take_minutes_is_refused_at_once(schema: dict[str, Any], value: Any):
    """Neither the schema nor the answer is large; only together they are."""
    made = {"name": "a", "input_schema": {"properties": {"value": schema}}}
    spec = ToolSpec.read({"id": "tool", "description": "x", "capabilities": [made]})
    call = CapabilityCall(spec, spec.capabilities[0])
    began = time.monotonic()
    assert "too many values" in call.problem({"value": value})
    assert time.monotonic() - began < 2


def test_ordinary_answers_are_not_refused():
    """A thousand rows of eight columns that may be null; a long list of numbers."""
    rows = [dict.fromkeys("abcdefgh", "x")] * 1000
    assert not too_costly(schema_width([{"items": ROW}]), rows)
    assert not too_costly(schema_width([{"items": INTEGER}]), [1] * (MAX_STEPS - 2))
