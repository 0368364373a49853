from __future__ import annotations

import asyncio

import pytest

from mindx.core.message import ChatMessage
from mindx.errors import ProviderError
from mindx.providers.base import ModelCapabilityRequest, ModelRequest, ProviderCapabilities
from mindx.providers.failures import provider_error
from mindx.providers.router import ProviderRouter
from mindx.providers.scripted import ScriptedProvider, ScriptedTurn
from tests.providers.conftest import collect

HELLO = ModelRequest((ChatMessage.user("hi"),))
PICTURE = ModelRequest((ChatMessage.user("what", ("https://192.0.2.1/a.png",)),))
TOOL = {"name": "add", "parameters": {"type": "object"}}


def scripted(*turns, name="p", models=("m",), **capabilities):
    return ScriptedProvider(turns, name=name, models=models, capabilities=ProviderCapabilities(**capabilities))


def generate(router, request=HELLO):
    return asyncio.run(router.generate(request))


def test_the_first_that_can_answers():
    router = ProviderRouter([scripted("blind", name="a", vision=False), scripted("seen", name="b")])
    assert generate(router, PICTURE).text == "seen"
    assert generate(router).text == "blind"


@pytest.mark.parametrize(
    ("needs", "lacks"),
    [
        (ModelCapabilityRequest(tools=True), {"tools": False}),
        (ModelCapabilityRequest(vision=True), {"vision": False}),
        (ModelCapabilityRequest(json_schema=True), {"json_schema": False}),
        (ModelCapabilityRequest(streaming=True), {"streaming": False}),
        (ModelCapabilityRequest(min_context_tokens=9000), {"max_context_tokens": 8000}),
        (ModelCapabilityRequest(), {"text": False}),
    ],
)
def test_every_capability_counts(needs, lacks):
    with pytest.raises(ProviderError) as caught:
        ProviderRouter([scripted(**lacks)]).select(needs)
    assert caught.value.code == "provider_no_match"
    assert next(iter(lacks)) in caught.value.message
    assert ProviderRouter([scripted(**lacks), scripted(name="full")]).select(needs)[0].name == "full"


def test_a_request_shows_what_it_needs():
    request = ModelRequest(PICTURE.messages, (TOOL,), model="m", response_schema={"type": "object"})
    assert request.needs == ModelCapabilityRequest(tools=True, vision=True, json_schema=True, model="m")


def test_a_model_goes_to_who_serves_it():
    router = ProviderRouter([scripted("one", models=("a",)), scripted("two", models=("b",))])
    assert generate(router, ModelRequest(HELLO.messages, model="b")).text == "two"
    with pytest.raises(ProviderError) as caught:
        generate(router, ModelRequest(HELLO.messages, model="c"))
    assert "the model c" in caught.value.message


def test_without_providers_it_is_said():
    with pytest.raises(ProviderError) as caught:
        generate(ProviderRouter([]))
    assert caught.value.code == "provider_no_match"


def test_the_next_one_is_tried_when_one_fails():
    first = scripted(provider_error("provider_quota", "first"))
    router = ProviderRouter([first, scripted("there")])
    assert generate(router).text == "there"


def test_all_failures_are_told():
    router = ProviderRouter(
        [scripted(provider_error("provider_auth", "first")), scripted(provider_error("provider_overloaded", "second"))]
    )
    with pytest.raises(ProviderError) as caught:
        generate(router)
    assert caught.value.code == "provider_auth"
    assert caught.value.details["also_failed"] == [
        "provider_overloaded: second: the endpoint is overloaded: try again later"
    ]


@pytest.mark.parametrize("fallback", [True, False])
def test_a_fault_of_the_request_is_final_and_so_is_any_without_fallback(fallback):
    code = "provider_context_too_long" if fallback else "provider_overloaded"
    second = scripted("never")
    router = ProviderRouter([scripted(provider_error(code)), second], fallback=fallback)
    with pytest.raises(ProviderError) as caught:
        generate(router)
    assert caught.value.code == code
    assert second.requests == []


def test_a_stream_falls_back_until_its_first_piece():
    broken = ScriptedTurn(chunks=("half",), error=provider_error("provider_interrupted"))
    router = ProviderRouter([scripted(provider_error("provider_overloaded"), broken), scripted("whole", "never")])
    chunks = asyncio.run(collect(router.stream(HELLO)))
    assert chunks[-1].response.text == "whole"
    with pytest.raises(ProviderError) as caught:
        asyncio.run(collect(router.stream(HELLO)))
    assert caught.value.code == "provider_interrupted"


def test_one_question_about_an_image():
    provider = scripted("a cat")
    answer = asyncio.run(ProviderRouter([provider]).ask("what is it", ["https://192.0.2.1/a.png"], system="short"))
    assert answer.text == "a cat"
    (request,) = provider.requests
    assert [message.role.value for message in request.messages] == ["system", "user"]
    assert request.has_images


def test_closing_closes_all_of_them():
    class Stuck(ScriptedProvider):
        async def close(self):
            raise RuntimeError("stuck")

    last = scripted("x")

    async def scene():
        async with ProviderRouter([Stuck(), last]):
            pass

    with pytest.raises(RuntimeError, match="stuck"):
        asyncio.run(scene())
    assert last.closed
