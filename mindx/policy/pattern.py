"""Patterns of command rules. Today: the name of a program, which stands for it with any arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_NAME = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9._+\[-]{0,254}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One parsed pattern."""

    text: str
    program: str

    def matches(self, argv: tuple[str, ...]) -> bool:
        """Return True when the pattern covers this argv."""
        return bool(argv) and argv[0] == self.program


@lru_cache(maxsize=4096)
def parse_pattern(text: str) -> Pattern:
    """Return the pattern. Raises ValueError that says what to write instead."""
    if _NAME.fullmatch(text) is None:
        raise ValueError(f"{text[:80]!r} is not a program name; write one such as python3, without path or spaces")
    return Pattern(text, text)
