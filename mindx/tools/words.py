"""Splitting a command line into words as a POSIX shell does, without a shell: what only a shell can do is refused."""

from __future__ import annotations

import re

_SEPARATE = "give each program a step of its own, or the line as `shell` if the policy allows bash"
_QUOTE = "put it in single quotes if the character itself is meant"
_REFUSED = {
    "|": ("`|` feeds one program into another", _SEPARATE),
    "&": ("`&` runs programs in a row or in the background", _SEPARATE),
    ";": ("`;` runs programs in a row", _SEPARATE),
    "\n": ("a new line runs programs in a row", _SEPARATE),
    "<": ("`<` reads standard input from a file", "give the text in `stdin`"),
    ">": ("`>` writes the output to a file", "the output is in the result; save it with a `write` step"),
    "(": ("`(` starts a sub-shell", _SEPARATE),
    ")": ("`)` ends a sub-shell", _SEPARATE),
    "`": ("a backquote puts the output of a program in its place", _SEPARATE),
    "$": ("`$` puts a value in its place", f"write the value itself; {_QUOTE}"),
    "*": ("`*` stands for file names", f"name the files; {_QUOTE}"),
    "?": ("`?` stands for file names", f"name the files; {_QUOTE}"),
    "[": ("`[` stands for file names", f"name the files; {_QUOTE}"),
}
_REFUSED_FIRST = {
    "~": ("`~` stands for the home folder", f"name the folder; {_QUOTE}"),
    "#": ("`#` begins a comment", f"remove it; {_QUOTE}"),
}
_ORDINARY = re.compile(r"[^ \t\n'\"\\|&;<>()`$*?\[~#]+")
_ORDINARY_IN_QUOTES = re.compile(r'[^"\\$`]+')
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_DOLLAR_MEANS = re.compile(r"[A-Za-z_0-9{(@*#?$!'\"-]")


class WordsError(ValueError):
    """A command line cannot be split; `suggestion` says what to write instead, or is ""."""

    def __init__(self, message: str, suggestion: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion


def split_words(line: str) -> tuple[str, ...]:
    """Return the words of `line`. Raises WordsError at an operator, an expansion, or an open quote."""
    if _ASSIGNMENT.match(line.lstrip()):
        name = line.lstrip().partition("=")[0]
        raise WordsError(f"`{name}=` sets a variable for one program", "use `env_set` in a step before")
    words: list[str] = []
    pieces: list[str] = []
    inside = False  # an empty word in quotes is a word
    at = len(line) - len(line.lstrip(" \t\n"))
    while at < len(line):
        if line.startswith("\\\n", at):  # a line that goes on
            at += 2
            continue
        blank = line[at] in " \t" or (line[at] == "\n" and not line[at:].strip(" \t\n"))
        if not blank:
            piece, at = _piece(line, at, first=not inside)
            pieces.append(piece)
            inside = True
            continue
        if inside:
            words.append("".join(pieces))
            pieces, inside = [], False
        at += 1
    if inside:
        words.append("".join(pieces))
    if not words:
        raise WordsError("the command line is empty", "name a program")
    return tuple(words)


def _piece(text: str, at: int, first: bool) -> tuple[str, int]:
    ordinary = _ORDINARY.match(text, at)
    if ordinary:
        return ordinary.group(), ordinary.end()
    char = text[at]
    if char == "'":
        end = text.find("'", at + 1)
        if end < 0:
            raise WordsError("a single quote is not closed", "close it, or put an apostrophe in double quotes")
        return text[at + 1 : end], end + 1
    if char == '"':
        return _double_quoted(text, at + 1)
    if char == "\\":
        if at + 1 == len(text):
            raise WordsError("a backslash at the end")
        return text[at + 1], at + 2
    if char in _REFUSED and (char != "$" or _DOLLAR_MEANS.match(text, at + 1)):
        raise _needs_shell(_REFUSED[char])
    if first and char in _REFUSED_FIRST:
        raise _needs_shell(_REFUSED_FIRST[char])
    return char, at + 1


def _double_quoted(text: str, at: int) -> tuple[str, int]:
    """Read up to the closing quote; a backslash is special only before the characters that POSIX lists."""
    parts: list[str] = []
    while at < len(text):
        ordinary = _ORDINARY_IN_QUOTES.match(text, at)
        if ordinary:
            parts.append(ordinary.group())
            at = ordinary.end()
            continue
        char = text[at]
        if char == '"':
            return "".join(parts), at + 1
        if char == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            parts.append(text[at + 1].replace("\n", ""))
            at += 2
            continue
        if char == "`" or (char == "$" and _DOLLAR_MEANS.match(text, at + 1) and text[at + 1 : at + 2] not in "'\""):
            raise _needs_shell(_REFUSED[char])
        parts.append(char)
        at += 1
    raise WordsError("a double quote is not closed", "close it")


def _needs_shell(refused: tuple[str, str]) -> WordsError:
    what, advice = refused
    return WordsError(f"{what}, which needs a shell; a command line is only split into words", advice)
