"""Tool calls as models really write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindx.providers.arguments import MAX_ARGUMENT_BYTES, read_arguments, read_call


@pytest.mark.parametrize(
    ("text", "arguments"), [("", {}), ("  ", {}), ("{}", {}), ('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]})]
)
def test_good_arguments(text, arguments):
    assert read_arguments(text) == (arguments, "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": ', "not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a": NaN}', "not valid JSON"),
        ('{"a": 1} trailing', "not valid JSON"),
        ("[1]", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ("null", "not a JSON object"),
        ('{"a": 1, "a": 2}', "twice"),
        ("[" * 100_000, "not valid JSON"),
        ('{"a": ' + "[" * 80 + "]" * 80 + "}", "deeper than 64"),
        ("{" + "".join(f'"{index}": 1, ' for index in range(80_000)) + '"x": 1, "x": 2}', "`x` is named twice"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "too long"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"a": {"b": 1, "b": 1}}', "twice"),
        ('{"a": "' + "x" * 10_000_000 + '"}', "10,000,009 bytes"),
        ('{"a": "' + "\u00e9" * 600_000 + '"}', "1,200,009 bytes"),
    ],
    ids=lambda value: value[:20],
)
def test_bad_arguments_are_told_not_raised(text, told):
    call = read_call("c1", "look", text)
    assert told in call.problem
    assert call.arguments == {}
    assert len(call.arguments_text) <= 500


def test_the_largest_arguments_are_taken():
    text = '{"a": "' + "x" * (MAX_ARGUMENT_BYTES - 9) + '"}'
    assert len(text) == MAX_ARGUMENT_BYTES
    assert read_call("c", "look", text).problem == ""
    assert read_call("c", "look", text + " ").problem != ""


@pytest.mark.parametrize("name", ["", "n" * 10_000])
def test_a_call_needs_a_name(name):
    call = read_call("c1", name, "{}")
    assert call.problem
    assert len(call.name) <= 256


@given(st.text(max_size=300))
def test_no_text_makes_it_raise(text):
    call = read_call("c", "look", text)
    assert isinstance(call.arguments, dict)
    assert not (call.problem and call.arguments)


def test_lone_surrogates_are_made_plain():
    call = read_call("c\ud800", "look", '{"a": "\ud800"}')
    call.call_id.encode()
    call.text.encode()
