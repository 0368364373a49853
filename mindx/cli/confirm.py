"""The one question before a user's files are written: at a terminal it is asked, elsewhere `--yes` must be given."""

from __future__ import annotations

import click

from mindx.cli.changes_review import at_terminal
from mindx.cli.prose import note
from mindx.core.output import plain_text
from mindx.errors import InputError

yes_option = click.option("--yes", is_flag=True, help="Do not ask before writing; needed where nobody can be asked.")


def can_ask(as_json: bool) -> bool:
    """Return True when a person is there to be asked, and not a program that reads a document."""
    return at_terminal() and not as_json


def confirmed(question: str, *, yes: bool, asks: bool, verb: str, target: str, look: str) -> bool:
    """Return True when the folder `target` may be written to; a no is told.

    `verb` is apply, undo or rollback; `look` is the command that shows what it is about. Raises InputError
    (apply_needs_yes, undo_needs_yes, rollback_needs_yes) where nobody can be asked.
    """
    if yes:
        return True
    nothing = "nothing was applied" if verb == "apply" else "nothing was taken back"
    if not asks:
        raise InputError(
            f"{verb}_needs_yes",
            f"nobody can be asked here whether to write to {plain_text(target)}: {nothing}. Look with "
            f"`{look}`, then give --yes.",
        )
    if yes_or_no(question, default=True):
        return True
    note(nothing)
    return False


def yes_or_no(question: str, *, default: bool) -> bool:
    """Ask at the terminal until the answer is one; Enter alone is the default. Raises click.Abort at its end."""
    choice = "[Y/n]" if default else "[y/N]"
    while True:
        answer = str(click.prompt(f"{question} {choice}", default="", show_default=False, err=True)).strip().lower()
        if answer in ("y", "yes", "n", "no", ""):
            return answer.startswith("y") or (not answer and default)
        note("answer y or n")
