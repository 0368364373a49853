"""A line that a person types (`mindx shell`) as the flat params of a call."""

from __future__ import annotations

import shlex

from mindx.core.count import counted
from mindx.tools.command_tool import CallError, ParamFault
from mindx.tools.simple_coder_args import COMMANDS

_TAKES_THE_REST = {"write": "content", "env_set": "value"}
_TAKES_A_LINE = ("run", "start", "pty_open")
_NUMBERS = ("tail", "rows", "cols", "timeout_seconds")


def parse_line(line: str) -> dict[str, str | int | list[str]]:
    """Return the params for a line: a command and its arguments in the order of its signature.

    `run`, `start` and `pty_open` take the rest of the line as their `cmdline`; `write` and `env_set` join the remaining
    words with a blank. `env_set NAME=VALUE` is understood too, and `pty_send JOB TEXT up,enter`.
    Raises CallError for an open quote, an empty line or a word too many; an unknown command and what is missing are
    for `validate` to say.
    """
    command, _, rest = line.strip().partition(" ")
    if not command:
        raise CallError([ParamFault("", "nothing is typed", "`help` lists the commands")])
    if command in _TAKES_A_LINE:
        return {"command": command, "cmdline": rest.strip()}
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise CallError([ParamFault("", str(error).lower(), "close the quote")]) from None
    if command not in COMMANDS:
        return {"command": command}
    if command == "env_set" and words and "=" in words[0]:
        words[:1] = words[0].split("=", 1)
    names = list(COMMANDS[command].model_fields)
    joined = _TAKES_THE_REST.get(command)
    if joined is not None and len(words) >= len(names):
        words[len(names) - 1 :] = [" ".join(words[len(names) - 1 :])]
    if len(words) > len(names):
        takes = f"it takes {', '.join(names)}; put a name with blanks in quotes" if names else "it takes no arguments"
        raise CallError([ParamFault("", f"`{command}` has {counted(len(words), 'argument')}", takes)])
    return {"command": command, **{name: _value(name, word) for name, word in zip(names, words, strict=False)}}


def _value(name: str, word: str) -> str | int | list[str]:
    if name == "keys":
        return word.split(",")
    if name == "names" and word in ("true", "false", "names"):
        return word != "false"
    return int(word) if name in _NUMBERS and word.isdecimal() and len(word) < 10 else word
