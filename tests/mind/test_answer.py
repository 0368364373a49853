"""What a model answers is taken out of what it says around it, or refused with a reason that it can act on."""

import asyncio

import pytest

from mindx.agents.answer import ask_json, json_of, tokens_of
from mindx.errors import InputError, ProviderError
from mindx.providers.failures import provider_error
from mindx.providers.scripted import ScriptedProvider, ScriptedTurn


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        ' \n{"a": 1}\n',
        'Sure:\n```json\n{"a": 1}\n```\nHope it helps.',
        'Sure:\n```\n{"a": 1}\n```',
        'The answer is {"a": 1}.',
        '```json\nno json\n```\n```json\n{"a": 1}\n```',
    ],
)
def test_the_value_is_found_whatever_is_said_around_it(text):
    assert json_of(text) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("I cannot do that.", "no valid JSON"),
        ('{"a": 1, "a": 2}', "stands twice"),
        ('{"a": NaN}', "no valid JSON"),
        ("[" * 5000, "no valid JSON"),
        ("x" * 500_000, "characters"),
    ],
)
def test_what_is_none_is_refused(text, reason):
    with pytest.raises(InputError, match=reason):
        json_of(text)


def read(value):
    if value != {"ok": True}:
        raise InputError("answer_invalid", "ok is not true")
    return "read"


def test_a_wrong_answer_is_asked_for_again_with_the_reason():
    model = ScriptedProvider(["nonsense", ScriptedTurn('{"ok": false}', usage={"total_tokens": 3}), '{"ok": true}'])
    heard = []
    assert asyncio.run(ask_json(model, "s", "q", read, on_usage=heard.append)) == "read"
    assert "no valid JSON" in model.requests[1].messages[-1].text
    assert "ok is not true" in model.requests[2].messages[-1].text
    assert len(model.requests[2].messages) == 4  # only the last wrong answer: a long row of them would fill a context
    assert [tokens_of(usage) for usage in heard] == [0, 3, 0]


def test_a_model_that_never_learns_is_the_providers_error():
    model = ScriptedProvider(lambda request: "nonsense")
    with pytest.raises(ProviderError) as caught:
        asyncio.run(ask_json(model, "s", "q", read))
    assert caught.value.code == "provider_malformed_answer"
    assert len(model.requests) == 3


def test_an_endpoint_that_refuses_the_schema_is_asked_without_it():
    """Endpoints differ in what they take as a schema; the answer is checked here anyway."""
    refusal = provider_error("provider_bad_request", "no such schema")
    model = ScriptedProvider([refusal, "nonsense", '{"ok": true}'])
    assert asyncio.run(ask_json(model, "s", "q", read, schema={"type": "object"})) == "read"
    assert [request.response_schema is None for request in model.requests] == [False, True, True]
    with pytest.raises(ProviderError):
        asyncio.run(ask_json(ScriptedProvider([refusal]), "s", "q", read))
