"""Words of a command: plain text, or text that only the shell will know."""

from __future__ import annotations

import re

PROGRAM_NAME = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9._+\[-]{0,254}", re.ASCII)
_PLAIN = re.compile(r"[\w@%+=:,./$\[\]{}*?~^-]+", re.ASCII)
Argv = tuple[str, ...]


class Dynamic(str):
    """A word whose text is not known before it runs; as a string it is the source text, for people.

    `prefix` is what it surely begins with. `many` is True when it may become no word, or several.
    """

    prefix: str
    many: bool

    def __new__(cls, source: str, prefix: str = "", many: bool = False) -> Dynamic:
        """Return the word written as `source`."""
        word = super().__new__(cls, source)
        word.prefix = prefix
        word.many = many
        return word


def shown(argv: Argv, limit: int = 200) -> str:
    """Return a command on one line for people: every word that is not plain is escaped."""
    line = " ".join(word if _PLAIN.fullmatch(word) else ascii(str(word)) for word in argv)
    return line if len(line) <= limit else line[: limit - 3] + "..."
