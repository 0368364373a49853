"""Survey: the steps of an apply against what stands on the host: done already, to do, or in conflict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mindx.workspace.changes import State, executable
from mindx.workspace.journal import Step
from mindx.workspace.present import Fingerprint, PathBlocked, Present, names_in, present
from mindx.workspace.store import BlobStore

DIFFERS = "it differs from what was copied in"


@dataclass(frozen=True, slots=True)
class Conflict:
    """One path whose present state is neither what was copied in nor what is wanted."""

    path: str
    reason: str


@dataclass
class Survey:
    """The steps with the modes that they will really have, sorted by path, and which of them are to be done.

    `todo` and `already` are numbers of steps. `seen` tells whether a file is still the one that was looked at.
    """

    steps: list[Step] = field(default_factory=list)
    todo: list[int] = field(default_factory=list)
    already: list[int] = field(default_factory=list)
    conflicts: tuple[Conflict, ...] = ()
    seen: dict[str, Fingerprint] = field(default_factory=dict)


def survey(root: int, steps: Sequence[Step], blobs: BlobStore, *, tolerant: bool = False) -> Survey:
    """Look at every path of `steps` below the handle `root`, and keep the old contents in `blobs` for an undo.

    `tolerant` also takes paths that hold nothing while one kind of thing makes way for another: for taking back what
    was interrupted. Raises OSError.
    """
    ordered = sorted(steps, key=lambda step: step.path.split("/"))
    found = Survey(list(ordered))
    conflicts: list[Conflict] = []
    made = {step.path for step in ordered if step.after is not None and step.after.entry == "directory"}
    cleared: set[str] = set()  # what is no folder now: nothing stands below it
    for number, step in enumerate(ordered):
        try:
            now = Present(None) if _is_below(step.path, cleared) else _look(root, step, blobs)
            if now.state is None or now.state.entry != "directory":
                cleared.add(step.path)
            reason = _judge(found, number, step, now, tolerant)
            if not reason and number in found.todo[-1:]:
                reason = _against_surroundings(root, step, made, {other.path for other in ordered})
        except PathBlocked:
            reason = "a folder of its path is a link, or no folder"
        if reason:
            conflicts.append(Conflict(step.path, reason))
    found.conflicts = tuple(conflicts)
    return found


def _look(root: int, step: Step, blobs: BlobStore) -> Present:
    """Return what is there; the old content of a file goes into the store on the way, unless it is there."""
    before = step.before
    if before is None or before.entry != "file" or before.sha256 in blobs:
        return present(root, step.path)
    with blobs.writer() as writer:
        now = present(root, step.path, writer.write)
        if now.state is not None and now.state.sha256 == before.sha256 == writer.sha256:
            writer.keep()
        return now


def _judge(found: Survey, number: int, step: Step, now: Present, tolerant: bool) -> str:
    """Note the step as done or to do, or return why it is in conflict."""
    if _matches(now.state, step.after):
        found.already.append(number)
        return ""
    if not _matches(now.state, step.before) and not (tolerant and now.state is None and _may_be_missing(step)):
        return _difference(now.state, step.before)
    if now.fingerprint is not None:
        found.seen[step.path] = now.fingerprint
    if now.state is not None and step.before is not None:
        found.steps[number] = _with_real_modes(step, step.before, now.state)
    found.todo.append(number)
    return ""


def _with_real_modes(step: Step, before: State, now: State) -> Step:
    """Keep the user's own mode of a file, but for the one bit that changed; note it for an undo."""
    after = step.after
    if after is not None and now.entry == after.entry == "file" and executable(after) == executable(now):
        after = replace(after, mode=now.mode & 0o777)
    return Step(step.path, replace(before, mode=now.mode & 0o777), after)


def _may_be_missing(step: Step) -> bool:
    return step.reversed.replaces_kind or step.replaces_kind


def _matches(now: State | None, wanted: State | None) -> bool:
    if now is None or wanted is None:
        return now is wanted
    return now.entry == wanted.entry == "directory" or (
        now.same_content(wanted) and executable(now) == executable(wanted)
    )


def _difference(now: State | None, before: State | None) -> str:
    if before is None:
        return "something else stands there already"
    if now is None:
        return "it is not there, or not any more"
    if now.entry != before.entry:
        return f"it is a {now.entry} there, not a {before.entry}"
    return DIFFERS


def _against_surroundings(root: int, step: Step, made: set[str], paths: set[str]) -> str:
    if step.after is None:
        return ""
    folder = step.path.rpartition("/")[0]
    if folder and folder not in made:
        state = present(root, folder).state
        if state is None or state.entry != "directory":
            return "its folder is not there"
    if step.before is not None and step.before.entry == "directory" and step.after.entry != "directory":
        others = [name for name in names_in(root, step.path) if f"{step.path}/{name}" not in paths]
        if others:
            return "the folder holds files that were not copied in"
    return ""


def _is_below(path: str, folders: set[str]) -> bool:
    while "/" in path:
        path = path.rpartition("/")[0]
        if path in folders:
            return True
    return False
