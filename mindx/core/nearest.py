"""The name that was meant: for a word that is no known name, the nearest one that is."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

LONGEST_NAME = 64  # what is longer is no slip of a known name
_MOST_IDS, _ID_CUTOFF = 1000, 0.85


def nearest_id(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return a suggestion that names the known id which differs in a slip or two, else `otherwise`.

    Ids of one kind look alike, so that only what is very near was meant; the first 1,000 are looked at.
    """
    return did_you_mean(word, islice(known, _MOST_IDS), _ID_CUTOFF) or otherwise


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return a suggestion that names the nearest known word, or "" when none is as near as `cutoff` (0 to 1)."""
    if len(word) > LONGEST_NAME:
        return ""
    import difflib  # only for a slip: a command that succeeds does not load it

    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, 1, cutoff)
    return f"did you mean `{by_lower[near[0]]}`?" if near else ""
