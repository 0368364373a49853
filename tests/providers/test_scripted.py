from __future__ import annotations

import asyncio
import json

import pytest

from mindx.core.message import ChatMessage, ToolCall
from mindx.errors import InputError, ProviderError
from mindx.providers.base import ModelRequest
from mindx.providers.failures import provider_error
from mindx.providers.scripted import ScriptedProvider, ScriptedTurn
from tests.providers.conftest import collect

HELLO = ModelRequest((ChatMessage.user("hi"),))


def answers(provider, count):
    async def scene():
        return [await provider.generate(HELLO) for _ in range(count)]

    return asyncio.run(scene())


def test_turns_come_in_order():
    calls = [ToolCall("", "add", {"a": 1}), ToolCall("own", "add", {"a": 2})]
    provider = ScriptedProvider([ScriptedTurn.call("add", a=1, b=2), calls, ToolCall("", "look"), "done"])
    one, two, three, four = answers(provider, 4)
    assert [(c.name, dict(c.arguments)) for c in one.tool_calls] == [("add", {"a": 1, "b": 2})]
    assert one.finish_reason == "tool_calls"
    ids = [call.call_id for response in (one, two, three) for call in response.tool_calls]
    assert len(set(ids)) == 4
    assert "own" in ids
    assert (four.text, four.finish_reason) == ("done", "stop")
    assert len(provider.requests) == 4


def test_a_function_answers_each_request():
    provider = ScriptedProvider(lambda request: request.messages[-1].text.upper())
    assert [response.text for response in answers(provider, 2)] == ["HI", "HI"]


@pytest.mark.parametrize("script", [[], ["once"]])
def test_after_the_last_turn_it_says_so(script):
    provider = ScriptedProvider(script)
    with pytest.raises(ProviderError) as caught:
        answers(provider, len(script) + 1)
    assert caught.value.code == "script_exhausted"


def test_a_failure_can_be_scripted():
    provider = ScriptedProvider([provider_error("provider_overloaded"), "then"])
    with pytest.raises(ProviderError) as caught:
        answers(provider, 1)
    assert caught.value.code == "provider_overloaded"
    assert answers(provider, 1)[0].text == "then"


def test_a_stream_breaks_off_where_the_script_says():
    provider = ScriptedProvider([ScriptedTurn(chunks=("a", "b"), error=provider_error("provider_interrupted"))])
    seen = []

    async def scene():
        async for chunk in provider.stream(HELLO):
            seen.append(chunk.text)

    with pytest.raises(ProviderError):
        asyncio.run(scene())
    assert seen == ["a", "b"]


def test_chunks_add_up_to_the_text():
    chunks = asyncio.run(collect(ScriptedProvider([ScriptedTurn(chunks=("a", "b"))]).stream(HELLO)))
    assert [chunk.text for chunk in chunks[:-1]] == ["a", "b"]
    assert chunks[-1].response.text == "ab"


def test_a_slow_answer_waits_for_its_event():
    async def scene():
        gate, asked = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(ScriptedProvider([ScriptedTurn("late", gate=gate, asked=asked)]).generate(HELLO))
        await asked.wait()
        assert not task.done()
        gate.set()
        return (await task).text

    assert asyncio.run(scene()) == "late"


def test_what_is_no_turn_is_refused():
    with pytest.raises(ProviderError) as caught:
        answers(ScriptedProvider([42]), 1)
    assert caught.value.code == "script_invalid"


def test_a_closed_one_answers_no_more():
    provider = ScriptedProvider(["x"])
    asyncio.run(provider.close())
    with pytest.raises(ProviderError) as caught:
        answers(provider, 1)
    assert caught.value.code == "provider_closed"


def test_a_script_comes_from_a_file(tmp_path):
    file = tmp_path / "turns.jsonl"
    calls = [{"name": "add", "arguments": {"a": 1}}, {"name": "add", "arguments": "{bad"}]
    turns = ["first", {"text": "so", "calls": calls}, {"error": "provider_quota"}]
    turns.append({"chunks": ["a", "b"], "usage": {"input_tokens": 3}})
    file.write_text("\n\n".join(json.dumps(turn) for turn in turns))
    provider = ScriptedProvider.from_file(file, name="mine")
    one, two = answers(provider, 2)
    assert (one.text, one.provider) == ("first", "mine")
    good, bad = two.tool_calls
    assert (good.problem, dict(good.arguments)) == ("", {"a": 1})
    assert "not valid JSON" in bad.problem
    with pytest.raises(ProviderError) as caught:
        answers(provider, 1)
    assert caught.value.code == "provider_quota"
    last = answers(provider, 1)[0]
    assert (last.text, dict(last.usage)) == ("ab", {"input_tokens": 3})


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "3",
        "[]",
        '{"json": 1, "text": "x"}',
        '{"txt": "x"}',
        '{"error": "no_such"}',
        '{"calls": [{}]}',
        '{"text": 1}',
        '{"calls": 3}',
        "\udcff",
    ],
)
def test_a_bad_script_names_its_line(tmp_path, line):
    file = tmp_path / "turns.jsonl"
    file.write_bytes(b'"ok"\n' + line.encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(InputError) as caught:
        ScriptedProvider.from_file(file)
    assert caught.value.code == "script_invalid"
    assert "line 2 is no " in caught.value.message
    assert "docs/providers.md" in caught.value.message


def test_a_script_that_is_not_there_is_said(tmp_path):
    with pytest.raises(InputError) as caught:
        ScriptedProvider.from_file(tmp_path / "none.jsonl")
    assert caught.value.code == "script_invalid"


def test_a_plan_need_not_be_written_as_a_text(tmp_path):
    """What a mind asks its model for is JSON; `json` spares the script's writer the quotes within quotes."""
    file = tmp_path / "turns.jsonl"
    file.write_text('{"json": {"plan": [{"type": "NO_OP"}]}}\n')
    provider = ScriptedProvider.from_file(file)
    assert answers(provider, 1)[0].text == '{"plan": [{"type": "NO_OP"}]}'
