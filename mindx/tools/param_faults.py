"""From the errors of an argument model to faults that a person or a model can act on."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from mindx.core.count import counted
from mindx.core.nearest import did_you_mean
from mindx.core.quote import quoted
from mindx.core.strict_json import member_path
from mindx.tools.command_tool import ParamFault

MAX_FAULTS = 20  # of one call
MAX_LINE = 60  # characters of a line that is shown as a list
_PLAIN_WORDS = re.compile(r"[\w./=-]+( [\w./=-]+)*", re.ASCII)  # a line with quotes or signs is not taken apart

_KINDS = {
    "string_type": "text",
    "tuple_type": "a list",
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
}
_GIVEN = {type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "text"}


def refused(message: str, suggestion: str = "", path: str = "") -> PydanticCustomError:
    """Return an error for a validator to raise; `path` is for a validator of a whole model."""
    return PydanticCustomError("refused", "{message}", {"message": message, "suggestion": suggestion, "path": path})


def param_faults(error: ValidationError, model: type[BaseModel]) -> tuple[ParamFault, ...]:
    """Return one fault for each thing wrong, MAX_FAULTS at most and one that counts the others."""
    details = error.errors(include_url=False)
    faults = [_fault(detail, model) for detail in details[:MAX_FAULTS]]
    if len(details) > MAX_FAULTS:
        faults.append(ParamFault("", f"not listed: {counted(len(details) - MAX_FAULTS, 'more fault')}"))
    return tuple(faults)


def _fault(detail: ErrorDetails, model: type[BaseModel]) -> ParamFault:
    names = tuple(model.model_fields)
    path, shown = "", ""
    for part in detail["loc"]:
        path = f"{path}[{part}]" if isinstance(part, int) else member_path(path, part)
        shown = f"{shown}[{part}]" if isinstance(part, int) else part
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return ParamFault("", f"`{shown}` is missing", f'add "{shown}": "..."')
    if kind == "extra_forbidden":
        takes = f"it takes {', '.join(f'`{name}`' for name in names)}" if names else "it takes no parameters"
        return ParamFault(path, f"unknown parameter {quoted(shown)}", did_you_mean(shown, names) or takes)
    if kind == "refused":
        message = f"`{shown}` {context['message']}" if shown else context["message"]
        return ParamFault(context["path"] or path, message, context["suggestion"])
    if kind in _KINDS:
        message = f"`{shown}` is {_KINDS[kind]}, not {_given(detail['input'])}"
        return ParamFault(path, message, _as_list(detail["input"]) if kind == "tuple_type" else "")
    return ParamFault(path, f"{quoted(shown)}: {detail['msg']}")


def _as_list(value: Any) -> str:
    """Return how a short line of plain words is written as a list, else ""."""
    if not isinstance(value, str) or len(value) > MAX_LINE or not _PLAIN_WORDS.fullmatch(value):
        return ""
    return f"write {json.dumps(value.split())}"


def _given(value: Any) -> str:
    return _GIVEN.get(type(value), "a list" if isinstance(value, (list, tuple)) else "an object")
