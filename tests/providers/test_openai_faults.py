"""An endpoint that does all it should not: each ends in the one right error, and nothing hangs or leaks."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import logging
import socket
import sys
import traceback

import pytest

from mindx.core.message import ChatMessage
from mindx.errors import InputError, ProviderError
from mindx.providers import openai_client
from mindx.providers.base import ModelRequest
from mindx.providers.openai import OpenAIProvider
from mindx.providers.retry import RETRIED
from tests.providers.conftest import KEY, collect
from tests.providers.test_openai import APIS, HELLO, WAYS, ask


def fails(provider, way="whole", request=HELLO):
    with pytest.raises(ProviderError) as caught:
        ask(provider, request, way)
    assert caught.value.exit_code == 6
    return caught.value


FAULTS = {
    "status-400": "provider_bad_request",
    "status-401": "provider_auth",
    "status-403": "provider_forbidden",
    "status-404": "provider_not_found",
    "status-413": "provider_context_too_long",
    "status-422": "provider_bad_request",
    "status-429": "provider_rate_limited",
    "status-500": "provider_server_error",
    "status-503": "provider_overloaded",
    "status-529": "provider_overloaded",
    "code-400-context_length_exceeded": "provider_context_too_long",
    "code-400-content_filter": "provider_content_filtered",
    "code-429-insufficient_quota": "provider_quota",
    "code-404-model_not_found": "provider_not_found",
    "malformed": "provider_malformed_answer",
    "malformed-html": "provider_malformed_answer",
    "malformed-shape": "provider_malformed_answer",
    "malformed-deep": "provider_malformed_answer",
    "drop": "provider_unreachable",
    "drop-body": "provider_unreachable",
    "redirect": "provider_redirected",
    "gzip": "provider_malformed_answer",
}


@pytest.mark.parametrize("mode", FAULTS)
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("way", WAYS)
def test_each_fault_is_one_error(remote, mode, api, way):
    error = fails(remote.provider(mode, api=api), way)
    assert error.code == FAULTS[mode]
    assert error.details["attempts"] == (4 if error.code in RETRIED else 1) == len(remote.requests)
    assert "127.0.0.1" in error.message or mode == "gzip"


@pytest.mark.parametrize("way", WAYS)
def test_a_fault_that_passes_is_not_seen(remote, way):
    response, _ = ask(remote.provider("status-503-2"), way=way)
    assert response.text == "hello"
    assert remote.waits.waited == [0.5, 1.0]


def test_retry_after_is_honoured(remote):
    ask(remote.provider("status-429-1"))
    assert remote.waits.waited == [7.0]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("mode", ["half", "half-cut"])
def test_half_a_stream_is_told_and_not_sent_again(remote, api, mode):
    provider = remote.provider(mode, api=api)
    seen = []

    async def scene():
        async with provider:
            async for chunk in provider.stream(HELLO):
                seen.append(chunk)

    with pytest.raises(ProviderError) as caught:
        asyncio.run(scene())
    assert caught.value.code == "provider_interrupted"
    assert caught.value.recoverable
    assert seen
    assert all(chunk.response is None for chunk in seen)
    assert len(remote.requests) == 1


@pytest.mark.parametrize("api", APIS)
def test_an_error_in_the_middle_of_a_stream_is_that_error(remote, api):
    error = fails(remote.provider("half-error", api=api), "streamed")
    assert error.code == "provider_overloaded"
    assert len(remote.requests) == 1


@pytest.mark.parametrize("way", WAYS)
def test_an_endless_answer_is_cut(remote, way, monkeypatch):
    monkeypatch.setattr(openai_client.open_client, "__defaults__", (300_000,))
    error = fails(remote.provider("endless"), way)
    assert error.code == "provider_answer_too_large"
    assert len(remote.requests) == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_base_url_is_said(remote, way):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        port = taken.getsockname()[1]
        error = fails(remote.provider(base_url=f"http://127.0.0.1:{port}/v1"), way)
    assert error.code == "provider_unreachable"
    assert "MINDX_BASE_URL" in error.message
    assert f"127.0.0.1:{port}" in error.message


@pytest.mark.parametrize("mode", ["stall", "stall-body"])
@pytest.mark.parametrize("way", WAYS)
def test_a_stall_ends_at_the_timeout_and_its_connection_closes(remote, mode, way):
    provider = remote.provider(mode, timeout_s=0.3, api="chat_completions", rules=remote.waits.rules(max_attempts=1))
    error = fails(provider, way)
    assert error.code == "provider_timeout"
    asyncio.run(remote.saw("closed"))


@pytest.mark.parametrize("way", WAYS)
def test_a_deadline_bounds_what_an_attempt_may_take(remote, way):
    rules = remote.waits.rules(max_attempts=9, deadline_s=0.1)
    error = fails(remote.provider("stall", timeout_s=60, rules=rules), way)
    assert error.code == "provider_timeout"


@pytest.mark.parametrize("mode", ["stall", "stall-body"])
@pytest.mark.parametrize("way", WAYS)
def test_cancel_ends_it_at_once_and_closes_the_connection(remote, mode, way):
    async def scene():
        async with remote.provider(mode) as provider:
            work = provider.generate(HELLO) if way == "whole" else collect(provider.stream(HELLO))
            task = asyncio.ensure_future(work)
            await remote.saw("stalled")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await remote.saw("closed")  # before the provider is closed
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scene())


def test_a_reader_that_leaves_closes_the_connection(remote):
    async def scene():
        async with remote.provider("half-wait") as provider:
            chunks = provider.stream(HELLO)
            assert (await anext(chunks)).text
            await chunks.aclose()
            await remote.saw("closed")

    asyncio.run(scene())


def test_a_closed_provider_says_so(remote):
    async def scene():
        provider = remote.provider()
        await provider.close()
        for work in (provider.generate(HELLO), collect(provider.stream(HELLO))):
            with pytest.raises(ProviderError) as caught:
                await work
            assert caught.value.code == "provider_closed"

    asyncio.run(scene())


def test_without_the_package_it_is_said_what_to_install(remote, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ProviderError) as caught:
        OpenAIProvider(remote.param())
    assert caught.value.code == "provider_not_installed"
    assert "mindx[openai]" in caught.value.message


def test_a_bad_tool_schema_is_our_users_fault(remote):
    with pytest.raises(InputError) as caught:
        ask(remote.provider(), ModelRequest((ChatMessage.user("hi"),), tools=({"description": "no name"},)))
    assert caught.value.code == "tool_schema_invalid"
    assert remote.requests == []


@pytest.mark.parametrize(
    "mode", ["ok", "echo-400", "echo-401", "echo-500", "status-429", "malformed", "drop", "redirect", "half"]
)
@pytest.mark.parametrize("way", WAYS)
def test_the_key_is_nowhere_to_be_seen(remote, mode, way, capfd):
    """Neither in a log at its noisiest, nor in an error, its traceback and what hangs on it, nor printed."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    levels = {name: logging.getLogger(name).level for name in ("", "openai", "httpx2", "httpcore2")}
    root.addHandler(handler)
    for name in levels:
        logging.getLogger(name).setLevel(logging.DEBUG)
    provider = remote.provider(mode)
    shown = [repr(provider), repr(provider.param)]
    try:
        ask(provider, way=way)
    except ProviderError as error:
        hangs_on_it = (error.__cause__, error.__context__)
        shown += [
            str(hangs_on_it == (None, None)),
            error.message,
            str(error.to_dict()),
            *traceback.format_exception(error),
        ]
    finally:
        root.removeHandler(handler)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
    assert "False" not in shown
    assert "Sending HTTP Request" in stream.getvalue()  # the log was really there
    assert KEY not in "".join([*shown, stream.getvalue(), *capfd.readouterr()])


def test_no_connection_is_left_open(remote):
    """An unclosed socket would be a ResourceWarning, and warnings are errors."""
    for mode in ("ok", "half-cut", "drop"):
        with contextlib.suppress(ProviderError):
            ask(remote.provider(mode), way="streamed")
    gc.collect()
