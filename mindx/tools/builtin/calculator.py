"""calculator: arithmetic by a restricted syntax tree; nothing of an expression is ever executed as Python."""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Union

from mindx.core.action import ActionRisk
from mindx.core.quote import quoted
from mindx.tools.base import BaseTool, ToolDefinition, ToolError
from mindx.tools.context import ToolContext

MAX_CHARS = 1000
MAX_NODES = 500
MAX_DEPTH = 50
MAX_BITS = 4096  # of a whole number: about 1,200 digits
MAX_FACTORIAL = 500

Number = Union[int, float]  # noqa: UP007 - an alias that Python 3.10 evaluates


class TooLargeError(ArithmeticError):
    """A number would be too large."""


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1:
        if exponent < 0:
            return float(base) ** exponent
        if base.bit_length() * exponent > MAX_BITS + 64:
            raise TooLargeError
    result: Any = base**exponent
    if isinstance(result, complex):
        raise ToolError("the result is no real number")
    return result  # type: ignore[no-any-return]


def _factorial(number: Number) -> int:
    if not float(number).is_integer() or not 0 <= number <= MAX_FACTORIAL:
        raise ToolError(f"factorial takes a whole number from 0 to {MAX_FACTORIAL}")
    return math.factorial(int(number))


def _round(number: Number, digits: Number = 0) -> Number:
    if not isinstance(digits, int) or abs(digits) > 300:
        raise ToolError("round takes a whole number of digits, up to 300")
    return round(number, digits) if digits else round(number)


_OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_SIGNS: dict[type[ast.unaryop], Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_FUNCTIONS: dict[str, tuple[Callable[..., Number], int, int]] = {
    "abs": (abs, 1, 1),
    "ceil": (math.ceil, 1, 1),
    "cos": (math.cos, 1, 1),
    "exp": (math.exp, 1, 1),
    "factorial": (_factorial, 1, 1),
    "floor": (math.floor, 1, 1),
    "gcd": (math.gcd, 2, 2),
    "log": (math.log, 1, 2),
    "log10": (math.log10, 1, 1),
    "log2": (math.log2, 1, 1),
    "max": (max, 2, 50),
    "min": (min, 2, 50),
    "round": (_round, 1, 2),
    "sin": (math.sin, 1, 1),
    "sqrt": (math.sqrt, 1, 1),
    "tan": (math.tan, 1, 1),
}
_CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e, "tau": math.tau}


class CalculatorTool(BaseTool):
    """Numbers, + - * / // % **, brackets, and the functions and constants that its description names."""

    definition = ToolDefinition(
        name="calculator",
        description="Compute an arithmetic expression such as (17 + 25) * 2 ** 3. "
        f"Functions: {', '.join(_FUNCTIONS)}. Constants: {', '.join(_CONSTANTS)}.",
        parameters={
            "type": "object",
            "properties": {"expression": {"type": "string", "minLength": 1, "maxLength": MAX_CHARS}},
            "required": ["expression"],
            "additionalProperties": False,
        },
        risk=ActionRisk.READ_ONLY,
    )

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the number. Raises ToolError for what is no arithmetic, or too large."""
        return calculate(arguments["expression"])


def calculate(expression: str) -> Number:
    """Return the value of an expression. Raises ToolError."""
    if len(expression) > MAX_CHARS:
        raise ToolError(f"the expression has more than {MAX_CHARS:,} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python's parser, about odd literals
            tree = ast.parse(expression.strip(), mode="eval")
        if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
            raise ToolError("the expression is too long")
        result = _value(tree.body, 0)
    except (SyntaxError, RecursionError, MemoryError):
        raise ToolError(f"{quoted(expression)} is no arithmetic expression") from None
    except ZeroDivisionError:
        raise ToolError("it divides by zero") from None
    except (ArithmeticError, TypeError, ValueError) as error:
        if isinstance(error, (OverflowError, TooLargeError)):
            raise ToolError("a number is too large to be computed here") from None
        raise ToolError(f"it cannot be computed: {error}") from None
    if isinstance(result, float) and not math.isfinite(result):
        raise ToolError("a number is too large to be computed here")
    return result


def _value(node: ast.expr, depth: int) -> Number:
    if depth > MAX_DEPTH:
        raise ToolError("the expression is nested too deep")
    if isinstance(node, ast.Constant):
        return _checked(node.value)
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _checked(_OPERATORS[type(node.op)](_value(node.left, depth + 1), _value(node.right, depth + 1)))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _SIGNS:
        return _SIGNS[type(node.op)](_value(node.operand, depth + 1))
    if isinstance(node, ast.Call):
        return _checked(_called(node, depth))
    shown = ast.unparse(node)
    raise ToolError(f"{quoted(shown)} is no arithmetic; use numbers, + - * / // % ** and {', '.join(_FUNCTIONS)}")


def _called(node: ast.Call, depth: int) -> Number:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name not in _FUNCTIONS or node.keywords:
        raise ToolError(f"{quoted(ast.unparse(node.func))} is no function here; there are {', '.join(_FUNCTIONS)}")
    function, least, most = _FUNCTIONS[name]
    if not least <= len(node.args) <= most:
        raise ToolError(f"{name} takes {least if least == most else f'{least} to {most}'} numbers")
    return function(*(_value(item, depth + 1) for item in node.args))


def _checked(value: Any) -> Number:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ToolError(f"{quoted(str(value))} is no number")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise TooLargeError
    return value
