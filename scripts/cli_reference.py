#!/usr/bin/env python3
"""Writes docs/cli.md from the commands' own help: `cli_reference.py` (`--check` only compares)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from mindx.cli.verbs import cli

PATH = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
WIDTH = 100
INTRODUCTION = """# The command line

Written by `scripts/cli_reference.py` from the commands' own help; a test keeps it so. Data goes to standard output,
everything else to standard error. `--json` prints one document: `mindx schema` has the JSON Schema of each.
"""


def commands(group: click.Group, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command below a group, in the order of the help."""
    context = click.Context(group, info_name=words[-1])
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))


def help_of(words: tuple[str, ...], command: click.Command) -> str:
    """Return a command's help as it is printed at a width that does not depend on the terminal."""
    context = None
    for word in words[:-1]:
        context = click.Context(cli, info_name=word, parent=context)
    settings = {"terminal_width": WIDTH, "max_content_width": WIDTH, "help_option_names": ["-h", "--help"]}
    context = click.Context(command, info_name=words[-1], parent=context, **settings)
    return command.get_help(context).rstrip()


def reference() -> str:
    """Return the whole text of docs/cli.md."""
    parts = [INTRODUCTION, f"## mindx\n\n```\n{help_of(('mindx',), cli)}\n```\n"]
    for words, command in commands(cli, ("mindx",)):
        parts.append(f"## {' '.join(words)}\n\n```\n{help_of(words, command)}\n```\n")
    return "\n".join(parts)


def main() -> int:
    """Write the file, or compare it."""
    text = reference()
    if "--check" in sys.argv:
        return 0 if PATH.read_text(encoding="utf-8") == text else 1
    PATH.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
