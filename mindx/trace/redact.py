"""What a trace keeps of a value: secrets out, size bounded, JSON's own types only."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from mindx.core.output import encode_output, plain_text

MAX_TEXT_CHARS = 16 * 1024
MAX_ITEMS = 1000
MAX_DEPTH = 12
REDACTED = "[redacted]"
MAX_KNOWN_NAMES, MAX_KNOWN_CHARS = 512, 64

# Names whose values are secrets wherever people name things plainly; `tokens` (a count) is none.
_SECRET_NAME = re.compile(
    r"(?i)(^|[_.-])(password|passwd|passphrase|secret|token|api_?key|access_?key|private_?key|authorization|cookie"
    r"|credentials?)($|[_.-])"
)


_CUT = re.compile(r"\[\d+ of \d+ characters left out, sha256 [0-9a-f]{64}\]")
_MORE = re.compile(r"\[\d+ more\]")


def is_whole(value: Any) -> bool:
    """Return False when a recorded value may have lost something to a Redactor: a secret, or what was too much."""
    if isinstance(value, str):
        return REDACTED not in value and _CUT.search(value) is None and value != "[too deep]"
    if isinstance(value, Mapping):
        return "[more]" not in value and all(is_whole(name) and is_whole(item) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        long = len(value) > MAX_ITEMS and isinstance(value[-1], str) and _MORE.fullmatch(value[-1]) is not None
        return not long and all(is_whole(item) for item in value)
    return True


class Redactor:
    """Makes values fit for the record; `secrets` are texts that must not appear in it anywhere.

    A secret that was encoded or cut in two by a program is not found: keep secrets out of the container.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # Very short texts would turn the record into noise, and are no secrets.
        self._secrets = sorted({secret for secret in secrets if len(secret) >= 6}, key=len, reverse=True)
        self._names: dict[Any, tuple[str, bool]] = {}

    def clean(self, value: Any, depth: int = 0) -> Any:
        """Return the value as JSON's own types, redacted and capped; what is cut is marked with size and digest."""
        kind = type(value)
        if kind is str and value.isascii() and not self._secrets and len(value) <= MAX_TEXT_CHARS:
            return value  # as most are
        if kind is dict and depth < MAX_DEPTH:
            return self._mapping(value, depth)
        if (kind is list or kind is tuple) and depth < MAX_DEPTH:
            return self._items(value, depth)
        return self._clean_other(value, depth)

    def _clean_other(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(plain_text(value))
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):
            return value if value == value and abs(value) != float("inf") else str(value)
        if isinstance(value, bytes):
            return self._text(encode_output(value)[0])
        if depth >= MAX_DEPTH:
            return "[too deep]"
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._items(list(value), depth)
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        return self._text(plain_text(str(value)))

    def _items(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        if not value:
            return []
        items = [self.clean(item, depth + 1) for item in value[:MAX_ITEMS]]
        return items if len(value) <= MAX_ITEMS else [*items, f"[{len(value) - MAX_ITEMS} more]"]

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        cleaned: dict[str, Any] = {}
        for name, item in islice(value.items(), MAX_ITEMS):
            key, is_secret = self._names.get(name) or self._name(name)
            cleaned[key] = REDACTED if is_secret and item else self.clean(item, depth + 1)
        if len(value) > MAX_ITEMS:
            cleaned["[more]"] = len(value) - MAX_ITEMS
        return cleaned

    def _name(self, name: Any) -> tuple[str, bool]:
        """Return a name fit for the record, and whether it names a secret; the common ones are looked at once."""
        key = self._text(plain_text(str(name)))
        found = key, _SECRET_NAME.search(key) is not None
        if isinstance(name, str) and len(name) <= MAX_KNOWN_CHARS and len(self._names) < MAX_KNOWN_NAMES:
            self._names[name] = found
        return found

    def _text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        if len(text) <= MAX_TEXT_CHARS:
            return text
        digest = hashlib.sha256(text.encode()).hexdigest()
        half = MAX_TEXT_CHARS // 2
        cut = f"[{len(text) - 2 * half} of {len(text)} characters left out, sha256 {digest}]"
        return f"{text[:half]}\n{cut}\n{text[-half:]}"
