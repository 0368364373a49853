"""A tool call's arguments as a model wrote them: read strictly, bounded, and never a reason to crash."""

from __future__ import annotations

from typing import Any

from mindx.core.message import ToolCall
from mindx.core.output import plain_text
from mindx.core.strict_json import read_json

MAX_ARGUMENT_BYTES = 1024 * 1024
MAX_NAME_CHARS = 256
_EXCERPT_CHARS = 500


def read_call(call_id: str, name: str, text: str, max_bytes: int = MAX_ARGUMENT_BYTES) -> ToolCall:
    """Return the tool call; what is wrong with its arguments is told in `problem`.

    Of arguments that cannot be used, `arguments_text` keeps the beginning only.
    """
    name = plain_text(name)
    text = plain_text(text)
    arguments, problem = read_arguments(text, max_bytes)
    if not name:
        problem = "the call names no tool"
    elif len(name) > MAX_NAME_CHARS:
        name, problem = name[:MAX_NAME_CHARS], f"a tool's name has at most {MAX_NAME_CHARS} characters"
    if problem:
        return ToolCall(plain_text(call_id), name, {}, text[:_EXCERPT_CHARS], problem)
    return ToolCall(plain_text(call_id), name, arguments, text)


def read_arguments(text: str, max_bytes: int = MAX_ARGUMENT_BYTES) -> tuple[dict[str, Any], str]:
    """Return the arguments and "", or {} and what is wrong with them. No text at all means no arguments."""
    if not text.strip():
        return {}, ""
    size = len(text) if len(text) > max_bytes else len(text.encode())
    if size > max_bytes:
        return {}, f"the arguments have {size:,} bytes or more; at most {max_bytes:,} are taken"
    document = read_json(text)
    if document.faults or not document.complete:
        fault = document.faults[0]
        place = f" (line {fault.line}, column {fault.column})" if fault.line else ""
        return {}, f"the arguments are not valid JSON: {fault.message}{place}"
    if document.duplicates:
        return {}, f"the arguments name {document.duplicates[0].key!r} twice"
    if not isinstance(document.value, dict):
        return {}, "the arguments are not a JSON object"
    return document.value, ""
