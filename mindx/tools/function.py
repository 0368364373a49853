"""`@tool`: a plain function as a tool; its signature becomes the schema, its docstring the description."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError

from mindx.core.action import ActionRisk
from mindx.core.validation import faults
from mindx.tools.base import BaseTool, ToolDefinition, ToolError, ToolValidationError
from mindx.tools.context import ToolContext

Function = Callable[..., Any]


class FunctionTool(BaseTool):
    """A tool made of a function. It can still be called as the function that it is."""

    def __init__(self, function: Function, definition: ToolDefinition, model: type[BaseModel], context: str) -> None:
        self.definition = definition
        self.function = function
        self._model = model
        self._context = context  # the parameter that takes the ToolContext, or ""

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """Call the function itself."""
        return self.function(*positional, **named)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Call the function with the arguments as its annotations have them. Raises ToolError for those that do not."""
        try:
            made = self._model.model_validate(arguments)
        except ValidationError as error:
            message = f"{self.tool_id} does not take these arguments: {faults(error)}"
            raise ToolError(message, "tool_arguments_invalid") from None
        values = {name: getattr(made, name) for name in type(made).model_fields}
        if self._context:
            values[self._context] = context
        result = self.function(**values)
        return await result if inspect.isawaitable(result) else result


@overload
def tool(function: Function, /) -> FunctionTool: ...


@overload
def tool(
    function: None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    risk: ActionRisk = ActionRisk.WRITE,
    require_human_approval: bool = False,
    concurrency_key: str | None = None,
    timeout_s: float | None = None,
) -> Callable[[Function], FunctionTool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    risk: ActionRisk = ActionRisk.WRITE,
    require_human_approval: bool = False,
    concurrency_key: str | None = None,
    timeout_s: float | None = None,
) -> FunctionTool | Callable[[Function], FunctionTool]:
    """Make a tool of a function, as `@tool` or `@tool(risk=ActionRisk.READ_ONLY)`.

    `name` "" takes the function's own, `description` "" its docstring. A parameter annotated as ToolContext gets the
    call's surroundings and is no argument. A plain function runs in a thread of its own (there it has no sandbox), an
    `async def` in the loop. It runs on the host, as the program's own code does. Raises ToolValidationError
    (tool_invalid) for a signature that has no schema.
    """

    def made(target: Function) -> FunctionTool:
        model, context = _model_of(target)
        definition = ToolDefinition(
            name or getattr(target, "__name__", ""),
            description or inspect.getdoc(target) or "",
            _parameters(model),
            risk,
            require_human_approval,
            concurrency_key,
            timeout_s,
            blocking=not inspect.iscoroutinefunction(target),
        )
        return FunctionTool(target, definition, model, context)

    return made if function is None else made(function)


def _model_of(function: Function) -> tuple[type[BaseModel], str]:
    """Return the model of the arguments, and the name of the parameter that takes the ToolContext, or ""."""
    shown = getattr(function, "__name__", "the function")
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise ToolValidationError("tool_invalid", f"the annotations of {shown} cannot be read: {error}") from None
    context, fields = "", {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ToolValidationError("tool_invalid", f"{shown} takes {parameter}; a tool's parameters have names")
        if parameter.name not in hints:
            raise ToolValidationError("tool_invalid", f"`{parameter.name}` of {shown} has no annotation")
        if hints[parameter.name] is ToolContext:
            context = parameter.name
            continue
        default = Field() if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    try:
        model = create_model(f"{shown}_arguments", __config__=ConfigDict(extra="forbid"), **fields)  # type: ignore[call-overload]
    except (PydanticUserError, NameError, TypeError) as error:
        raise ToolValidationError("tool_invalid", f"{shown} has no schema: {str(error).splitlines()[0]}") from None
    return model, context


def _parameters(model: type[BaseModel]) -> dict[str, Any]:
    try:
        schema = model.model_json_schema()
    except PydanticUserError as error:
        raise ToolValidationError("tool_invalid", f"{model.__name__}: {str(error).splitlines()[0]}") from None
    schema.pop("title", None)
    for value in schema.get("properties", {}).values():
        value.pop("title", None)
    schema.setdefault("properties", {})
    schema["additionalProperties"] = False
    return schema
