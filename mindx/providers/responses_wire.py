"""The Responses interface: our request as its parameters, its answer and its events as ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindx.core.message import ChatMessage, ImagePart, Role, TextPart, ToolCall
from mindx.core.output import plain_text
from mindx.providers.arguments import read_call
from mindx.providers.base import (
    FINISH_FILTER,
    FINISH_LENGTH,
    FINISH_STOP,
    FINISH_TOOL_CALLS,
    ModelRequest,
    ProviderResponse,
    ProviderStreamChunk,
    ProviderToolCallDelta,
    unique_call_ids,
)
from mindx.providers.failures import BY_BODY, provider_error
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

API = "responses"


def responses_params(request: ModelRequest, model: str) -> dict[str, Any]:
    """Return the parameters of `responses.create`. Nothing is stored on the endpoint's side."""
    items = [item for message in request.messages for item in _items(message)]
    params: dict[str, Any] = {"model": model, "input": items, "store": False}
    if request.tools:
        params["tools"] = [{"type": "function", "strict": False, **function_of(tool)} for tool in request.tools]
        params["tool_choice"] = _tool_choice(request.tool_choice)
    if request.response_schema is not None:
        strict = follows_strictly(request.response_schema)
        schema = {
            "type": "json_schema",
            "name": SCHEMA_NAME,
            "schema": dict(request.response_schema),
            "strict": strict,
        }
        params["text"] = {"format": schema}
    if request.max_output_tokens is not None:
        params["max_output_tokens"] = request.max_output_tokens
    if request.temperature is not None:
        params["temperature"] = request.temperature
    return params


def _tool_choice(choice: str) -> Any:
    return choice if choice in PLAIN_CHOICES else {"type": "function", "name": choice}


def _items(message: ChatMessage) -> list[dict[str, Any]]:
    if message.role is Role.TOOL:
        return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": message.text}]
    items: list[dict[str, Any]] = []
    if message.parts:
        side = "output_text" if message.role is Role.ASSISTANT else "input_text"
        content = [_part(part, side) for part in message.parts]
        items.append({"type": "message", "role": message.role.value, "content": content})
    for call in message.tool_calls:
        sent = {"call_id": call.call_id, "name": call.name, "arguments": sent_arguments(call)}
        items.append({"type": "function_call", **sent})
    return items


def _part(part: TextPart | ImagePart, side: str) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": side, "text": part.text}
    return {"type": "input_image", "image_url": part.url, "detail": part.detail}


def read_responses(body: Any, provider: str) -> ProviderResponse:
    """Return the answer of a whole body. Raises ProviderError."""
    body = mapping(body, "the answer")
    refuse_error_body(body)
    if body.get("status") in ("failed", "cancelled"):
        raise provider_error("provider_server_error")
    output = body.get("output")
    if not isinstance(output, list):
        raise malformed("the answer has no output")
    texts: list[str] = []
    calls: list[ToolCall] = []
    for value in output:
        item = mapping(value, "an output item")
        if item.get("type") == "message":
            texts += [_text(part) for part in sequence(item.get("content"), "`content`")]
        elif item.get("type") == "function_call":
            calls.append(_call(item))
    if len(calls) > MAX_TOOL_CALLS:
        raise malformed(f"more than {MAX_TOOL_CALLS} tool calls in one answer")
    return _response(body, provider, plain_text("".join(texts)), unique_call_ids(tuple(calls)))


def _text(value: Any) -> str:
    part = mapping(value, "a content part")
    return string(part.get("text")) or string(part.get("refusal"))


def _call(item: Mapping[str, Any]) -> ToolCall:
    arguments = item.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        raise malformed("`arguments` is no text")
    return read_call(string(item.get("call_id")), string(item.get("name")), arguments or "")


def _response(body: Mapping[str, Any], provider: str, text: str, calls: tuple[ToolCall, ...]) -> ProviderResponse:
    finish = FINISH_TOOL_CALLS if calls else FINISH_STOP
    if body.get("status") == "incomplete":
        details = body.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, Mapping) else None
        finish = FINISH_FILTER if reason == FINISH_FILTER else FINISH_LENGTH
    if finish == FINISH_FILTER and not text and not calls:
        raise provider_error("provider_content_filtered")
    return ProviderResponse(
        text=text,
        tool_calls=calls,
        finish_reason=finish,
        model=plain_text(string(body.get("model"))),
        provider=provider,
        usage=usage_of(body.get("usage")),
        response_id=plain_text(string(body.get("id"))),
        api=API,
    )


class ResponsesStream:
    """Puts the events of one streamed answer together."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._text = GrowingText()
        self._calls = GrowingCalls()
        self._end: Mapping[str, Any] | None = None

    def add(self, body: Any) -> list[ProviderStreamChunk]:
        """Take in one event and return what it brings. Raises ProviderError."""
        event = mapping(body, "an event of the answer")
        kind = string(event.get("type"))
        if kind in ("error", "response.failed"):
            raise _failed(event)
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            text = plain_text(string(event.get("delta")))
            self._text.add(text)
            return [ProviderStreamChunk(text=text)] if text else []
        if kind == "response.output_item.added":
            item = mapping(event.get("item"), "`item`")
            if item.get("type") != "function_call":
                return []
            return self._piece(event, string(item.get("arguments")), item)
        if kind == "response.function_call_arguments.delta":
            return self._piece(event, string(event.get("delta")), {})
        if kind in ("response.completed", "response.incomplete"):
            self._end = mapping(event.get("response"), "`response`")
        return []

    def _piece(self, event: Mapping[str, Any], arguments: str, item: Mapping[str, Any]) -> list[ProviderStreamChunk]:
        index = event.get("output_index")
        if type(index) is not int:
            raise malformed("`output_index` is no number")
        piece = ProviderToolCallDelta(index, string(item.get("call_id")), string(item.get("name")), arguments)
        self._calls.add(piece)
        return [ProviderStreamChunk(tool_call=piece)]

    def finish(self) -> ProviderResponse:
        """Return the whole answer. Raises ProviderError (provider_interrupted) when its end never came."""
        if self._end is None:
            raise provider_error("provider_interrupted")
        if self._end.get("output"):
            return read_responses(self._end, self._provider)
        return _response(self._end, self._provider, str(self._text), self._calls.finish())


def _failed(event: Mapping[str, Any]) -> Exception:
    response = event.get("response")
    error = response.get("error") if isinstance(response, Mapping) else event
    code = error.get("code") if isinstance(error, Mapping) else None
    return provider_error(BY_BODY.get(str(code), "provider_server_error"))
