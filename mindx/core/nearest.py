"""The name that was meant: for a word that is no known name, the nearest one that is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST_NAME = 64  # what is longer is no slip of a known name


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a suggestion that names the nearest known word, or ""."""
    if len(word) > LONGEST_NAME:
        return ""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, 1, 0.6)
    return f"did you mean `{by_lower[near[0]]}`?" if near else ""
