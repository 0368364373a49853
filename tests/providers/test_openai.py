"""OpenAIProvider over real HTTP: both interfaces, whole and streamed."""

from __future__ import annotations

import asyncio

import pytest

from mindx.core.message import ChatMessage, ToolCall
from mindx.providers.base import ModelRequest, ProviderResponse
from tests.providers.conftest import collect

TOOL = {
    "name": "add",
    "description": "Add.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
}
NESTED = {"type": "function", "function": TOOL}
PIXEL = "data:image/png;base64,iVBORw0KGgo="
HELLO = ModelRequest((ChatMessage.user("hi"),))
APIS = ["chat_completions", "responses"]
WAYS = ["whole", "streamed"]


def ask(provider, request=HELLO, way="whole"):
    """Return the answer, and the chunks before it when streamed."""

    async def scene():
        async with provider:
            if way == "whole":
                return await provider.generate(request), []
            chunks = await collect(provider.stream(request))
            return chunks[-1].response, chunks[:-1]

    return asyncio.run(scene())


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("way", WAYS)
def test_a_text(remote, api, way):
    remote.script({"text": "seventeen and twenty-five"})
    response, chunks = ask(remote.provider("script", api=api), way=way)
    assert isinstance(response, ProviderResponse)
    assert (response.text, response.tool_calls, response.finish_reason) == ("seventeen and twenty-five", (), "stop")
    assert dict(response.usage) == {"input_tokens": 11, "output_tokens": 3, "total_tokens": 14, "cached_tokens": 8}
    assert (response.model, response.provider, response.api) == ("served", "openai-compatible", api)
    if way == "streamed":
        assert len(chunks) > 2
        assert "".join(chunk.text for chunk in chunks) == response.text


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("way", WAYS)
def test_two_tool_calls_beside_a_text(remote, api, way):
    calls = [{"name": "add", "arguments": {"a": 17}, "id": "x"}, {"name": "add", "arguments": {"a": 25}, "id": "y"}]
    remote.script({"text": "Let me see.", "calls": calls})
    response, chunks = ask(remote.provider("script", api=api), way=way)
    assert response.text == "Let me see."
    assert [(c.call_id, c.name, c.arguments, c.problem) for c in response.tool_calls] == [
        ("x", "add", {"a": 17}, ""),
        ("y", "add", {"a": 25}, ""),
    ]
    assert response.finish_reason == "tool_calls"
    if way == "streamed":
        pieces = [chunk.tool_call for chunk in chunks if chunk.tool_call is not None]
        assert [piece.name for piece in pieces if piece.name] == ["add", "add"]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("way", WAYS)
def test_bad_arguments_come_back_as_a_problem_of_their_call_alone(remote, api, way):
    calls = [{"name": "add", "arguments": '{"a": 17'}, {"name": "add", "arguments": '{"a": 25}'}]
    remote.script({"calls": calls})
    response, _ = ask(remote.provider("script", api=api), way=way)
    bad, good = response.tool_calls
    assert (bad.arguments, "not valid JSON" in bad.problem) == ({}, True)
    assert (good.arguments, good.problem) == ({"a": 25}, "")


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("way", WAYS)
def test_ten_megabytes_of_arguments_are_a_problem_too(remote, api, way):
    remote.script({"calls": [{"name": "add", "arguments": '{"a": "' + "x" * 10_000_000 + '"}'}]})
    response, _ = ask(remote.provider("script", api=api), way=way)
    (call,) = response.tool_calls
    assert "at most 1,048,576 are taken" in call.problem
    assert len(call.arguments_text) <= 500


@pytest.mark.parametrize("way", WAYS)
def test_calls_without_ids_get_their_own(remote, way):
    calls = [{"name": "add", "arguments": "{}", "id": ""}, {"name": "add", "arguments": "{}", "id": ""}]
    remote.script({"calls": calls})
    response, _ = ask(remote.provider("script", api="chat_completions"), way=way)
    assert len({call.call_id for call in response.tool_calls} - {""}) == 2


@pytest.mark.parametrize("way", WAYS)
def test_what_chat_completions_is_sent(remote, way):
    messages = (
        ChatMessage.system("rules"),
        ChatMessage.user("look", (PIXEL,)),
        ChatMessage.assistant("", (ToolCall("c1", "add", {"a": 1}), ToolCall("c2", "add", {}, '{"a', "bad"))),
        ChatMessage.tool("c1", "2", "add"),
        ChatMessage.tool("c2", "refused", "add"),
    )
    schema = {"type": "object"}
    request = ModelRequest(
        messages,
        (TOOL, NESTED),
        "other",
        "required",
        schema,
        max_output_tokens=9,
        temperature=0.5,
        api="chat_completions",
    )
    ask(remote.provider(), request, way)
    (sent,) = remote.requests
    body = sent["body"]
    assert sent["path"] == "v1/chat/completions"
    assert sent["headers"]["authorization"] == "Bearer test-key-6f1d2c93ab"
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool", "tool"]
    assert body["messages"][1]["content"][1] == {"type": "image_url", "image_url": {"url": PIXEL}}
    called = [call["function"]["arguments"] for call in body["messages"][2]["tool_calls"]]
    assert called == ['{"a": 1}', "{}"]  # what is no JSON is never sent back
    assert body["messages"][3] == {"role": "tool", "tool_call_id": "c1", "content": "2"}
    assert body["tools"] == [NESTED, NESTED]
    assert body["response_format"]["json_schema"]["schema"] == schema
    assert (body["model"], body["tool_choice"], body["max_tokens"], body["temperature"]) == (
        "other",
        "required",
        9,
        0.5,
    )
    assert body.get("stream_options") == ({"include_usage": True} if way == "streamed" else None)


@pytest.mark.parametrize("way", WAYS)
def test_what_responses_is_sent(remote, way):
    messages = (
        ChatMessage.system("rules"),
        ChatMessage.user("look", (PIXEL,)),
        ChatMessage.assistant("so", (ToolCall("c1", "add", {"a": 1}),)),
        ChatMessage.tool("c1", "2", "add"),
    )
    ask(
        remote.provider(),
        ModelRequest(messages, (NESTED,), tool_choice="add", max_output_tokens=9, api="responses"),
        way,
    )
    (sent,) = remote.requests
    body = sent["body"]
    assert sent["path"] == "v1/responses"
    assert body["store"] is False
    kinds = [item["type"] for item in body["input"]]
    assert kinds == ["message", "message", "message", "function_call", "function_call_output"]
    assert body["input"][1]["content"][1] == {"type": "input_image", "image_url": PIXEL, "detail": "auto"}
    assert body["input"][2]["content"] == [{"type": "output_text", "text": "so"}]
    assert body["input"][4] == {"type": "function_call_output", "call_id": "c1", "output": "2"}
    assert body["tools"] == [{"type": "function", "strict": False, **TOOL}]
    assert body["tool_choice"] == {"type": "function", "name": "add"}
    assert body["max_output_tokens"] == 9


@pytest.mark.parametrize("way", WAYS)
def test_auto_falls_back_when_there_is_no_such_endpoint_and_remembers_it(remote, way):
    provider = remote.provider("nochat")

    async def scene():
        async with provider:
            for _ in range(2):
                if way == "whole":
                    response = await provider.generate(HELLO)
                else:
                    response = (await collect(provider.stream(HELLO)))[-1].response
                assert (response.text, response.api) == ("hello", "responses")

    asyncio.run(scene())
    assert [item["path"] for item in remote.requests] == ["v1/chat/completions", "v1/responses", "v1/responses"]


def test_auto_falls_back_for_images_only(remote):
    provider = remote.provider("noimages")
    with_image = ModelRequest((ChatMessage.user("what", (PIXEL,)),))

    async def scene():
        async with provider:
            return [(await provider.generate(request)).api for request in (with_image, HELLO, with_image)]

    assert asyncio.run(scene()) == ["responses", "chat_completions", "responses"]
    assert len(remote.requests) == 4


@pytest.mark.parametrize("way", WAYS)
def test_an_endpoint_that_knows_less_is_asked_otherwise(remote, way):
    request = ModelRequest((ChatMessage.user("hi"),), max_output_tokens=5, api="chat_completions")
    response, _ = ask(remote.provider("strict"), request, way)
    assert response.text == "hello"
    assert remote.requests[-1]["body"]["max_completion_tokens"] == 5
    assert remote.waits.waited == []


def test_settings_of_the_environment_for_another_endpoint_stay_home(remote, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, f"other-{name}")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    ask(remote.provider())
    assert "other-" not in str(remote.requests)


def test_closing_twice_does_no_harm(remote):
    async def scene():
        provider = remote.provider()
        await provider.close()
        await provider.close()

    asyncio.run(scene())
