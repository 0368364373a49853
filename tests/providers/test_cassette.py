from __future__ import annotations

import asyncio
import json

import pytest

from mindx.core.message import ChatMessage, ToolCall
from mindx.errors import ProviderError
from mindx.providers.base import ModelRequest
from mindx.providers.cassette import RecordingProvider, ReplayProvider
from mindx.providers.failures import provider_error
from mindx.providers.scripted import ScriptedProvider, ScriptedTurn
from tests.providers.conftest import KEY, collect


def asked(text="hi"):
    return ModelRequest(
        (ChatMessage.system("rules"), ChatMessage.user(text, ("https://192.0.2.1/a.png",))), ({"name": "add"},)
    )


def record(path, *turns, requests=None, secrets=()):
    async def scene():
        async with RecordingProvider(ScriptedProvider(turns), path, secrets=secrets) as provider:
            for request in requests or [asked()] * len(turns):
                try:
                    await provider.generate(request)
                except ProviderError:
                    continue

    asyncio.run(scene())


def replay(path, *requests):
    async def scene():
        async with ReplayProvider(path) as provider:
            return [await provider.generate(request) for request in requests]

    return asyncio.run(scene())


def test_what_was_recorded_comes_back(tmp_path):
    path = tmp_path / "c.jsonl"
    turn = ScriptedTurn(
        "so",
        (ToolCall("c1", "add", {"a": [1, None]}), ToolCall("c2", "add", {}, "{bad", "bad")),
        usage={"input_tokens": 7},
    )
    record(path, turn)
    (response,) = replay(path, asked())
    assert response.text == "so"
    assert [(c.call_id, dict(c.arguments), c.problem) for c in response.tool_calls] == [
        ("c1", {"a": [1, None]}, ""),
        ("c2", {}, "bad"),
    ]
    assert dict(response.usage) == {"input_tokens": 7}
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_same_request_gets_its_answers_in_order(tmp_path):
    path = tmp_path / "c.jsonl"
    record(path, "one", "other", "two", requests=[asked(), asked("else"), asked()])
    assert [r.text for r in replay(path, asked("else"), asked(), asked(), asked())] == ["other", "one", "two", "two"]


def test_failures_are_replayed(tmp_path):
    path = tmp_path / "c.jsonl"
    record(path, provider_error("provider_rate_limited", "there"))
    with pytest.raises(ProviderError) as caught:
        replay(path, asked())
    assert (caught.value.code, caught.value.recoverable) == ("provider_rate_limited", True)


def test_a_stream_is_recorded_when_it_was_read_to_its_end(tmp_path):
    path = tmp_path / "c.jsonl"

    async def scene():
        provider = RecordingProvider(ScriptedProvider([ScriptedTurn(chunks=("a", "b")), "never"]), path)
        await collect(provider.stream(asked()))
        left = provider.stream(asked("left"))
        await anext(left)
        await left.aclose()

    asyncio.run(scene())
    assert replay(path, asked())[0].text == "ab"
    with pytest.raises(ProviderError):
        replay(path, asked("left"))


def test_a_request_that_was_never_recorded_is_a_miss(tmp_path):
    path = tmp_path / "c.jsonl"
    record(path, "one")
    with pytest.raises(ProviderError) as caught:
        replay(path, asked("other"))
    assert caught.value.code == "cassette_miss"


def test_keys_do_not_reach_the_file(tmp_path):
    path = tmp_path / "c.jsonl"
    shapes = f"Bearer abcdefgh12345678 sk-live_0123456789abcdef {KEY}"
    record(path, f"the key is {shapes}", requests=[asked(shapes)], secrets=[KEY])
    text = path.read_text()
    assert "[redacted]" in text
    for secret in ("abcdefgh12345678", "sk-live", KEY):
        assert secret not in text
    assert replay(path, asked(shapes))[0].text.count("[redacted]") == 3


def test_a_new_recording_replaces_the_old_one(tmp_path):
    path = tmp_path / "c.jsonl"
    record(path, "old")
    record(path, "new")
    assert [r.text for r in replay(path, asked(), asked())] == ["new", "new"]


def _lines(path):
    return path.read_bytes().splitlines(keepends=True)


def _cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def _no_head(path):
    path.write_bytes(b"".join(_lines(path)[1:]))


def _other_version(path):
    path.write_bytes(_lines(path)[0].replace(b": 1", b": 2") + b"".join(_lines(path)[1:]))


def _not_json(path):
    path.write_bytes(_lines(path)[0] + b"{nonsense}\n")


def _not_utf8(path):
    path.write_bytes(_lines(path)[0] + b'{"request_sha256": "\xff"}\n')


def _wrong_shape(path):
    entry = json.loads(_lines(path)[1])
    entry["response"]["message"]["role"] = "nobody"
    path.write_bytes(_lines(path)[0] + json.dumps(entry).encode() + b"\n")


def _wrong_type(path):
    path.write_bytes(_lines(path)[0] + b"[1, 2]\n")


def _deep(path):
    path.write_bytes(_lines(path)[0] + b"[" * 200_000 + b"\n")


def _gone(path):
    path.unlink()


def _empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize(
    "harm", [_cut, _no_head, _other_version, _not_json, _not_utf8, _wrong_shape, _wrong_type, _deep, _gone, _empty]
)
def test_a_corrupt_cassette_is_said_at_once(tmp_path, harm):
    path = tmp_path / "c.jsonl"
    record(path, "one")
    harm(path)
    with pytest.raises(ProviderError) as caught:
        ReplayProvider(path)
    assert caught.value.code == "cassette_corrupt"
    assert caught.value.exit_code == 6
    assert harm is _gone or "line" in caught.value.message


def test_a_cassette_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(ProviderError) as caught:
        asyncio.run(RecordingProvider(ScriptedProvider(["x"]), tmp_path / "no" / "c.jsonl").generate(asked()))
    assert caught.value.code == "cassette_unwritable"
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProviderError):
        asyncio.run(RecordingProvider(ScriptedProvider(["x"]), tmp_path / "link").generate(asked()))
    assert not (tmp_path / "elsewhere").exists()
