"""What Tab offers in `mindx shell`: commands, and names of the workspace as they are in the container."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from mindx.cli.escape import escape_line
from mindx.tools.simple_coder_args import COMMANDS

Names = Callable[[str], Awaitable[Sequence[tuple[str, bool]]]]
# Which word after the command is a path; of a program's line every one may be.
_PATH_WORD = {"ls": 1, "cd": 1, "read": 1, "write": 1, "mkdir": 1, "rm": 1, "search": 2}
_FOLDERS_ONLY = ("cd", "mkdir")
_ANY_WORD = ("run", "start", "pty_open")


class ShellCompleter(Completer):
    """Completes a typed line. `names` tells the names in a folder, relative to the current one, and which are folders.

    A name that cannot be typed (control characters) is not offered; one with blanks is put in quotes.
    """

    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing: names come from the container, which is asked without blocking."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield what fits to the word before the cursor."""
        words, typed = split(document.text_before_cursor)
        if not words:
            for name in (*COMMANDS, "exit"):
                if name.startswith(typed):
                    yield Completion(name, -len(typed))
        elif words[0] == "help":
            for name in COMMANDS:
                if len(words) == 1 and name.startswith(typed):
                    yield Completion(name, -len(typed))
        elif words[0] in _ANY_WORD or _PATH_WORD.get(words[0]) == len(words):
            async for found in self._paths(typed, folders_only=words[0] in _FOLDERS_ONLY):
                yield found

    async def _paths(self, typed: str, folders_only: bool) -> AsyncGenerator[Completion, None]:
        path = unquoted(typed)
        folder, _, start = path.rpartition("/")
        folder = f"{folder}/" if "/" in path else ""
        for name, is_folder in sorted(await self._names(folder or ".")):
            hidden = name.startswith(".") and not start.startswith(".")
            if not name.startswith(start) or hidden or not name.isprintable() or (folders_only and not is_folder):
                continue
            whole = posixpath.join(folder, name) + ("/" if is_folder else "")
            text = shlex.quote(whole)
            shown = escape_line(name, ci=False) + ("/" if is_folder else "")
            # The quote of a folder is left open, so that one can go on in it.
            yield Completion(text[:-1] if text.endswith("/'") else text, -len(typed), display=shown)


def split(line: str) -> tuple[list[str], str]:
    """Return the whole words of a line and, as it is typed, the one that its end stands in."""
    words: list[str] = []
    begun, quote, escaped, word = 0, "", False, False
    for at, character in enumerate(line):
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = word = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote, word = character, True
        elif character.isspace():
            if word:
                words.append(unquoted(line[begun:at]))
            begun, word = at + 1, False
        else:
            word = True
    return words, line[begun:]


def unquoted(text: str) -> str:
    """Return what a word means that may end in the middle of a quote."""
    for end in ("", "'", '"', "\\"):
        try:
            return "".join(shlex.split(text + end)[:1])
        except ValueError:
            continue
    return text
