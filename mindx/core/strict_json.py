"""A strict reader of JSON (RFC 8259) that knows where each value stands and what it would otherwise lose.

The standard library's reader keeps the last of two equal keys, knows no positions and accepts NaN; the truth
about a plan needs all three. Syntax stops the reading at the first fault; all that is wrong in a value is gathered.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from mindx.core.fault import Fault
from mindx.core.frozen import dataclass
from mindx.core.quote import quoted

MAX_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 200_000
MAX_FAULTS = 200
MAX_PATH = 512  # characters of a JSON path: positions hold one for each value

Position = tuple[int, int]

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD = re.compile(r"-?[A-Za-z_][A-Za-z_0-9]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"true": True, "false": False, "null": None}
_NOT_NUMBERS = ("NaN", "Infinity", "-Infinity")
_MAX_INT_DIGITS = 19  # of a 64-bit integer
_INT_RANGE = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A key that its object (at JSON path `parent`) has already: `value` is what was given again."""

    parent: str
    key: str
    value: Any
    position: Position


@dataclass(frozen=True, slots=True)
class Document:
    """What was read. `value` is None when `complete` is False; of two equal keys it holds the first.

    `positions` maps a JSON path to line and column (from 1, in characters) of the value, or of the key of a member.
    """

    value: Any
    complete: bool
    positions: Mapping[str, Position]
    duplicates: tuple[Duplicate, ...]
    faults: tuple[Fault, ...]

    @property
    def problem(self) -> str:
        """The first thing that is wrong, with its line; "" for one whole value in which no key stands twice."""
        if self.faults:
            line = self.faults[0].line
            return self.faults[0].message if line is None else f"line {line}: {self.faults[0].message}"
        if self.duplicates:
            return f"the key {quoted(self.duplicates[0].key)} stands twice in {self.duplicates[0].parent}"
        return ""


def read_json(source: str | bytes) -> Document:
    """Read one JSON text. Never raises: what is wrong is in `faults`."""
    size = len(source)
    if size > MAX_BYTES:
        return _unreadable(f"the text has {size:,} bytes; at most {MAX_BYTES:,} are read", None)
    try:
        text = source if isinstance(source, str) else source.decode("utf-8")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8")
        at = (before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
        return _unreadable(f"the text is not UTF-8 (byte {error.start})", at, "save it as UTF-8")
    return _Scanner(text).document()


def member_path(parent: str, key: str) -> str:
    """Return the JSON path of a member: `$.a.b`, or `$.a["b c"]` when the key is no plain name."""
    return f"{parent}.{key}" if _NAME.match(key) else f"{parent}[{json.dumps(key)}]"


def _unreadable(message: str, at: Position | None, suggestion: str = "") -> Document:
    line, column = at or (None, None)
    return Document(None, False, {}, (), (Fault("$", line, message, suggestion, column=column),))


class _StopReading(Exception):
    pass


class _Scanner:
    """One pass over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.seen, self.line, self.line_start = 0, 1, 0  # where position() was asked for last
        self.positions: dict[str, Position] = {}
        self.duplicates: list[Duplicate] = []
        self.faults: list[Fault] = []

    def document(self) -> Document:
        at = 0
        if self.text.startswith("\ufeff"):
            self.fault("$", 0, "the text begins with a byte order mark", "save it as UTF-8 without one")
            at = 1
        value, complete = None, False
        try:
            value, at = self.value(self.space(at), "$", 0)
            at = self.space(at)
            if at < len(self.text):
                self.stop("$", at, f"text after the end: {quoted(self.text[at:], 20)}", "remove it")
            complete = True
        except _StopReading:
            value = None
        return Document(value, complete, self.positions, tuple(self.duplicates), tuple(self.faults))

    def position(self, at: int) -> Position:
        breaks = self.text.count("\n", self.seen, at)  # places are asked for in the order of the text
        if breaks:
            self.line += breaks
            self.line_start = self.text.rfind("\n", 0, at) + 1
        self.seen = at
        return self.line, at - self.line_start + 1

    def fault(self, path: str, at: int, message: str, suggestion: str = "") -> None:
        line, column = self.position(at)
        self.faults.append(Fault(path, line, message, suggestion, column=column))
        if len(self.faults) >= MAX_FAULTS:
            raise _StopReading

    def stop(self, path: str, at: int, message: str, suggestion: str = "") -> NoReturn:
        self.fault(path, at, message, suggestion)
        raise _StopReading

    def space(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def value(self, at: int, path: str, depth: int, key_at: int | None = None) -> tuple[Any, int]:
        if depth > MAX_DEPTH:
            self.stop(path, at, f"nested deeper than {MAX_DEPTH} levels")
        if len(self.positions) >= MAX_VALUES:
            self.stop(path, at, f"more than {MAX_VALUES:,} values")
        if len(path) > MAX_PATH:
            self.stop(path[:MAX_PATH] + "...", at, "the names on the way to this value are too long")
        self.positions[path] = self.position(at if key_at is None else key_at)
        char = self.text[at : at + 1]
        if char == '"':
            return self.string(at, path)
        if char == "{":
            return self.object(at, path, depth)
        if char == "[":
            return self.array(at, path, depth)
        return self.scalar(at, path)

    def object(self, at: int, path: str, depth: int) -> tuple[dict[str, Any], int]:
        members: dict[str, Any] = {}
        at = self.space(at + 1)
        if self.text[at : at + 1] == "}":
            return members, at + 1
        while True:
            key_at = at
            if self.text[at : at + 1] != '"':
                self.stop(path, at, f"a key in double quotes is expected, not {self.found(at)}", self.advice(at))
            key, at = self.string(at, path)
            if len(key) > MAX_PATH:
                self.stop(path, key_at, f"a key of {len(key):,} characters")
            at = self.space(at)
            if self.text[at : at + 1] != ":":
                self.stop(path, at, f"`:` is expected after a key, not {self.found(at)}")
            value, at = self.member(self.space(at + 1), key_at, path, key, members, depth)
            members.setdefault(key, value)
            at, more = self.separator(at, path, "}")
            if not more:
                return members, at

    def member(self, at: int, key_at: int, path: str, key: str, members: dict[str, Any], depth: int) -> tuple[Any, int]:
        if key not in members:
            return self.value(at, member_path(path, key), depth + 1, key_at)
        # What stands below a repeated key has a path of its own, so that the first keeps its positions.
        position = self.position(key_at)
        value, end = self.value(at, f"{path}[{json.dumps(key)}, {len(self.duplicates) + 2}]", depth + 1, key_at)
        self.duplicates.append(Duplicate(path, key, value, position))
        return value, end

    def array(self, at: int, path: str, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        at = self.space(at + 1)
        if self.text[at : at + 1] == "]":
            return items, at + 1
        while True:
            item, at = self.value(at, f"{path}[{len(items)}]", depth + 1)
            items.append(item)
            at, more = self.separator(at, path, "]")
            if not more:
                return items, at

    def separator(self, at: int, path: str, end: str) -> tuple[int, bool]:
        """Step over a comma (True) or the end (False)."""
        at = self.space(at)
        char = self.text[at : at + 1]
        if char == end:
            return at + 1, False
        if char != ",":
            self.stop(path, at, f"`,` or `{end}` is expected, not {self.found(at)}", self.advice(at))
        after = self.space(at + 1)
        if self.text[after : after + 1] == end:
            self.stop(path, at, f"a comma before `{end}`", "remove the comma")
        return after, True

    def string(self, at: int, path: str) -> tuple[str, int]:
        try:
            text, end = _DECODER.raw_decode(self.text, at)  # the library's, for its speed
        except json.JSONDecodeError:
            text, end = self.doubtful_string(at, path)
        if _SURROGATE.search(text):
            self.fault(path, at, "a string holds half of a surrogate pair, which is no character")
        return text, end

    def doubtful_string(self, at: int, path: str) -> tuple[str, int]:
        """Read a string piece by piece, to the place where it is wrong."""
        start = at
        parts: list[str] = []
        at += 1
        while True:
            match = _PLAIN.match(self.text, at)
            assert match is not None  # it may be empty, but it always matches
            parts.append(match.group())
            at = match.end()
            char = self.text[at : at + 1]
            if char == '"':
                return "".join(parts), at + 1
            if char != "\\":
                what = "the text ends inside a string" if not char else f"a string holds {self.found(at)} as it is"
                self.stop(path, at if char else start, what, "write \\n for a new line" if char == "\n" else "")
            piece, at = self.escape(at, path)
            parts.append(piece)

    def escape(self, at: int, path: str) -> tuple[str, int]:
        char = self.text[at + 1 : at + 2]
        if char in _ESCAPES:
            return _ESCAPES[char], at + 2
        code = self.code_unit(at)
        if code is None:
            shown = quoted(self.text[at : at + 2])
            self.stop(path, at, f"{shown} is no escape of JSON", "write \\\\ for a backslash")
        low = self.code_unit(at + 6) if 0xD800 <= code < 0xDC00 else None
        if low is not None and 0xDC00 <= low < 0xE000:
            return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), at + 12
        return chr(code), at + 6

    def code_unit(self, at: int) -> int | None:
        match = _HEX.match(self.text, at + 2) if self.text[at : at + 2] == "\\u" else None
        return int(match.group(), 16) if match else None

    def scalar(self, at: int, path: str) -> tuple[Any, int]:
        word = _WORD.match(self.text, at)
        if word and word.group() in _WORDS:
            return _WORDS[word.group()], word.end()
        if word and word.group() in _NOT_NUMBERS:
            self.fault(path, at, f"`{word.group()}` is no value of JSON")
            return None, word.end()
        number = _NUMBER.match(self.text, at)
        if not number:
            self.stop(path, at, f"a value is expected, not {self.found(at)}", self.advice(at))
        after = self.text[number.end() : number.end() + 1]
        if after and (after.isalnum() or after in "+-._"):
            self.stop(path, at, f"{quoted(self.text[at : number.end() + 1])} is no number of JSON")
        return self.number(number, path), number.end()

    def number(self, match: re.Match[str], path: str) -> int | float:
        digits = match.group()
        if match.group(1) is None and match.group(2) is None:
            if len(digits.lstrip("-")) <= _MAX_INT_DIGITS and int(digits) in _INT_RANGE:
                return int(digits)
        elif math.isfinite(float(digits)):
            return float(digits)
        self.fault(path, match.start(), f"the number {quoted(digits, 24)} is too large")
        return 0

    def found(self, at: int) -> str:
        if at >= len(self.text):
            return "the end of the text"
        word = _WORD.match(self.text, at)
        if word:
            return quoted(word.group(), 20)
        return {"\n": "a new line", "\t": "a tab"}.get(self.text[at]) or quoted(self.text[at])

    def advice(self, at: int) -> str:
        """Say what to write instead of the usual slips: those of Python, of JavaScript and of a chat window."""
        rest = self.text[at : at + 9]
        if not rest:
            return "the text may have been cut off" if self.text.strip() else "there is no text at all"
        if rest.startswith("```"):
            return "remove the code fence"
        if rest.startswith(("//", "/*", "#")):
            return "JSON has no comments; remove it, or use a THINK action"
        if rest.startswith(("'", "\u201c", "\u201d")):
            return 'use straight double quotes (")'
        word = _WORD.match(self.text, at)
        if word:
            near = difflib.get_close_matches(word.group().lower(), {**_WORDS, "none": None}, 1, 0.8)
            if near:
                return f"write `{near[0].replace('none', 'null')}`"
            return "put text in double quotes"
        return ""
