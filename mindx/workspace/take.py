"""Take: from what the user chose of a run's Changes to the steps of an apply."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mindx.errors import Phase
from mindx.workspace.apply import Skipped, folders_of, steps_of
from mindx.workspace.changes import Change, State, executable
from mindx.workspace.diff import MAX_TEXT_BYTES
from mindx.workspace.folder import opened
from mindx.workspace.journal import Step
from mindx.workspace.lines import Region, split_lines
from mindx.workspace.marks import marks_of
from mindx.workspace.merge import Merge, merge
from mindx.workspace.present import PathBlocked, present
from mindx.workspace.store import BlobStore
from mindx.workspace.survey import Conflict


@dataclass(frozen=True, slots=True)
class Mine:
    """A file of the user as it is now, and its three-way comparison with what the plan did."""

    state: State
    merge: Merge


@dataclass
class Taken:
    """Steps to do, and why other Changes have none."""

    steps: list[Step] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)


def hold_back(
    changes: Sequence[Change], accepted: Iterable[str] = (), known: Iterable[str] = ()
) -> tuple[list[Change], list[Skipped]]:
    """Return the Changes without those that need a yes of their own, and these with their marks.

    `accepted` are paths that got it; a folder stands for all in it, `.` for everything. `known` are the
    paths that stand there besides, for the marks.
    """
    said_yes = [os.path.normpath(path) for path in accepted]
    free: list[Change] = []
    held: list[Skipped] = []
    marks = marks_of(changes, known)
    for change in changes:
        labels = marks.get(change.path)
        if change.blocked or not labels or any(_is_at_or_below(change.path, path) for path in said_yes):
            free.append(change)
        else:
            held.append(Skipped(change.path, f"runs on your machine: {', '.join(labels)}"))
    idle = _idle_folders(free, [item.path for item in held])
    return [change for change in free if change.path not in idle], held


def _idle_folders(free: Sequence[Change], held: Sequence[str]) -> set[str]:
    """Return the new folders that would be made only for what is held back."""
    for_held = {folder for path in held for folder in folders_of(path)}
    wanted = {folder for change in free if not _is_new_folder(change) for folder in folders_of(change.path)}
    wanted |= {c.path for c in free if _is_new_folder(c) and c.path not in for_held}
    wanted |= {folder for path in wanted for folder in folders_of(path)}
    return {change.path for change in free if _is_new_folder(change)} - wanted


def _is_new_folder(change: Change) -> bool:
    return change.kind == "added" and change.entry == "directory" and not change.blocked


def look_at_mine(change: Change, blobs: BlobStore, root: int) -> Mine | None:
    """Compare a modified text with the user's file below the handle `root`.

    None if there is no text to compare: another kind of thing, binary, too big, or a content that is not at hand.
    """
    before, after = change.before, change.after
    if before is None or after is None or not (before.entry == after.entry == "file") or not change.stored:
        return None
    pieces: list[bytes] = []
    try:
        now = present(root, change.path, pieces.append).state
    except (PathBlocked, OSError):
        return None
    if now is None or now.entry != "file" or max(now.size, before.size, after.size) > MAX_TEXT_BYTES:
        return None
    mine = b"".join(pieces)
    if now.sha256 == before.sha256:
        base = mine
    elif before.sha256 in blobs:
        base = blobs.read(before.sha256)
    else:
        return None
    plan = blobs.read(after.sha256)
    if any(b"\0" in text for text in (base, plan, mine)):
        return None
    return Mine(now, merge(split_lines(base), split_lines(plan), split_lines(mine)))


def merged_step(
    change: Change, mine: Mine, chosen: Collection[Region], blobs: BlobStore, *, take_mode: bool = True
) -> Step | None:
    """Return the step that brings the chosen regions into the user's file; None if nothing would change."""
    assert change.before is not None
    assert change.after is not None
    text = b"".join(mine.merge.take(chosen))
    mode = mine.state.mode & 0o777
    if take_mode and executable(change.before) != executable(change.after):
        mode = 0o755 if executable(change.after) else 0o644
    after = State("file", mode, len(text), blobs.add([text]))
    if after.same_content(mine.state) and executable(after) == executable(mine.state):
        return None
    return Step(change.path, replace(mine.state, mode=mine.state.mode & 0o777), after)


def merged_steps(changes: Sequence[Change], blobs: BlobStore, target: Path) -> Taken:
    """Return the steps of Changes; where the user edited a text too, both edits are joined if they stay apart.

    Raises WorkspaceError if the target cannot be used.
    """
    taken = Taken()
    with opened(target, Phase.APPLY) as root:
        for change in changes:
            mine = None if change.blocked else look_at_mine(change, blobs, root)
            if mine is None or not mine.merge.mine_regions:
                steps, skipped = steps_of([change])
                taken.steps += steps
                taken.skipped += skipped
            elif mine.merge.conflicts:
                taken.conflicts.append(Conflict(change.path, _where(mine.merge)))
            elif step := merged_step(change, mine, mine.merge.plan_regions, blobs):
                taken.steps.append(step)
    return taken


def _where(found: Merge) -> str:
    lines = [str(region.old_start + 1) for region in found.conflicts[:5]]
    more = " ..." if len(found.conflicts) > 5 else ""
    return f"you edited the same lines as the plan, at line {', '.join(lines)}{more} of what was copied in"


def _is_at_or_below(path: str, folder: str) -> bool:
    return folder in (".", path) or path.startswith(folder + "/")
