"""A tool call's arguments as a model wrote them: read strictly, bounded, and never a reason to crash."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

from mindx.core.message import ToolCall
from mindx.core.output import plain_text
from mindx.core.quote import quoted

MAX_ARGUMENT_BYTES = 1024 * 1024
MAX_NAME_CHARS = 256
MAX_DEPTH = 64
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
    return _read(text)


def _read(text: str) -> tuple[dict[str, Any], str]:
    """Read with the standard library's scanner, which takes a megabyte of anything without holding the loop up."""
    try:
        value = json.loads(text, object_pairs_hook=_members, parse_constant=_no_number, parse_float=_finite)
    except json.JSONDecodeError as error:
        return {}, f"the arguments are not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, _RefusedError) else "a number is too long, or it is nested too deep"
        return {}, f"the arguments are not valid JSON: {reason}"
    if not isinstance(value, dict):
        return {}, "the arguments are not a JSON object"
    if _too_deep(value):
        return {}, f"the arguments are nested deeper than {MAX_DEPTH} levels"
    if "\\u" in text and not _encodes(value):
        return {}, "the arguments are not valid JSON: half of a surrogate pair"
    return value, ""


class _RefusedError(ValueError):
    pass


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        counted = Counter(name for name, _ in pairs)
        raise _RefusedError(f"{quoted(counted.most_common(1)[0][0])} is named twice")
    return members


def _no_number(text: str) -> float:
    raise _RefusedError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _RefusedError("a number is too large")
    return value


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True


def _encodes(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
