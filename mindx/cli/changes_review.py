"""The review: Changes are shown one by one, and each is taken or not, as `git add -p` does it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import click

from mindx.cli.changes_show import patch_line, remarks, shown_name
from mindx.cli.prose import styled
from mindx.errors import Phase
from mindx.workspace.apply import Skipped, folders_of, steps_of
from mindx.workspace.changes import Change, executable
from mindx.workspace.diff import FileDiff, Hunk, TextDiff, diffs
from mindx.workspace.folder import opened
from mindx.workspace.lines import Region
from mindx.workspace.patch import file_patch, signed
from mindx.workspace.store import ChangesFolder
from mindx.workspace.take import Mine, Taken, look_at_mine, merged_step

HELP = """\
y - take this
n - leave this
q - leave this and all that follows; what was taken before is applied
a - take this and the rest of this file
d - leave this and the rest of this file
s - split this into smaller pieces
x - stop, and apply nothing at all
? - this help"""


class _Stop(Exception):
    """The user wants no more questions."""


@dataclass
class Review:
    """Asks about each Change of a run and keeps what is to be done. `target` is the user's folder.

    `known` are the paths that stand in the workspace besides, for the marks.
    """

    run: ChangesFolder
    target: Path
    known: Sequence[str] = ()
    taken: Taken = field(default_factory=Taken)
    held: list[Skipped] = field(default_factory=list)

    def ask(self, changes: Sequence[Change]) -> None:
        """Go through the Changes. Raises click.Abort when the user stops, WorkspaceError.

        Folders go with what they hold: a new one is made for a file that is taken, and one whose files are all
        taken away goes too. Only a folder without changed files is a question.
        """
        holding = {folder for change in changes for folder in folders_of(change.path)}
        silent = [c for c in changes if c.path in holding and _is_folder_only(c)]
        quiet = {change.path for change in silent}
        shown = [diff for diff in diffs(changes, self.run.blobs, self.known) if diff.change.path not in quiet]
        with opened(self.target, Phase.APPLY) as root, suppress(_Stop):
            for number, diff in enumerate(shown, 1):
                self._ask_about(diff, f"({number}/{len(shown)})", root)
        self._take_folders(changes, silent)

    def _take_folders(self, changes: Sequence[Change], folders: Sequence[Change]) -> None:
        taken = {step.path: step for step in self.taken.steps}
        needed = {folder for step in self.taken.steps if step.after is not None for folder in folders_of(step.path)}
        for folder in folders:
            inside = [change for change in changes if change.path.startswith(folder.path + "/")]
            if folder.kind == "added":
                wanted = folder.path in needed
            else:
                files = [change for change in inside if not _is_folder_only(change)]
                wanted = all(change.path in taken and taken[change.path].after is None for change in files)
            if wanted:
                self.taken.steps += steps_of([folder])[0]

    def _ask_about(self, diff: FileDiff, place: str, root: int) -> None:
        if all(change.blocked for change in diff.changes) or _has_no_content(diff):
            _show_heading(diff, place)
            self._take_whole(diff)  # it has no step: the reason goes into the report
            return
        _show_heading(diff, place)
        if diff.marks:
            show_patch(diff)
            if not _yes_of_its_own(diff):
                self.held.append(Skipped(diff.change.path, "runs on your machine: left out"))
                return
        mine = look_at_mine(diff.change, self.run.blobs, root)
        if diff.marks and (diff.text is None or mine is None):
            self._take_whole(diff)  # that was the yes
        elif diff.text is None or mine is None:
            self._ask_whole(diff)
        else:
            self._ask_pieces(diff, mine)

    def _ask_whole(self, diff: FileDiff) -> None:
        show_patch(diff)
        answer = _question(f"Take this: {diff.word}", "ynadqx")
        if answer in ("y", "a"):
            self._take_whole(diff)
        elif answer == "q":
            raise _Stop

    def _take_whole(self, diff: FileDiff) -> None:
        steps, skipped = steps_of(diff.changes)
        self.taken.steps += steps
        self.taken.skipped += skipped

    def _ask_pieces(self, diff: FileDiff, mine: Mine) -> None:
        """Ask about each hunk; one that meets an edit of the user is shown, and cannot be taken."""
        assert diff.change.before is not None
        assert diff.change.after is not None
        found = mine.merge
        text = TextDiff(tuple(found.base), tuple(found.plan), found.plan_regions)
        chosen, stop = self._choose(text, mine)
        take_mode = False
        if executable(diff.change.before) != executable(diff.change.after) and not stop:
            answer = _question(f"Take the mode {0o755 if executable(diff.change.after) else 0o644:04o}", "ynqx")
            take_mode, stop = answer == "y", answer == "q"
        step = merged_step(diff.change, mine, chosen, self.run.blobs, take_mode=take_mode)
        if step is not None:
            self.taken.steps.append(step)
        if stop:
            raise _Stop

    def _choose(self, text: TextDiff, mine: Mine) -> tuple[list[Region], bool]:
        """Return the regions that the user takes, and whether no more questions are wanted."""
        chosen: list[Region] = []
        standing = dict(zip(mine.merge.plan_regions, mine.merge.standing, strict=True))
        waiting = text.hunks()
        for_all = ""
        while waiting:
            hunk = waiting.pop(0)
            kinds = {standing[region] for region in hunk.regions}
            if len(kinds) > 1:
                waiting[:0] = hunk.split()
                continue
            if kinds != {"free"}:
                self._tell(text, hunk, "you edited the same lines" if kinds == {"conflict"} else "is there already")
                continue
            if not for_all:
                _show_hunk(text, hunk)
            answer = for_all or _question("Take this hunk", "ynadqx" + ("s" if len(hunk.regions) > 1 else ""))
            if answer == "s":
                waiting[:0] = hunk.split()
            elif answer in ("a", "y"):
                chosen += hunk.regions
            for_all = {"a": "y", "d": "n"}.get(answer, for_all)
            if answer == "q":
                return chosen, True
        return chosen, False

    def _tell(self, text: TextDiff, hunk: Hunk, why: str) -> None:
        _show_hunk(text, hunk)
        _echo(styled(f"Left out: {why}.", "magenta", sys.stderr))


def _is_folder_only(change: Change) -> bool:
    return change.kind != "modified" and change.entry == "directory" and not change.collapsed and not change.blocked


def _has_no_content(diff: FileDiff) -> bool:
    return diff.change.has_content and not diff.change.stored


def _show_heading(diff: FileDiff, place: str) -> None:
    _echo("")
    _echo(styled(f"{place} {diff.word}: {shown_name(diff)}", None, sys.stderr, bold=True))
    for line in remarks(diff):
        _echo(styled(f"    {line}", "magenta", sys.stderr))


def show_patch(diff: FileDiff) -> None:
    """Show a Change on stderr as a patch, before it is asked about."""
    for line in file_patch(diff):
        _echo(patch_line(line, sys.stderr))


def _show_hunk(text: TextDiff, hunk: Hunk) -> None:
    for line in _hunk_lines(text, hunk):
        _echo(patch_line(line, sys.stderr))


def _hunk_lines(text: TextDiff, hunk: Hunk) -> Iterator[bytes]:
    yield hunk.heading.encode() + b"\n"
    for sign, _, line in text.lines(hunk):
        yield from signed(sign, line)


def _yes_of_its_own(diff: FileDiff) -> bool:
    what = ", ".join(diff.marks)
    answer = _question(f"This file runs on your machine later ({what}). Take it", "ynqx", careful=True)
    if answer == "q":
        raise _Stop
    return answer == "y"


def _question(text: str, answers: str, *, careful: bool = False) -> str:
    """Ask until one of the letters comes; the end of the input is `x`. Raises click.Abort for `x`."""
    colour = "red" if careful else "blue"
    while True:
        prompt = f"{text} [{','.join(answers)},?]? "
        click.echo(styled(prompt, colour, sys.stderr, bold=True), nl=False, err=True)
        line = sys.stdin.readline()
        answer = line.strip().lower()[:1] if line else "x"
        if answer == "x":
            _echo("" if line else "\n")
            raise click.Abort
        if answer and answer in answers:
            return answer
        _echo("\n".join(row for row in HELP.split("\n") if row[0] in answers + "?"))


def _echo(text: str) -> None:
    click.echo(text, err=True)


def at_terminal() -> bool:
    """Return True if a person can be asked."""
    try:
        return os.isatty(sys.stdin.fileno()) and sys.stderr.isatty()
    except (OSError, ValueError, AttributeError):
        return False
