"""A number and what it counts, as people write it: `1 step`, `2 steps`, `1,024 bytes`, `3 tries`."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return the count with its noun, which is given in the singular and takes a regular plural."""
    return f"{count:,} {noun if count == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
