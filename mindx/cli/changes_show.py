"""How the Changes of a run look in a terminal: one line each, or as a patch."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from mindx.cli.escape import escape, escape_line
from mindx.cli.prose import styled
from mindx.core.count import counted
from mindx.workspace.changes import Change, executable
from mindx.workspace.copy_in import format_bytes
from mindx.workspace.diff import FileDiff
from mindx.workspace.names import name_to
from mindx.workspace.patch import patch

_COLOURS = {"added": "green", "deleted": "red", "modified": "yellow", "renamed": "cyan"}
_LETTERS = {"added": "A", "deleted": "D", "modified": "M", "renamed": "R"}
BAR_WIDTH = 30
_REMARK_COLOUR, _HUNK_COLOUR = "magenta", "cyan"


def print_stat(diffs: Sequence[FileDiff]) -> None:
    """Print one line for each Change, and a sum."""
    most = max((diff.text.added + diff.text.removed for diff in diffs if diff.text), default=0)
    width = min(60, max((len(shown_name(diff)) for diff in diffs), default=0))
    for diff in diffs:
        letter = styled(_LETTERS[diff.word], _COLOURS[diff.word], sys.stdout)
        click.echo(f"{letter} {shown_name(diff):{width}}  {_measure(diff, most)}".rstrip())
        for line in remarks(diff):
            click.echo(f"    {styled(line, _REMARK_COLOUR, sys.stdout)}")
    added = sum(diff.text.added for diff in diffs if diff.text)
    removed = sum(diff.text.removed for diff in diffs if diff.text)
    click.echo(f"{counted(len(diffs), 'change')}, {counted(added, 'line')} added, {counted(removed, 'line')} removed")


def shown_name(diff: FileDiff) -> str:
    """Return a path as it may be shown: on one line, harmless, a folder with a slash, a rename with an arrow."""
    tail = "/" if diff.change.entry == "directory" else ""
    name = escape_line(diff.change.path) + tail
    return name if diff.source is None else f"{escape_line(diff.source.path)} -> {name}"


def remarks(diff: FileDiff) -> list[str]:
    """Return what else there is to know about a Change, a line each."""
    change = diff.change
    lines = []
    if diff.marks:
        lines.append(f"runs on your machine: {', '.join(diff.marks)}; applied only with a yes of its own")
    if change.blocked:
        lines.append(escape_line(f"not applicable: {change.blocked}"))
    if change.note:
        lines.append(escape_line(change.note))
    return lines


def _measure(diff: FileDiff, most: int) -> str:
    change = diff.change
    parts = []
    if diff.text is not None:
        added, removed = diff.text.added, diff.text.removed
        scale = min(1.0, BAR_WIDTH / most) if most else 0
        plus = styled("+" * _bar(added, scale), "green", sys.stdout)
        minus = styled("-" * _bar(removed, scale), "red", sys.stdout)
        parts.append(f"{added + removed} {plus}{minus}")
    elif change.collapsed:
        parts.append(f"{change.collapsed} of {counted(change.files, 'file')}, {format_bytes(change.size)}")
    elif change.entry == "file" and diff.source is None and diff.remark:
        parts.append(f"{diff.remark}, {_sizes(change)}")
    elif change.entry == "link":
        parts.append(f"link to {escape_line(change.state.target)}")
    elif change.entry == "other":
        parts.append("special file")
    if mode := _mode(change):
        parts.append(mode)
    return ", ".join(parts)


def _bar(count: int, scale: float) -> int:
    return max(1, round(count * scale)) if count else 0


def _sizes(change: Change) -> str:
    sizes = [format_bytes(state.size) for state in (change.before, change.after) if state is not None]
    return " -> ".join(sizes)


def _mode(change: Change) -> str:
    before, after = change.before, change.after
    if before is not None and after is not None and before.mode != after.mode and before.entry == after.entry:
        return f"mode {before.mode:04o} -> {after.mode:04o}"
    return f"mode {after.mode:04o}" if before is None and after is not None and executable(after) else ""


def print_patch(diffs: Iterable[FileDiff], *, raw: bool) -> None:
    """Print a patch: exact bytes if `raw`, else with all that a terminal would obey written out."""
    if raw:
        for line in patch(diffs):
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        return
    for harmless in map(patch_line, patch(diffs)):
        click.echo(harmless)


def patch_line(line: bytes, stream: Any = None) -> str:
    """Return one line of a patch, harmless, in colour where there is colour."""
    text = escape(line.decode("utf-8", "surrogateescape").removesuffix("\n"))
    colour = _line_colour(text)
    return styled(text, colour, stream or sys.stdout) if colour else text


def _line_colour(text: str) -> str | None:
    if text.startswith(("+++", "---", "diff ", "new file", "deleted file", "old mode", "new mode", "rename", "simil")):
        return "bright_white"
    return {"+": "green", "-": "red", "@": _HUNK_COLOUR, "#": _REMARK_COLOUR}.get(text[:1])


def change_document(diff: FileDiff) -> list[dict[str, Any]]:
    """Return the Changes of a diff as plain values, with what the review adds to them."""
    documents = []
    for change in diff.changes:
        document = change.to_dict() | {"runs_on_your_machine": list(diff.marks if change is diff.change else ())}
        if diff.source is not None and change is diff.change:
            document |= name_to("renamed_from", diff.source.path)
        if diff.text is not None:
            document |= {"lines_added": diff.text.added, "lines_removed": diff.text.removed}
        documents.append(document)
    return documents
