"""`@tool`: plain functions as tools."""

from __future__ import annotations

import asyncio
import threading
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field

from mindx.core.action import ActionRisk
from mindx.core.observation import Status
from mindx.core.plan import parse_plan
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import load_policy
from mindx.runtime.actions import PlanActions
from mindx.runtime.fixed_plan import PlanRequest
from mindx.sandbox.fake import FakeSandbox
from mindx.tools.base import ToolDefinition, ToolValidationError
from mindx.tools.builtin.calculator import CalculatorTool
from mindx.tools.context import ToolContext
from mindx.tools.function import tool
from mindx.tools.registry import ToolRegistry
from mindx.tools.vet import vet
from tests.tools.tool_kit import Events, call, run_context


class Colour(Enum):
    RED = "red"


class Point(BaseModel):
    x: int
    y: int = 0


@tool
def scale(point: Point, factor: Annotated[int, Field(ge=1, description="how much")] = 2) -> list[int]:
    """Scale a point."""
    return [point.x * factor, point.y * factor]


@tool(name="paint", risk=ActionRisk.READ_ONLY, concurrency_key="brush", timeout_s=5.0)
async def paint_it(colour: Colour, kind: Literal["oil", "water"] = "oil", note: Optional[str] = None) -> str:  # noqa: UP045
    return f"{colour.value} {kind} {note}"


@tool
async def whoami(context: ToolContext, loud: bool = False) -> str:
    await context.progress("looking")
    return context.run_id.upper() if loud else context.run_id


@tool
def divide(a: float, b: float) -> float:
    if b == 0:
        raise ValueError("b must not be 0")
    return a / b


def test_the_signature_becomes_the_definition() -> None:
    definition = scale.definition
    assert (definition.name, definition.description, definition.risk) == ("scale", "Scale a point.", ActionRisk.WRITE)
    parameters = dict(definition.parameters)
    assert (parameters["required"], parameters["additionalProperties"]) == (["point"], False)
    assert parameters["properties"]["factor"] == {
        "default": 2,
        "description": "how much",
        "minimum": 1,
        "type": "integer",
    }
    assert paint_it.definition.name == "paint"
    assert (paint_it.definition.blocking, scale.definition.blocking) == (False, True)
    assert list(whoami.definition.parameters["properties"]) == ["loud"]


def test_a_call_goes_through_with_typed_values() -> None:
    assert asyncio.run(call(scale, "scale", {"point": {"x": 3}})).value == [6, 0]
    assert asyncio.run(call(paint_it, "paint", {"colour": "red", "kind": "water"})).value == "red water None"
    assert scale(Point(x=1, y=1), factor=3) == [3, 3]


def test_what_does_not_fit_is_refused() -> None:
    for arguments, words in (
        ({"point": {"x": "three"}}, "`point.x`: expected integer, not string"),
        ({"point": {"x": 1}, "factor": 0}, "`factor`: minimum is 1"),
        ({}, "missing `point`"),
    ):
        observation = asyncio.run(call(scale, "scale", arguments))
        assert words in observation.message
        assert observation.status is Status.ERROR


def test_the_context_is_given_and_is_no_argument() -> None:
    events = Events()
    assert asyncio.run(call(whoami, "whoami", {"loud": True}, run_context(emit=events))).value == "RUN-1"
    assert events.told[0][1]["message"] == "looking"
    assert "unknown `context`" in asyncio.run(call(whoami, "whoami", {"context": {}})).message


def test_a_plain_function_runs_in_a_thread_and_its_error_reaches_the_model() -> None:
    @tool
    def where() -> str:
        return threading.current_thread().name

    assert asyncio.run(call(where, "where", {})).value == "tool-where"
    assert asyncio.run(call(divide, "divide", {"a": 1, "b": 0})).message == "b must not be 0"
    assert asyncio.run(call(divide, "divide", {"a": 1, "b": 4})).value == 0.25


def no_annotation(a): ...  # type: ignore[no-untyped-def]


def many(*numbers: int) -> None: ...


def unknown(a: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def strange(a: threading.Thread) -> None: ...


@pytest.mark.parametrize("function", [no_annotation, many, unknown, strange, lambda: 1])
def test_functions_without_a_schema(function: Any) -> None:
    with pytest.raises(ToolValidationError):
        tool(function)


def test_plans_call_tools_that_give_values() -> None:
    registry = ToolRegistry([CalculatorTool(), scale])
    text = """[
      {"type": "EXECUTE_TOOL", "params": {"tool_id": "calculator", "command": "compute", "expression": "6 * 7"}},
      {"type": "EXECUTE_TOOL", "params": {"tool_id": "scale", "command": "do", "point": {"x": 1}}}]"""
    engine = PolicyEngine(load_policy().policy, autonomous=False)
    vetted = vet(parse_plan(text), registry, engine.judge)
    assert vetted.ok
    plan = vetted.plan
    assert plan is not None

    async def main() -> list[Any]:
        async with FakeSandbox() as sandbox:
            actions = PlanActions(registry, sandbox)
            done = [await actions.execute(PlanRequest.of(action), run_context()) for action in plan.actions]
            return [observation.value for observation in done]

    assert asyncio.run(main()) == [42, [2, 0]]
    wrong = text.replace('"expression"', '"expresion"')
    assert "unknown `expresion`; did you mean `expression`?" in str(
        vet(parse_plan(wrong), registry, engine.judge).faults[0]
    )


def test_a_definition_can_be_made_by_hand() -> None:
    assert ToolDefinition("x").schema["function"]["parameters"]["additionalProperties"] is False
