"""Apply: Changes that the user wants are written to a folder of the host, all of them or none."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mindx.core.lock_file import take_lock
from mindx.core.nearest import nearest_id
from mindx.errors import InputError, MindxError, Phase, WorkspaceError
from mindx.workspace.changes import Change, executable, is_history
from mindx.workspace.folder import identity, open_folder
from mindx.workspace.handle import STAGING_PREFIX
from mindx.workspace.journal import Journal, Step, journals, next_journal, read_journal
from mindx.workspace.names import name_to
from mindx.workspace.store import ChangesFolder
from mindx.workspace.survey import DIFFERS, Conflict, Survey, survey
from mindx.workspace.transaction import ChangedMeanwhile, Transaction, remove_staging

JOURNAL_FOLDER = "applied"


@dataclass(frozen=True, slots=True)
class Skipped:
    """One Change that was not applied, or a folder that was not removed, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """What an apply or undo did. With `conflicts` nothing was done at all.

    `already` holds what stood there as wanted. `skipped` holds Changes that cannot be applied. `kept` holds folders
    that were not removed because they hold files that were not copied in.
    """

    target: str
    applied: tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if there was no conflict."""
        return not self.conflicts

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            **name_to("target", self.target),
            "applied": [name_to("path", path) for path in self.applied],
            "already": [name_to("path", path) for path in self.already],
            "conflicts": [{**name_to("path", item.path), "reason": item.reason} for item in self.conflicts],
            "skipped": [{**name_to("path", item.path), "reason": item.reason} for item in self.skipped],
            "kept": [name_to("path", path) for path in self.kept],
        }


def apply(
    changes: Sequence[Change],
    run: ChangesFolder,
    target: Path,
    paths: Iterable[str] | None = None,
    *,
    expected: tuple[int, int] | None = None,
) -> ApplyReport:
    """Write Changes to the folder `target`, each file atomically, all or none; every step can be undone.

    `paths` None takes all, else those that are, or lie in, one of these paths. `expected` is the device and inode
    that the folder must have, None for any. A file that differs from what was copied in is a conflict; with one
    conflict nothing is done. An apply that was killed is rolled back first. Raises WorkspaceError (the folder cannot
    be used, a full disk: nothing is left half done), InputError (an unknown path, a damaged content).
    """
    chosen = changes if paths is None else choose(changes, paths)
    steps, skipped = steps_of(chosen)
    return perform(steps, run, target, skipped=skipped, expected=expected)


def choose(changes: Sequence[Change], paths: Iterable[str]) -> list[Change]:
    """Return the Changes at or below `paths`, with the folders that they need. Raises InputError for unknown paths."""
    wanted: set[str] = set()
    for path in paths:
        plain = os.path.normpath(path)
        here = [c.path for c in changes if plain == "." or c.path == plain or c.path.startswith(plain + "/")]
        if not here:
            hint = nearest_id(path, (change.path for change in changes), "`mindx changes show` lists them all")
            raise InputError("change_unknown", f"no change at {path!a}; {hint}")
        wanted.update(here)
    needed = {folder for path in wanted for folder in folders_of(path)}
    return [c for c in changes if c.path in wanted or (c.path in needed and c.after is not None)]


def steps_of(changes: Iterable[Change]) -> tuple[list[Step], list[Skipped]]:
    """Return the steps of the Changes that can be applied, and the others with the reason."""
    steps: list[Step] = []
    skipped: list[Skipped] = []
    for change in changes:
        reason = change.blocked
        if not reason and change.has_content and not change.stored:
            reason = change.note or "its content is not in the run's folder"
        if reason:
            skipped.append(Skipped(change.path, reason))
            continue
        after = change.after
        if after is not None:
            mode = 0o755 if after.entry == "directory" or executable(after) else 0o644
            after = replace(after, mode=mode)
        steps.append(Step(change.path, change.before, after))
    return steps, skipped


def perform(
    steps: Sequence[Step],
    run: ChangesFolder,
    target: Path,
    *,
    skipped: Sequence[Skipped] = (),
    expected: tuple[int, int] | None = None,
) -> ApplyReport:
    """Carry out steps on `target` as `apply` does. Raises WorkspaceError, InputError."""
    if any(is_history(part) for part in os.path.realpath(target).split("/")) or any(is_history(s.path) for s in steps):
        raise _refused("apply_history", "nothing is ever written into a .git folder")
    with _locked(run):
        _finish_interrupted(run)
        root = open_folder(target, Phase.APPLY)
        try:
            _lock_target(root)
            if expected is not None and identity(root) != expected:
                raise _refused(
                    "apply_moved", f"{str(target)!a} is not the folder that was copied in; name a folder with --to"
                )
            found = _survey(root, steps, run)
            steps = found.steps
            already = tuple(steps[number].path for number in found.already)
            report = ApplyReport(os.path.realpath(target), (), already, found.conflicts, tuple(skipped))
            if found.conflicts or not found.todo:
                return report
            device, inode = identity(root)
            journal = Journal(report.target, device, inode, _staging(), "applying", tuple(steps))
            path = next_journal(run.path / JOURNAL_FOLDER)
            kept = _carry_out(root, run, journal, path, found, "applied")
            if isinstance(kept, Conflict):
                return replace(report, already=(), conflicts=(kept,))
            applied = tuple(steps[number].path for number in found.todo if steps[number].path not in kept)
            return replace(report, applied=applied, kept=tuple(kept))
        finally:
            os.close(root)


def undo(run: ChangesFolder) -> ApplyReport:
    """Take back the last apply of a run that was not taken back yet, or finish an undo that was killed.

    A file that changed since is a conflict; with one conflict nothing is done. Raises InputError if there is nothing
    to undo, WorkspaceError if the folder is gone or cannot be written.
    """
    with _locked(run):
        if rolled_back := _finish_interrupted(run):
            return rolled_back
        path = next((p for p in reversed(journals(run.path / JOURNAL_FOLDER)) if _phase(p) == "applied"), None)
        if path is None:
            raise _nothing_to_undo()
        return _go_back(run, path, tolerant=False)


def next_undo(run: ChangesFolder) -> Journal:
    """Return the journal of what `undo` would take back now. Raises InputError (undo_nothing, journal_damaged)."""
    found = [read_journal(path) for path in reversed(journals(run.path / JOURNAL_FOLDER))]
    for wanted in (("applying", "undoing"), ("applied",)):
        for journal in found:
            if journal.phase in wanted:
                return journal
    raise _nothing_to_undo()


def _finish_interrupted(run: ChangesFolder) -> ApplyReport | None:
    """Take back what a killed process left half done; None if there was nothing."""
    for path in reversed(journals(run.path / JOURNAL_FOLDER)):
        journal = read_journal(path)
        if journal.phase in ("applying", "undoing"):
            report = _go_back(run, path, tolerant=True)
            if report.conflicts:
                listed = ", ".join(f"{item.path!a}" for item in report.conflicts[:5])
                raise _refused(
                    "apply_interrupted",
                    f"an apply was interrupted, and files changed since: {listed}; put them back or remove "
                    f"{path.name} in the run's folder, then try again",
                )
            return report
        _clean(journal)  # in case it was killed between the last step and the clean-up
    return None


def _go_back(run: ChangesFolder, path: Path, *, tolerant: bool) -> ApplyReport:
    journal = read_journal(path)
    root = open_folder(Path(journal.target), Phase.APPLY)
    try:
        _lock_target(root)
        if identity(root) != (journal.device, journal.inode):
            raise _refused("apply_moved", f"{journal.target!a} is not the folder that was applied to any more")
        steps = [step.reversed for step in journal.steps]
        found = _survey(root, steps, run, tolerant)
        already = tuple(steps[number].path for number in found.already)
        conflicts = tuple(_as_of_undo(conflict) for conflict in found.conflicts)
        report = ApplyReport(journal.target, (), already, conflicts)
        if conflicts:
            return report
        kept = _carry_out(root, run, journal.at("undoing"), path, found, "undone")
        if isinstance(kept, Conflict):
            return replace(report, already=(), conflicts=(kept,))
        applied = tuple(steps[number].path for number in found.todo if steps[number].path not in kept)
        return replace(report, applied=applied, kept=tuple(kept))
    finally:
        os.close(root)


def _as_of_undo(conflict: Conflict) -> Conflict:
    """What an undo compares with is what was applied, not what was copied in."""
    return replace(conflict, reason="it was changed after it was applied") if conflict.reason == DIFFERS else conflict


def _survey(root: int, steps: Sequence[Step], run: ChangesFolder, tolerant: bool = False) -> Survey:
    try:
        return survey(root, steps, run.blobs, tolerant=tolerant)
    except OSError as error:
        raise _failed(error) from error


def _carry_out(
    root: int, run: ChangesFolder, journal: Journal, path: Path, found: Survey, end: Any
) -> list[str] | Conflict:
    """Do what was found to do, or take it back; return the folders that were kept, or what changed meanwhile."""
    try:
        journal.write(path)
        backwards = journal.phase == "undoing"
        transaction = Transaction(root, journal.staging, run.blobs, found.seen, backwards=backwards)
    except OSError as error:
        if journal.phase == "applying":
            path.unlink(missing_ok=True)
        raise _failed(error, journal.target) from error
    done = False
    try:
        transaction.run(found.steps, found.todo)
        journal.at(end).write(path)
        done = True
        return transaction.kept
    except ChangedMeanwhile as error:
        done = _take_back(root, run, journal, path, found.steps, transaction.begun)
        return Conflict(error.path, error.reason)
    except BaseException as error:  # also Ctrl-C: no half is left behind
        done = _take_back(root, run, journal, path, found.steps, transaction.begun)
        if isinstance(error, OSError):
            raise _failed(error, journal.target) from error
        raise
    finally:
        transaction.close(discard=done)


def _take_back(
    root: int, run: ChangesFolder, journal: Journal, path: Path, done: Sequence[Step], begun: Collection[int]
) -> bool:
    """Restore what stood before the steps that were begun; True if that is so again."""
    steps = [step.reversed for step in done]
    forwards = journal.phase == "undoing"
    try:
        back = survey(root, steps, run.blobs, tolerant=True)
        if {item.path for item in back.conflicts} & {steps[number].path for number in begun}:
            return False
        transaction = Transaction(root, journal.staging, run.blobs, backwards=not forwards)
        try:
            transaction.run(back.steps, [number for number in back.todo if number in begun])
        finally:
            transaction.close(discard=False)
        if forwards:
            journal.at("applied").write(path)
        else:
            path.unlink(missing_ok=True)
        return True
    except (OSError, ChangedMeanwhile, MindxError):
        return False  # the journal stays: the next apply or undo tries again


def _clean(journal: Journal) -> None:
    with suppress(OSError, WorkspaceError):
        root = open_folder(Path(journal.target), Phase.APPLY)
        try:
            if identity(root) == (journal.device, journal.inode):
                remove_staging(root, journal.staging)
        finally:
            os.close(root)


@contextmanager
def _locked(run: ChangesFolder) -> Iterator[None]:
    handle = os.open(run.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not take_lock(handle):
            raise _refused("apply_busy", "another apply or undo of this run is at work; wait for it")
        yield
    finally:
        os.close(handle)


def _lock_target(root: int) -> None:
    """Hold the folder until its handle is closed: two runs do not write to one folder at once."""
    try:
        free = take_lock(root)
    except OSError:
        return  # a file system without locks; each step still looks at what it replaces
    if not free:
        raise _refused("apply_busy", "another apply or undo writes to this folder; wait for it")


def _phase(path: Path) -> str:
    return read_journal(path).phase


def _staging() -> str:
    return STAGING_PREFIX + secrets.token_hex(8)


def folders_of(path: str) -> Iterator[str]:
    """Yield the folders that a path lies in, the nearest first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _nothing_to_undo() -> InputError:
    return InputError("undo_nothing", "nothing of this run is applied; there is nothing to undo")


def _failed(error: OSError, target: str = "") -> WorkspaceError:
    reason, where = error.strerror or str(error), f" to {target!a}" if target else ""
    return _refused("apply_failed", f"the Changes could not be written{where}: {reason}; nothing was applied")


def _refused(code: str, message: str) -> WorkspaceError:
    return WorkspaceError(code, message, phase=Phase.APPLY)
