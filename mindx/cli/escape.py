"""Text from inside, made harmless for terminals and CI logs.

A program can print sequences that move the cursor, fill the clipboard or reorder what is read, and lines
that a CI service takes for its own commands. Nothing of that is passed on: it is shown, not obeyed.
"""

from __future__ import annotations

import codecs
import os
import re
import unicodedata
from collections.abc import Mapping

# What starts a command in a line of a CI log: GitHub (`::name::`, and the older `##[name]`), Azure (`##vso[`),
# TeamCity (`##teamcity[`). Services trim blanks before it, so we look behind them.
_CI_COMMAND = re.compile(r"(?m)^([^\S\n]*)(::|##(?=\[|vso\[|teamcity\[))")
_CI_MARKS = ("::", "##vso[", "##teamcity[", "##[")
_CI_VARIABLES = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION", "GITLAB_CI", "BUILDKITE", "JENKINS_URL")
SHORT = 60  # characters of what a list shows of a text
# Cc controls, Cf formats (bidi, zero width, tags), Cs surrogates, Co private use, Zl and Zp line separators.
_HARMFUL_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
# What is drawn as nothing, and so hides text in text and makes two names look alike: fillers and selectors of variants,
# but for the two that emoji carry.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0d\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)


def in_ci(environ: Mapping[str, str] | None = None) -> bool:
    """Return True when a CI service reads what we print."""
    environ = os.environ if environ is None else environ
    return any(environ.get(name, "") not in ("", "0", "false") for name in _CI_VARIABLES)


def escape(text: str, *, ci: bool | None = None) -> str:
    """Return the text with every control, format, bidi and unseen character but newline and tab written out (`\\x1b`).

    `ci` None looks at the process environment; when True, a line that a CI service would obey gets a leading `|`.
    """
    shown = text if text.isascii() and text.isprintable() else "".join(map(_escape_character, text))
    if in_ci() if ci is None else ci:
        shown = _CI_COMMAND.sub(r"\1|\2", shown)
    return shown


def escape_line(text: str, *, ci: bool | None = None) -> str:
    """Return the text on one line: newlines and tabs are written out too."""
    return escape(text, ci=ci).replace("\n", "\\n").replace("\t", "\\t")


def shortened(line: str, most: int = SHORT) -> str:
    """Return a line cut to `most` characters, the last three of them dots."""
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _escape_character(character: str) -> str:
    if character in "\n\t":
        return character
    printable = character.isprintable() or unicodedata.category(character) not in _HARMFUL_CATEGORIES
    if printable and _UNSEEN.match(character) is None:
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, as PEP 383 carries it
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


class StreamEscaper:
    """Escapes a stream of bytes piece by piece; a character or a CI command cut in two is found all the same."""

    def __init__(self, *, ci: bool | None = None) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._ci = in_ci() if ci is None else ci
        self._held = ""  # the last letters of what came, when more of them may make a CI command
        self._inside = False  # the line that goes on has letters already: no command can start in it

    def feed(self, data: bytes) -> str:
        """Return what can be shown by now."""
        text = self._held + self._decoder.decode(data)
        self._held = ""
        if self._ci:
            start = text.rfind("\n") + 1
            word = text[start:].lstrip()
            if word and not (start == 0 and self._inside) and any(m.startswith(word) for m in _CI_MARKS):
                self._held = word
                text = text[: len(text) - len(word)]
        return self._show(text)

    def close(self) -> str:
        """Return the rest."""
        text = self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        return self._show(text)

    def _show(self, text: str) -> str:
        first, newline, rest = text.partition("\n")
        shown = escape(first, ci=self._ci and not self._inside) + newline + escape(rest, ci=self._ci)
        line = text[text.rfind("\n") + 1 :]
        self._inside = bool(line.strip()) or (self._inside and not newline)
        return shown
