"""The Chat Completions interface: our request as its parameters, its answer and its chunks as ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindx.core.message import ChatMessage, ImagePart, Role, TextPart, ToolCall
from mindx.core.output import plain_text
from mindx.providers.arguments import read_call
from mindx.providers.base import (
    FINISH_FILTER,
    FINISH_STOP,
    FINISH_TOOL_CALLS,
    ModelRequest,
    ProviderResponse,
    ProviderStreamChunk,
    ProviderToolCallDelta,
    unique_call_ids,
)
from mindx.providers.failures import provider_error
from mindx.providers.wire import (
    MAX_TOOL_CALLS,
    PLAIN_CHOICES,
    SCHEMA_NAME,
    GrowingCalls,
    GrowingText,
    follows_strictly,
    function_of,
    malformed,
    mapping,
    refuse_error_body,
    sent_arguments,
    sequence,
    string,
    usage_of,
)

API = "chat_completions"


def chat_params(request: ModelRequest, model: str) -> dict[str, Any]:
    """Return the parameters of `chat.completions.create`."""
    params: dict[str, Any] = {"model": model, "messages": [_message(item) for item in request.messages]}
    if request.tools:
        params["tools"] = [{"type": "function", "function": function_of(tool)} for tool in request.tools]
        params["tool_choice"] = _tool_choice(request.tool_choice)
    if request.response_schema is not None:
        strict = follows_strictly(request.response_schema)
        schema = {"name": SCHEMA_NAME, "schema": dict(request.response_schema), "strict": strict}
        params["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.max_output_tokens is not None:
        params["max_tokens"] = request.max_output_tokens
    if request.temperature is not None:
        params["temperature"] = request.temperature
    return params


def _tool_choice(choice: str) -> Any:
    if choice in PLAIN_CHOICES:
        return choice
    return {"type": "function", "function": {"name": choice}}


def _message(message: ChatMessage) -> dict[str, Any]:
    if message.role is Role.TOOL:
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
    if message.role is Role.ASSISTANT:
        sent: dict[str, Any] = {"role": "assistant", "content": message.text or None}
        if message.tool_calls:
            sent["tool_calls"] = [_call(call) for call in message.tool_calls]
        elif sent["content"] is None:
            sent["content"] = ""
        return sent
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return {"role": message.role.value, "content": message.text}
    return {"role": message.role.value, "content": [_part(part) for part in message.parts]}


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": sent_arguments(call)}
    return {"id": call.call_id, "type": "function", "function": function}


def _part(part: TextPart | ImagePart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    image = {"url": part.url}
    if part.detail != "auto":
        image["detail"] = part.detail
    return {"type": "image_url", "image_url": image}


def read_chat(body: Any, provider: str) -> ProviderResponse:
    """Return the answer of a whole body. Raises ProviderError."""
    body = mapping(body, "the answer")
    refuse_error_body(body)
    choices = sequence(body.get("choices"), "`choices`")
    if not choices:
        raise malformed("the answer has no choices")
    choice = mapping(choices[0], "a choice")
    message = mapping(choice.get("message"), "`message`")
    text = _content(message.get("content")) or string(message.get("refusal"))
    raw_calls = sequence(message.get("tool_calls"), "`tool_calls`")
    if len(raw_calls) > MAX_TOOL_CALLS:
        raise malformed(f"more than {MAX_TOOL_CALLS} tool calls in one answer")
    calls = unique_call_ids(tuple(_read_call(item) for item in raw_calls))
    return _response(body, provider, plain_text(text), calls, string(choice.get("finish_reason")), body.get("usage"))


def _content(content: Any) -> str:
    if isinstance(content, list):  # some endpoints answer in parts
        return "".join(string(part.get("text")) for part in content if isinstance(part, Mapping))
    if content is not None and not isinstance(content, str):
        raise malformed("`content` is no text")
    return content or ""


def _read_call(value: Any) -> ToolCall:
    call = mapping(value, "a tool call")
    function = mapping(call.get("function"), "`function`")
    return read_call(string(call.get("id")), string(function.get("name")), _arguments(function.get("arguments")))


def _arguments(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    raise malformed("`arguments` is no text")


def _response(
    body: Mapping[str, Any], provider: str, text: str, calls: tuple[ToolCall, ...], finish: str, usage: Any
) -> ProviderResponse:
    if finish == FINISH_FILTER and not text and not calls:
        raise provider_error("provider_content_filtered")
    return ProviderResponse(
        text=text,
        tool_calls=calls,
        finish_reason=FINISH_TOOL_CALLS
        if calls and finish in ("", FINISH_STOP, "function_call")
        else finish or FINISH_STOP,
        model=plain_text(string(body.get("model"))),
        provider=provider,
        usage=usage_of(usage),
        response_id=plain_text(string(body.get("id"))),
        api=API,
    )


class ChatStream:
    """Puts the chunks of one streamed answer together."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._text = GrowingText()
        self._calls = GrowingCalls()
        self._finish = ""
        self._usage: Any = None
        self._head: dict[str, Any] = {}

    def add(self, body: Any) -> list[ProviderStreamChunk]:
        """Take in one chunk and return what it brings. Raises ProviderError."""
        body = mapping(body, "a chunk of the answer")
        refuse_error_body(body)
        self._head = self._head or {"id": body.get("id"), "model": body.get("model")}
        self._usage = body.get("usage") or self._usage
        found: list[ProviderStreamChunk] = []
        for item in sequence(body.get("choices"), "`choices`")[:1]:
            choice = mapping(item, "a choice")
            self._finish = string(choice.get("finish_reason")) or self._finish
            found += self._delta(mapping(choice.get("delta") or {}, "`delta`"))
        return found

    def _delta(self, delta: Mapping[str, Any]) -> list[ProviderStreamChunk]:
        found: list[ProviderStreamChunk] = []
        text = plain_text(_content(delta.get("content")) or string(delta.get("refusal")))
        if text:
            self._text.add(text)
            found.append(ProviderStreamChunk(text=text))
        for position, item in enumerate(sequence(delta.get("tool_calls"), "`tool_calls`")):
            call = mapping(item, "a tool call")
            function = mapping(call.get("function") or {}, "`function`")
            index = call.get("index", position)
            if type(index) is not int:
                raise malformed("a tool call's `index` is no number")
            piece = ProviderToolCallDelta(
                index, string(call.get("id")), string(function.get("name")), _arguments(function.get("arguments"))
            )
            self._calls.add(piece)
            found.append(ProviderStreamChunk(tool_call=piece))
        return found

    def finish(self) -> ProviderResponse:
        """Return the whole answer. Raises ProviderError (provider_interrupted) when its end never came."""
        if not self._finish:
            raise provider_error("provider_interrupted")
        return _response(self._head, self._provider, str(self._text), self._calls.finish(), self._finish, self._usage)
