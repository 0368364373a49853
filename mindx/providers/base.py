"""The contract of a model endpoint: one request, one answer, whole or in pieces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from typing_extensions import Self

from mindx.core.message import ChatMessage, ImagePart, ToolCall

ProviderToolCall = ToolCall

FINISH_STOP, FINISH_TOOL_CALLS, FINISH_LENGTH, FINISH_FILTER = "stop", "tool_calls", "length", "content_filter"


@dataclass(frozen=True, slots=True)
class ProviderCapabilities:
    """What an endpoint can do. `max_context_tokens` None means unknown."""

    text: bool = True
    tools: bool = True
    vision: bool = True
    json_schema: bool = True
    streaming: bool = True
    max_context_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ModelCapabilityRequest:
    """What a request needs of an endpoint. `model` "" takes any; a name takes only who serves it."""

    tools: bool = False
    vision: bool = False
    json_schema: bool = False
    streaming: bool = False
    min_context_tokens: int = 0
    model: str = ""

    def missing(self, capabilities: ProviderCapabilities) -> list[str]:
        """Return the names of what is needed and not there."""
        wanted = {"tools": self.tools, "vision": self.vision, "json_schema": self.json_schema}
        wanted["streaming"] = self.streaming
        lacking = [name for name, needed in wanted.items() if needed and not getattr(capabilities, name)]
        if not capabilities.text:
            lacking.append("text")
        room = capabilities.max_context_tokens
        if room is not None and room < self.min_context_tokens:
            lacking.append("max_context_tokens")
        return lacking


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a model is asked.

    `tools` are function schemas, flat (`name`, `description`, `parameters`) or as chat completions nest them.
    `model` "" takes the provider's first. `tool_choice` is auto, none, required or a tool's name.
    `response_schema` is the JSON Schema that the answer must follow, None for free text.
    `api` is auto, chat_completions or responses, "" for the provider's own setting. None leaves a value to the model.
    """

    messages: tuple[ChatMessage, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    model: str = ""
    tool_choice: str = "auto"
    response_schema: Mapping[str, Any] | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    api: str = ""

    @property
    def has_images(self) -> bool:
        """True when a message carries an image."""
        return any(isinstance(part, ImagePart) for message in self.messages for part in message.parts)

    @property
    def needs(self) -> ModelCapabilityRequest:
        """What the endpoint must be able to do."""
        return ModelCapabilityRequest(
            tools=bool(self.tools),
            vision=self.has_images,
            json_schema=self.response_schema is not None,
            model=self.model,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "messages": [message.to_dict() for message in self.messages],
            "tools": [dict(tool) for tool in self.tools],
            "model": self.model,
            "tool_choice": self.tool_choice,
            "response_schema": self.response_schema,
            "max_output_tokens": self.max_output_tokens,
            "temperature": self.temperature,
            "api": self.api,
        }


@dataclass(frozen=True, slots=True)
class ProviderResponse:
    """What a model answered. `usage` counts tokens (`input_tokens`, `output_tokens`, ...) and is {} when unknown.

    `finish_reason` is stop, tool_calls, length, content_filter or the endpoint's own word. `api` says which interface
    answered. The arguments of `tool_calls` are what a model wrote: untrusted, and not yet held against any schema.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = FINISH_STOP
    model: str = ""
    provider: str = ""
    usage: Mapping[str, int] = field(default_factory=dict)
    response_id: str = ""
    api: str = ""

    @property
    def message(self) -> ChatMessage:
        """The answer as the assistant's message."""
        return ChatMessage.assistant(self.text, self.tool_calls)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "message": self.message.to_dict(),
            "finish_reason": self.finish_reason,
            "model": self.model,
            "provider": self.provider,
            "usage": dict(self.usage),
            "response_id": self.response_id,
            "api": self.api,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> ProviderResponse:
        """Return what `to_dict` was called on. Raises KeyError, ValueError and TypeError for anything else."""
        message = ChatMessage.from_dict(value["message"])
        usage = {str(name): int(count) for name, count in value["usage"].items()}
        names = ("finish_reason", "model", "provider", "response_id", "api")
        rest = {name: str(value[name]) for name in names}
        return cls(message.text, message.tool_calls, usage=usage, **rest)


@dataclass(frozen=True, slots=True)
class ProviderToolCallDelta:
    """A piece of a tool call: `index` says of which one; `call_id` and `name` are "" but in the first piece."""

    index: int
    call_id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class ProviderStreamChunk:
    """A piece of an answer: text, a piece of a tool call, or (the last one, always) the whole `response`."""

    text: str = ""
    tool_call: ProviderToolCallDelta | None = None
    response: ProviderResponse | None = None


class BaseProvider(ABC):
    """A model endpoint. Use it with `async with`, or `close()` it; both may be done twice."""

    name = "provider"
    models: tuple[str, ...] = ()
    capabilities = ProviderCapabilities()

    @abstractmethod
    async def generate(self, request: ModelRequest) -> ProviderResponse:
        """Return the whole answer. Raises ProviderError; cancelling ends it at once and closes its connection."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderStreamChunk, None]:
        """Yield the answer in pieces, the whole response last. Raises ProviderError, in the middle too."""
        response = await self.generate(request)
        if response.text:
            yield ProviderStreamChunk(text=response.text)
        yield ProviderStreamChunk(response=response)

    async def close(self) -> None:  # noqa: B027 - a provider without connections has nothing to close
        """Close connections; afterwards `generate` and `stream` raise ProviderError (provider_closed)."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def unique_call_ids(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return the calls, each with an id of its own: some endpoints send none, or the same twice."""
    seen: set[str] = set()
    named: list[ToolCall] = []
    for index, call in enumerate(calls):
        call_id = call.call_id
        while not call_id or call_id in seen:
            call_id = f"call_{index}" if not call_id else f"{call_id}_{index}"
        seen.add(call_id)
        named.append(call if call_id == call.call_id else replace(call, call_id=call_id))
    return tuple(named)
