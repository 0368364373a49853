"""Output as text: bytes from inside become JSON strings without loss, and can be turned back."""

from __future__ import annotations

import re
from typing import Any, Literal

OutputEncoding = Literal["utf-8", "escaped"]

_ESCAPE = re.compile(r"\\(?:\\|x([0-9a-f]{2}))")


def encode_output(data: bytes) -> tuple[str, OutputEncoding]:
    """Return the bytes as text and how: `utf-8` as they are, or `escaped`.

    `escaped`: each byte that is no UTF-8 is written as `\\xNN` and each backslash is doubled, so nothing is lost.
    """
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace"), "escaped"


def decode_output(text: str, encoding: OutputEncoding) -> bytes:
    """Return the bytes that `encode_output` was given."""
    if encoding == "utf-8":
        return text.encode("utf-8")
    parts: list[bytes] = []
    position = 0
    for match in _ESCAPE.finditer(text):
        parts.append(text[position : match.start()].encode("utf-8"))
        digits = match.group(1)
        parts.append(b"\\" if digits is None else bytes([int(digits, 16)]))
        position = match.end()
    parts.append(text[position:].encode("utf-8"))
    return b"".join(parts)


def plain_text(text: str) -> str:
    """Return text that any encoder takes.

    A name's surrogate escapes (PEP 383) become `\\xNN`, other lone surrogates `\\uNNNN`.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "".join(_plain_character(character) for character in text)
    return text


def _plain_character(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if 0xD800 <= code <= 0xDFFF:
        return f"\\u{code:04x}"
    return character


def plain_value(value: Any) -> Any:
    """Return the value made of JSON's own types; bytes become escaped text, anything else its `str`."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, bytes):
        return encode_output(value)[0]
    if isinstance(value, dict):
        return {plain_text(str(key)): plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    return plain_text(str(value))
