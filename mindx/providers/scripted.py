"""A provider that answers from a script: for examples, tests and plans that need no network."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Union

from mindx.core.message import ToolCall
from mindx.errors import InputError, ProviderError
from mindx.providers.arguments import read_call
from mindx.providers.base import (
    FINISH_STOP,
    FINISH_TOOL_CALLS,
    BaseProvider,
    ModelRequest,
    ProviderCapabilities,
    ProviderResponse,
    ProviderStreamChunk,
    unique_call_ids,
)
from mindx.providers.failures import FAILURES, provider_error

MAX_SCRIPT_BYTES = 16 * 1024 * 1024
_LINES = 'a text in quotes, {"json": VALUE}, or an object with text, calls, chunks, usage or error (docs/providers.md)'


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """One answer. `chunks` are the pieces in which a stream gives the text (() means in one).

    `gate` is waited for before the answer, so that a test decides when a model is slow; `asked` is set when the
    request is there. `error` is raised instead of an answer, after the `chunks` of a stream.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    chunks: tuple[str, ...] = ()
    error: ProviderError | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    finish_reason: str = ""
    gate: asyncio.Event | None = None
    asked: asyncio.Event | None = None

    @classmethod
    def call(cls, tool: str, /, **arguments: Any) -> ScriptedTurn:
        """Return a turn that calls one tool."""
        return cls(calls=(ToolCall("", tool, arguments),))


Turn = Union[str, ToolCall, Sequence[ToolCall], ScriptedTurn, ProviderError]  # noqa: UP007 - evaluated on 3.10
Script = Union[Iterable[Turn], Callable[[ModelRequest], Turn]]  # noqa: UP007


class ScriptedProvider(BaseProvider):
    """Answers with the turns of `script`, in order, or with what the function `script` returns for each request.

    A turn is a text, a ToolCall or several, a ScriptedTurn, or a ProviderError to raise. After the last turn it raises
    ProviderError (script_exhausted). `requests` keeps what was asked.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        name: str = "scripted",
        models: Sequence[str] = ("scripted",),
        capabilities: ProviderCapabilities | None = None,
    ) -> None:
        self.name = name
        self.models = tuple(models)
        self.capabilities = capabilities or ProviderCapabilities()
        self.requests: list[ModelRequest] = []
        self._answer = script if callable(script) else None
        self._turns = iter(() if callable(script) else tuple(script))
        self._closed = False
        self._made = 0

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], **settings: Any) -> ScriptedProvider:
        """Return a provider for a JSON Lines file of turns.

        A line is a text, `{"json": VALUE}` for a text that is that value, or an object with `text`, `calls` ([{"name",
        "arguments"}]), `chunks`, `usage` or `error` (a code of ProviderError). Raises InputError (script_invalid).
        """
        return cls(read_script(path), **settings)

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._closed

    async def generate(self, request: ModelRequest) -> ProviderResponse:
        """Return the next turn. Raises ProviderError."""
        turn = await self._next(request)
        if turn.error is not None:
            raise turn.error
        return self._response(turn, request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderStreamChunk, None]:
        """Yield the next turn in pieces. Raises ProviderError."""
        turn = await self._next(request)
        for piece in turn.chunks or ((turn.text,) if turn.text and turn.error is None else ()):
            yield ProviderStreamChunk(text=piece)
        if turn.error is not None:
            raise turn.error
        yield ProviderStreamChunk(response=self._response(turn, request))

    async def close(self) -> None:
        """Answer no more."""
        self._closed = True

    async def _next(self, request: ModelRequest) -> ScriptedTurn:
        if self._closed:
            raise provider_error("provider_closed", self.name)
        self.requests.append(request)
        turn = self._answer(request) if self._answer is not None else next(self._turns, None)
        if turn is None:
            raise provider_error("script_exhausted", f"{self.name}, request {len(self.requests)}")
        made = _as_turn(turn)
        if made.asked is not None:
            made.asked.set()
        if made.gate is not None:
            await made.gate.wait()
        return made

    def _response(self, turn: ScriptedTurn, request: ModelRequest) -> ProviderResponse:
        self._made += 1
        calls = tuple(
            call if call.call_id else replace(call, call_id=f"call_{self._made}_{index}")
            for index, call in enumerate(turn.calls)
        )
        return ProviderResponse(
            text=turn.text or "".join(turn.chunks),
            tool_calls=unique_call_ids(calls),
            finish_reason=turn.finish_reason or (FINISH_TOOL_CALLS if calls else FINISH_STOP),
            model=request.model or (self.models[0] if self.models else ""),
            provider=self.name,
            usage=turn.usage,
            response_id=f"scripted_{self._made}",
            api="scripted",
        )


def _as_turn(turn: Turn) -> ScriptedTurn:
    if isinstance(turn, ScriptedTurn):
        return turn
    if isinstance(turn, str):
        return ScriptedTurn(turn)
    if isinstance(turn, ToolCall):
        return ScriptedTurn(calls=(turn,))
    if isinstance(turn, ProviderError):
        return ScriptedTurn(error=turn)
    calls = tuple(call for call in turn if isinstance(call, ToolCall)) if isinstance(turn, Sequence) else ()
    if calls and len(calls) == len(turn):
        return ScriptedTurn(calls=calls)
    raise provider_error("script_invalid", f"a turn is a {type(turn).__name__}")


def read_script(path: str | os.PathLike[str]) -> list[ScriptedTurn]:
    """Return the turns of a JSON Lines file; empty lines do not count. Raises InputError (script_invalid)."""
    file = Path(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_SCRIPT_BYTES + 1)
    except OSError as error:
        raise _unusable(f"the script {file} cannot be read: {error.strerror}; name a file of turns") from error
    if len(data) > MAX_SCRIPT_BYTES:
        raise _unusable(f"the script {file} has more than {MAX_SCRIPT_BYTES:,} bytes")
    turns: list[ScriptedTurn] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            turns.append(_read_turn(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            fault = f"no JSON ({error.msg})" if isinstance(error, json.JSONDecodeError) else f"no turn ({error})"
            raise _unusable(f"{file}, line {number} is {fault}; a line is {_LINES}") from error
    return turns


def _unusable(message: str) -> InputError:
    return InputError("script_invalid", message)


def _read_turn(value: Any) -> ScriptedTurn:
    if isinstance(value, str):
        return ScriptedTurn(value)
    if not isinstance(value, dict):
        raise TypeError(f"it is {type(value).__name__}")
    if set(value) == {"json"}:
        return ScriptedTurn(json.dumps(value["json"]))
    unknown = set(value) - {"text", "calls", "chunks", "usage", "error"}
    if unknown:
        raise ValueError(f"unknown key {min(unknown)}")
    code = value.get("error")
    if code is not None and code not in FAILURES:
        raise ValueError(f"unknown error {code}")
    chunks = value.get("chunks", [])
    if not isinstance(value.get("text", ""), str) or not all(isinstance(chunk, str) for chunk in chunks):
        raise TypeError("text and chunks are text")
    return ScriptedTurn(
        text=value.get("text", ""),
        calls=tuple(_read_scripted_call(call) for call in value.get("calls", [])),
        chunks=tuple(chunks),
        error=None if code is None else provider_error(code, "scripted"),
        usage={str(name): int(count) for name, count in value.get("usage", {}).items()},
    )


def _read_scripted_call(value: Mapping[str, Any]) -> ToolCall:
    """Arguments given as text are read as a model's are, so a script can hold bad ones."""
    arguments = value.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return read_call(str(value.get("call_id", "")), str(value["name"]), text)
