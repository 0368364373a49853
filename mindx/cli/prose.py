"""Words for people and documents for machines: prose on stderr, one document on stdout, colours where they are wanted.

It costs no import to speak of; what shows runs and steps is in render.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

import click

from mindx.cli.errors import tell
from mindx.cli.escape import escape


def colours(stream: Any) -> bool:
    """Return True when the stream is a terminal that wants colours (NO_COLOR is not set)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def styled(text: str, colour: str | None, stream: Any, *, bold: bool = False) -> str:
    """Return the text in a colour when the stream takes colours."""
    return click.style(text, fg=colour, bold=bold or None) if colours(stream) else text


def hanging(text: str, indent: int) -> str:
    """Return the text broken between words at the terminal's width, what follows indented; whole when piped."""
    if not sys.stdout.isatty():
        return text
    import textwrap

    width = max(shutil.get_terminal_size().columns - indent, 20)
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return f"\n{'':{indent}}".join(lines)


def note(text: str) -> None:
    """Print one line of prose on stderr."""
    tell(escape(text))


def print_json(text: str) -> None:
    """Print a document on stdout, and nothing else."""
    click.echo(text, nl=False)
