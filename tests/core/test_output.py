import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mindx.core.output import decode_output, encode_output, plain_text, plain_value


@given(st.binary())
@example(b"\\xff is text, \xff is not\\")
@example("snow ☃".encode())
def test_no_byte_is_lost(data):
    text, encoding = encode_output(data)
    assert decode_output(text, encoding) == data
    json.dumps(text).encode("ascii")
    text.encode("utf-8")


def test_utf8_stays_as_it_is_and_the_rest_is_marked():
    assert encode_output("naïve \\x".encode()) == ("naïve \\x", "utf-8")
    assert encode_output(b"a\xff\\") == ("a\\xff\\\\", "escaped")


def test_names_with_surrogates_can_be_printed():
    assert plain_text(b"a\xffb".decode("utf-8", "surrogateescape")) == "a\\xffb"
    assert plain_text("\ud800") == "\\ud800"
    assert plain_text("plain ☃") == "plain ☃"


@given(st.text(st.characters(codec=None)))
def test_any_text_becomes_encodable(text):
    plain_text(text).encode("utf-8")


def test_values_become_jsons_own():
    assert plain_value({"a": (1, b"\xff", None), 2: object}) == {"a": [1, "\\xff", None], "2": str(object)}


@pytest.mark.parametrize("text", ["", "\\", "\\\\"])
def test_backslashes_survive_both_ways(text):
    assert decode_output(*encode_output(text.encode() + b"\xff")) == text.encode() + b"\xff"
