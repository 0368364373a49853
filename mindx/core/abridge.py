"""What a record keeps of long output: a beginning and an end, with a line that says how much is missing."""

from __future__ import annotations

import json
from typing import Any

from mindx.core.output import plain_text

MAX_STREAM_BYTES = 64 * 1024  # of one stream of one step
MAX_RESULT_CHARS = 256 * 1024  # of one tool's result, as JSON
MAX_DOCUMENT_CHARS = 32 * 1024 * 1024  # of all outputs and results of one run, as JSON


def mark(left_out: int, unit: str = "bytes") -> str:
    """Return the line that stands for what is left out."""
    return f"\n[mindx: {left_out} {unit} left out]\n"


def abridge(data: bytes, max_bytes: int = MAX_STREAM_BYTES) -> tuple[bytes, bool]:
    """Return at most `max_bytes` of the data, three quarters from its beginning, and whether something is missing.

    No UTF-8 character is cut in two. The line that tells of the gap comes on top.
    """
    if len(data) <= max_bytes:
        return data, False
    head, tail = max_bytes * 3 // 4, len(data) - (max_bytes - max_bytes * 3 // 4)
    for _ in range(3):
        head -= head > 0 and _continues(data, head)
        tail += _continues(data, tail)
    return b"".join((data[:head], mark(tail - head).encode(), data[tail:])), True


def abridge_value(value: Any, max_chars: int = MAX_RESULT_CHARS) -> tuple[Any, bool]:
    """Return a JSON value of about `max_chars` at most, and whether something is missing.

    Texts longer than a stream may be lose their middle; what does not fit then is left out from the end on.
    """
    if _fits(value, max_chars):
        return value, False
    return _Cutter(max_chars).cut(value), True


def json_chars(value: Any) -> int:
    """Return how long a value is as JSON in ASCII."""
    return len(json.dumps(value, ensure_ascii=True))


def _fits(value: Any, max_chars: int) -> bool:
    return all(len(text) <= MAX_STREAM_BYTES for text in _texts(value)) and json_chars(value) <= max_chars


def _texts(value: Any) -> list[str]:
    found: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return found


def _continues(data: bytes, position: int) -> bool:
    return position < len(data) and data[position] & 0xC0 == 0x80


class _Cutter:
    """Cuts one value; `left` is what may still be kept."""

    def __init__(self, max_chars: int) -> None:
        self.left = max_chars

    def cut(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {key: self.cut(item) for key, item in value.items()}
        if isinstance(value, list):
            return self._list(value)
        return value

    def _text(self, text: str) -> str:
        limit = max(min(MAX_STREAM_BYTES, self.left), 0)
        if len(text) > limit:
            head, tail = limit * 3 // 4, limit - limit * 3 // 4
            gap = mark(len(text) - limit, "characters")
            text = f"{text[:head]}{gap}{text[len(text) - tail :]}"
        self.left -= json_chars(plain_text(text))
        return text

    def _list(self, items: list[Any]) -> list[Any]:
        kept: list[Any] = []
        for number, item in enumerate(items):
            if self.left <= 0:
                return [*kept, f"[mindx: {len(items) - number} more left out]"]
            kept.append(self.cut(item))
            self.left -= 4  # what stands around it
        return kept
