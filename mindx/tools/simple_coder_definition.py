"""SimpleCoder as one function for a model: its command, and the arguments of all commands side by side."""

from __future__ import annotations

from typing import Any

from mindx.tools.base import ToolDefinition
from mindx.tools.simple_coder_args import COMMANDS


def coder_definition(name: str, described: str) -> ToolDefinition:
    """Return the definition. Which arguments a command takes is checked by the command's own model, with a fault each.

    Most model endpoints refuse a choice between objects (oneOf) at the root of a function's parameters.
    """
    properties: dict[str, Any] = {"command": {"type": "string", "enum": list(COMMANDS)}}
    for command, model in COMMANDS.items():
        schema = model.model_json_schema()
        for argument, found in schema.get("properties", {}).items():
            text = f"{command}: {found.get('description', '')}"
            if argument in properties:
                properties[argument]["description"] += f"; {text}"
            else:
                properties[argument] = {**_form(found), "description": text}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": ["command"],
        "additionalProperties": False,
    }
    return ToolDefinition(name, f"Files, programs and virtual environments in the sandbox.\n{described}", parameters)


def _form(found: dict[str, Any]) -> dict[str, Any]:
    """Return what kind of value an argument is, without pydantic's titles and defaults."""
    options = [option for option in found.get("anyOf", [found]) if option.get("type") != "null"]
    chosen = options[0]
    form: dict[str, Any] = {"type": chosen["type"]}
    if chosen["type"] == "array":
        form["items"] = {"type": "string"}
    return form
