"""What both OpenAI interfaces share: reading untrusted answers, tool schemas, token counts, growing tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindx.core.message import ToolCall
from mindx.errors import InputError
from mindx.providers.arguments import MAX_ARGUMENT_BYTES, read_call
from mindx.providers.base import ProviderToolCallDelta, unique_call_ids
from mindx.providers.failures import BY_BODY, provider_error

MAX_TOOL_CALLS = 128
PLAIN_CHOICES = ("auto", "none", "required")  # of tools; anything else is one tool's name
SCHEMA_NAME = "answer"
MAX_TEXT_CHARS = 8 * 1024 * 1024


def function_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool schema's name, description and parameters, flat; extra keys of the wrapping are dropped.

    Raises InputError (tool_schema_invalid) when it has no name or no object as parameters.
    """
    nested = schema.get("function")
    flat = nested if isinstance(nested, Mapping) else schema
    name, parameters = flat.get("name"), flat.get("parameters", {"type": "object", "properties": {}})
    if not isinstance(name, str) or not name or not isinstance(parameters, Mapping):
        raise InputError("tool_schema_invalid", "a tool schema needs a `name` and an object as `parameters`")
    return {"name": name, "description": str(flat.get("description", "")), "parameters": dict(parameters)}


def follows_strictly(schema: Any) -> bool:
    """Return whether endpoints can hold an answer to a schema: every object in it is closed and needs all its members.

    They refuse other schemas as strict; sent as a mere wish those still help.
    """
    if isinstance(schema, list):
        return all(follows_strictly(item) for item in schema)
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object":
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or schema.get("additionalProperties") is not False:
            return False
        if set(properties) != set(schema.get("required", ())):
            return False
    return all(follows_strictly(item) for item in schema.values())


def malformed(what: str) -> Exception:
    """Return the error for an answer that is not of the promised form."""
    return provider_error("provider_malformed_answer", what)


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """Return the value, which must be an object. Raises ProviderError (provider_malformed_answer)."""
    if not isinstance(value, Mapping):
        raise malformed(f"{what} is no object")
    return value


def sequence(value: Any, what: str) -> list[Any]:
    """Return the value, which must be an array; None is an empty one. Raises ProviderError."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise malformed(f"{what} is no array")
    return value


def string(value: Any) -> str:
    """Return the value when it is text, else ""."""
    return value if isinstance(value, str) else ""


def refuse_error_body(body: Mapping[str, Any]) -> None:
    """Raise what an error body says; some endpoints send one with status 200."""
    error = body.get("error")
    if not error:
        return
    if isinstance(error, Mapping):
        for name in ("code", "type"):
            known = BY_BODY.get(str(error.get(name)))
            if known:
                raise provider_error(known)
    raise provider_error("provider_server_error")


def usage_of(value: Any) -> dict[str, int]:
    """Return token counts under our names, of either interface; {} when there is nothing to trust."""
    if not isinstance(value, Mapping):
        return {}
    found = {
        "input_tokens": value.get("prompt_tokens", value.get("input_tokens")),
        "output_tokens": value.get("completion_tokens", value.get("output_tokens")),
        "total_tokens": value.get("total_tokens"),
    }
    for name, inner, key in (
        ("cached_tokens", ("prompt_tokens_details", "input_tokens_details"), "cached_tokens"),
        ("reasoning_tokens", ("completion_tokens_details", "output_tokens_details"), "reasoning_tokens"),
    ):
        for details in (value.get(field) for field in inner):
            if isinstance(details, Mapping):
                found[name] = details.get(key)
    return {name: count for name, count in found.items() if type(count) is int and 0 <= count < 2**53}


class GrowingCalls:
    """Tool calls that arrive in pieces; what is over the limit is counted and dropped, so memory stays bounded."""

    def __init__(self, max_argument_bytes: int = MAX_ARGUMENT_BYTES) -> None:
        self._max = max_argument_bytes
        self._calls: dict[int, tuple[list[str], list[str]]] = {}
        self._sizes: dict[int, int] = {}

    def add(self, piece: ProviderToolCallDelta) -> None:
        """Take in one piece. Raises ProviderError when there are too many calls."""
        if piece.index not in self._calls:
            if len(self._calls) >= MAX_TOOL_CALLS:
                raise malformed(f"more than {MAX_TOOL_CALLS} tool calls in one answer")
            self._calls[piece.index] = (["", ""], [])
            self._sizes[piece.index] = 0
        head, pieces = self._calls[piece.index]
        head[0] = head[0] or piece.call_id
        head[1] = head[1] or piece.name
        if self._sizes[piece.index] <= self._max:
            pieces.append(piece.arguments)
        self._sizes[piece.index] += len(piece.arguments)

    def replace_arguments(self, index: int, text: str) -> None:
        """Take the whole arguments of a call, as an endpoint repeats them at the end."""
        if index in self._calls:
            self._calls[index][1][:] = [text]
            self._sizes[index] = len(text)

    def finish(self) -> tuple[ToolCall, ...]:
        """Return the calls in their order."""
        return unique_call_ids(
            tuple(
                read_call(head[0], head[1], "".join(pieces), self._max)
                for _, (head, pieces) in sorted(self._calls.items())
            )
        )


class GrowingText:
    """Text that arrives in pieces, up to a limit."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def add(self, piece: str) -> None:
        """Take in a piece. Raises ProviderError (provider_answer_too_large)."""
        self._size += len(piece)
        if self._size > MAX_TEXT_CHARS:
            raise provider_error("provider_answer_too_large", f"more than {MAX_TEXT_CHARS:,} characters of text")
        self._pieces.append(piece)

    def __str__(self) -> str:
        return "".join(self._pieces)


def sent_arguments(call: ToolCall) -> str:
    """Return a call's arguments as they go back to the endpoint: always JSON, since some refuse anything else."""
    return "{}" if call.problem else call.text
