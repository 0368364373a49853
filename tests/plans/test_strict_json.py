"""The strict JSON reader: agrees with the standard library on what is valid, and knows where everything stands."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindx.core.strict_json import MAX_DEPTH, MAX_PATH, MAX_VALUES, member_path, read_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)
FORMS = st.sampled_from([{}, {"indent": 2}, {"indent": "\t", "ensure_ascii": False}, {"separators": (",", ":")}])


def messages(source: str | bytes) -> list[str]:
    return [fault.message for fault in read_json(source).faults]


@given(VALUES, FORMS)
def test_what_the_library_writes_is_read_back(value: Any, form: dict[str, Any]) -> None:
    text = json.dumps(value, **form)
    for source in (text, text.encode()):
        document = read_json(source)
        assert document.complete
        assert not document.faults
        assert json.dumps(document.value) == json.dumps(value)  # also tells 1 from 1.0 and from true


def strictest(text: str) -> Any:
    """Read as the library does, refusing what a strict reader must: NaN, repeated keys, numbers that do not fit."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    def integer(digits: str) -> int:
        assert len(digits) < 22
        assert -(2**63) <= int(digits) < 2**63
        return int(digits)

    def number(digits: str) -> float:
        assert abs(float(digits)) != float("inf")
        return float(digits)

    def constant(name: str) -> None:
        raise AssertionError(name)

    value = json.loads(text, object_pairs_hook=members, parse_int=integer, parse_float=number, parse_constant=constant)
    json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no character
    return value


WORDS = ("true", "null", "NaN", "\\u0041", "\\ud83d\\ude00", "\\ud800", '"a"', '"b"', "//", "1e5", "{}", "[]", '"a":1')
CHARACTERS = "[]{},:\"'\\ \n\t-+.eE0123456789abuntrlsf\x00\x7f\ufeff"
PIECES = st.lists(st.sampled_from([*CHARACTERS, *WORDS]), max_size=12).map("".join)


@given(PIECES | st.text(max_size=12))
def test_accepts_exactly_what_the_strictest_library_reading_accepts(text: str) -> None:
    document = read_json(text)
    accepted = document.complete and not document.faults and not document.duplicates
    try:
        expected = strictest(text)
    except (ValueError, AssertionError):
        assert not accepted
    else:
        assert accepted
        assert json.dumps(document.value) == json.dumps(expected)


@given(st.binary(max_size=40))
def test_bytes_of_any_kind_never_raise_and_a_refusal_has_a_reason(data: bytes) -> None:
    document = read_json(data)
    assert document.complete or document.faults


def walk(value: Any, path: str) -> list[tuple[str, Any, str | None]]:
    found: list[tuple[str, Any, str | None]] = [(path, value, None)]
    if isinstance(value, list):
        for index, item in enumerate(value):
            found += walk(item, f"{path}[{index}]")
    if isinstance(value, dict):
        for key, item in value.items():
            inner = walk(item, member_path(path, key))
            found += [(inner[0][0], item, key), *inner[1:]]
    return found


@given(VALUES, FORMS)
def test_every_value_has_its_position(value: Any, form: dict[str, Any]) -> None:
    text = json.dumps(value, **form)
    document = read_json(text)
    lines = text.split("\n")
    expected = walk(value, "$")
    assert set(document.positions) == {path for path, _, _ in expected}
    decoder = json.JSONDecoder()
    for path, item, key in expected:
        line, column = document.positions[path]
        start = sum(len(before) + 1 for before in lines[: line - 1]) + column - 1
        read, end = decoder.raw_decode(text, start)
        if key is None:
            assert json.dumps(read) == json.dumps(item)
        else:
            assert read == key
            colon = re.compile(r"\s*:\s*").match(text, end)
            assert colon is not None
            assert json.dumps(decoder.raw_decode(text, colon.end())[0]) == json.dumps(item)


def test_of_two_equal_keys_the_first_stays_and_the_second_is_told() -> None:
    document = read_json('{"a": {"x": 1},\n "b": 2, "a": {"x": [3]}}')
    assert document.value == {"a": {"x": 1}, "b": 2}
    assert document.positions["$.a.x"] == (1, 8)
    assert [(found.parent, found.key, found.value, found.position) for found in document.duplicates] == [
        ("$", "a", {"x": [3]}, (2, 10))
    ]


def test_a_repeated_key_over_several_lines_leaves_the_lines_after_it_right() -> None:
    document = read_json('{"a": 1,\n "a": [\n\n2],\n "b": 3, "c":\n 4}')
    assert document.duplicates[0].position == (2, 2)
    assert document.positions["$.b"] == (5, 2)
    assert document.positions["$.c"] == (5, 10)
    (fault,) = read_json('["a\\ud800\n').faults[:1]
    assert fault.line == 1
    faults = read_json('[\n"x",\n"\\ud800",\n\n1e999, "unfinished\n').faults
    assert [(fault.line, fault.column) for fault in faults] == [(3, 1), (5, 1), (5, 19)]


def test_all_that_is_wrong_in_values_is_gathered() -> None:
    document = read_json('[NaN, -Infinity, 1e999,\n 9223372036854775808, "\\ud800", "\\udc00\\ud800", 7]')
    assert [(fault.path, fault.line, fault.column) for fault in document.faults] == [
        ("$[0]", 1, 2),
        ("$[1]", 1, 7),
        ("$[2]", 1, 18),
        ("$[3]", 2, 2),
        ("$[4]", 2, 23),
        ("$[5]", 2, 33),
    ]
    assert document.complete
    assert document.value[6] == 7


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "suggestion"),
    [
        ("", 1, 1, "a value is expected, not the end of the text", "there is no text at all"),
        ("[1,\n2,\n]", 2, 2, "a comma before `]`", "remove the comma"),
        ('{"a": 1,}', 1, 8, "a comma before `}`", "remove the comma"),
        ("{'a': 1}", 1, 2, "a key in double quotes is expected, not `'`", 'use straight double quotes (")'),
        ("{a: 1}", 1, 2, "a key in double quotes is expected, not `a`", "put text in double quotes"),
        ('{"a" 1}', 1, 6, "`:` is expected after a key, not `1`", ""),
        ("[True]", 1, 2, "a value is expected, not `True`", "write `true`"),
        ("[None]", 1, 2, "a value is expected, not `None`", "write `null`"),
        (
            "[1 // one\n]",
            1,
            4,
            "`,` or `]` is expected, not `/`",
            "JSON has no comments; remove it, or use a THINK action",
        ),
        ("```json\n[]\n```", 1, 1, "a value is expected, not `\\x60`", "remove the code fence"),
        ("[] and more", 1, 4, "text after the end: `and more`", "remove it"),
        ("[01]", 1, 2, "`01` is no number of JSON", ""),
        ("[1.]", 1, 2, "`1.` is no number of JSON", ""),
        ('["a\nb"]', 1, 4, "a string holds a new line as it is", "write \\n for a new line"),
        ('["\\x41"]', 1, 3, "`\\x` is no escape of JSON", "write \\\\ for a backslash"),
        ('["abc', 1, 2, "the text ends inside a string", ""),
        ('[\n\n "ab" 1]', 3, 7, "`,` or `]` is expected, not `1`", ""),
        ("[\x1b]", 1, 2, "a value is expected, not `\\x1b`", ""),
    ],
)
def test_syntax_stops_at_the_first_fault_with_its_place(
    text: str, line: int, column: int, message: str, suggestion: str
) -> None:
    document = read_json(text)
    assert not document.complete
    assert document.value is None
    (fault,) = document.faults
    assert (fault.line, fault.column, fault.message, fault.suggestion) == (line, column, message, suggestion)


def test_a_byte_order_mark_is_a_fault_and_the_rest_is_still_read() -> None:
    document = read_json(b"\xef\xbb\xbf[1e999]")
    assert [fault.message for fault in document.faults] == [
        "the text begins with a byte order mark",
        "the number `1e999` is too large",
    ]


def test_what_is_not_utf8_is_named_by_its_byte_line_and_column() -> None:
    (fault,) = read_json('["\u00e4",\n "'.encode() + b'\xff"]').faults
    assert (fault.line, fault.column) == (2, 3)
    assert "not UTF-8 (byte 9)" in fault.message


def test_bombs_end_in_one_fault() -> None:
    assert messages("[" * 100_000) == [f"nested deeper than {MAX_DEPTH} levels"]
    assert messages('{"a":' * 100_000) == [f"nested deeper than {MAX_DEPTH} levels"]
    assert messages("[" + "0," * (MAX_VALUES + 1) + "0]") == [f"more than {MAX_VALUES:,} values"]
    assert messages('{"' + "a" * (MAX_PATH + 1) + '": 1}') == [f"a key of {MAX_PATH + 1} characters"]
    long_name = '{"' + "a" * MAX_PATH + '": '
    assert messages(long_name * 3 + "1" + "}" * 3) == ["the names on the way to this value are too long"]
    assert messages("[" + "9" * 100_000 + "]") == ["the number `999999999999999999999999...` is too large"]


def test_a_text_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindx.core.strict_json.MAX_BYTES", 10)
    assert messages("[1, 2, 3]") == []
    assert messages("[1, 2, 3, 4]") == ["the text has 12 bytes; at most 10 are read"]
