"""Showing text that nobody vetted: on one line, short, and without a character that a terminal would obey."""

from __future__ import annotations

LIMIT = 60


def quoted(text: str, limit: int = LIMIT) -> str:
    """Return `text` between backquotes, cut after `limit` characters, with what does not print escaped."""
    cut = text[:limit]
    shown = "".join(char if char.isprintable() and char != "`" else _escaped(char) for char in cut)
    return f"`{shown}{'...' if len(text) > limit else ''}`"


def _escaped(char: str) -> str:
    return ascii(char)[1:-1] if char != "`" else "\\x60"
