"""Globs: patterns as in .gitignore, matched in a time that grows with the path and not with a power of it.

pathspec makes a regular expression of each line, in which every star may give back what it took: `*a*a*a*b` keeps a
machine busy for years with one long name. A star before another one needs to take as little as it can and never has to
give anything back, which `(?=(...))` with a back-reference says in every Python that we run on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pathspec

_STAR, _DEEP, _LEAD = "[^/]*", "(?:/.+)?", "(?:.+/)?"
_ENDS = ("(?:(?P<ps_d>/)|$)", "(?:/|$)", "(?P<ps_d>/)", "/?$", "$")
_TOKEN = re.compile(
    "|".join(re.escape(token) for token in (_STAR, "[^/]+", _DEEP, _LEAD, *_ENDS))
    + r"|\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|[^\\]",
    re.DOTALL,
)


def gitignore(lines: Iterable[str]) -> pathspec.PathSpec[Any]:
    """Return a spec of these lines. Raises ValueError for a line that is no pattern."""
    import pathspec  # only here: most sessions protect nothing, and it takes a megabyte

    spec = pathspec.PathSpec.from_lines("gitignore", lines, backend="simple")
    for pattern in spec.patterns:
        if isinstance(pattern, pathspec.RegexPattern) and pattern.regex is not None:
            pattern.regex = bounded(pattern.regex)
    return spec


def bounded(regex: re.Pattern[str]) -> re.Pattern[str]:
    """Return what matches as a regular expression of pathspec's does, but takes a line feed for a character."""
    names = _names()
    chunks: list[tuple[str, list[str]]] = [("", [])]
    for token in _TOKEN.findall(regex.pattern):
        if token in (_DEEP, _LEAD):
            chunks.append((token, []))
        else:
            chunks[-1][1].append(token)
    text = ""
    for number, (opening, tokens) in enumerate(chunks, 1):
        inner = "".join(_segments(tokens, names))
        if opening and number < len(chunks):  # another `**` follows: the first place that fits is as good as any
            few = "(?:/.+?)??" if opening == _DEEP else "(?:.+?/)??"
            text += _once(f"{few}{inner}(?=/)", names)
        else:
            text += opening + inner
    return re.compile(text, re.DOTALL)


def words(pieces: Sequence[str]) -> re.Pattern[str]:
    """Return an expression for whole words: texts with anything between them."""
    return re.compile(_with_stars([re.escape(piece) for piece in pieces], ".*", _names()), re.DOTALL)


def _segments(tokens: Iterable[str], names: Iterator[str]) -> Iterator[str]:
    pieces = [""]
    for token in (*tokens, ""):
        if token == _STAR:
            pieces.append("")
        elif token and token not in ("/", "^", *_ENDS):
            pieces[-1] += f"(?!/){token}" if token.startswith("[^") else token  # no set of git's holds a slash
        else:
            yield _with_stars(pieces, _STAR, names) + token.replace("$", r"\Z")
            pieces = [""]


def _with_stars(pieces: Sequence[str], star: str, names: Iterator[str]) -> str:
    """Return an expression for pieces, each of a fixed length, with stars between them."""
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join(_once(f"{star}?{piece}", names) for piece in middle if piece) + star + last


def _once(expression: str, names: Iterator[str]) -> str:
    """Return an expression that is matched in its first way and in no other."""
    name = next(names)
    return f"(?=(?P<{name}>{expression}))(?P={name})"


def _names() -> Iterator[str]:
    return (f"_{number}" for number in count())
