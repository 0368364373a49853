"""Arguments against a tool's JSON Schema, by the jsonschema library; nothing is ever fetched for a schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from mindx.core.nearest import did_you_mean
from mindx.core.quote import quoted
from mindx.core.strict_json import member_path
from mindx.tools.base import ToolDefinition, ToolValidationError

MAX_SCHEMA_CHARS = 256 * 1024
MAX_FAULTS = 8
MAX_FAULT_CHARS = 300

Check = Callable[[Mapping[str, Any]], str]


def compile_check(definition: ToolDefinition, schema: Mapping[str, Any] | None = None) -> Check:
    """Return a function that says what is wrong with arguments, or ""; `schema` None takes the definition's parameters.

    Raises ToolValidationError (tool_invalid) when the definition's parameters are no JSON Schema.
    """
    # jsonschema costs a tenth of a second to import; a plan without such tools pays nothing.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from referencing import Registry

    wanted = _plain(definition.name, definition.parameters if schema is None else schema)
    try:
        Draft202012Validator.check_schema(wanted)
    except SchemaError as error:
        where = "/".join(map(str, error.absolute_path)) or "the schema"
        reason = error.message[:MAX_FAULT_CHARS]
        raise ToolValidationError("tool_invalid", f"the parameters of {definition.name}: {where}: {reason}") from None
    # An empty registry: a `$ref` to another place is not looked up on the network.
    validator = Draft202012Validator(wanted, registry=Registry())

    def check(arguments: Mapping[str, Any]) -> str:
        try:
            errors = []
            for error in validator.iter_errors(arguments):
                errors.append(error)
                if len(errors) == MAX_FAULTS:
                    break
        except Exception as error:  # noqa: BLE001 - a schema that cannot be followed refuses, whatever its fault
            return f"the tool's schema cannot be followed ({type(error).__name__})"
        return "; ".join(_fault(error) for error in errors)

    return check


def _plain(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = json.dumps(parameters, default=dict)
        if len(text) > MAX_SCHEMA_CHARS:
            raise ValueError(f"they have more than {MAX_SCHEMA_CHARS:,} characters")
        schema: dict[str, Any] = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        reason = f"the parameters of {name} are no JSON: {str(error)[:MAX_FAULT_CHARS]}"
        raise ToolValidationError("tool_invalid", reason) from None
    return schema


def _fault(error: Any) -> str:
    """Say what is wrong, where, and what to write instead, without repeating a large value."""
    path = ""
    for part in error.absolute_path:
        path = f"{path}[{part}]" if isinstance(part, int) else member_path(path, str(part)).lstrip(".")
    where = f"`{path}`: " if path else ""
    kind, wanted, given = error.validator, error.validator_value, error.instance
    if kind == "required":
        missing = [name for name in wanted if name not in given]
        return f"{where}missing {', '.join(quoted(str(name)) for name in missing)}"
    if kind == "additionalProperties" and isinstance(given, Mapping):
        known = list(error.schema.get("properties", {}))
        extra = [str(name) for name in given if name not in known][:MAX_FAULTS]
        hint = did_you_mean(extra[0], known) if extra else ""
        takes = f"it takes {', '.join(known)}" if known else "it takes no arguments"
        return f"{where}unknown {', '.join(quoted(name) for name in extra)}; {hint or takes}"
    if kind == "type":
        names = wanted if isinstance(wanted, str) else " or ".join(map(str, wanted))
        return f"{where}expected {names}, not {_kind(given)}"
    if kind == "enum":
        return f"{where}expected one of {', '.join(json.dumps(item) for item in wanted)[:MAX_FAULT_CHARS]}"
    if kind in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems"):
        return f"{where}{kind} is {wanted}"
    return where + _short(str(error.message))


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, (list, tuple)) else "object"


def _short(text: str) -> str:
    return text if len(text) <= MAX_FAULT_CHARS else text[:MAX_FAULT_CHARS] + "..."
