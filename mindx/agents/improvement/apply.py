"""What the host does with a candidate: the review of changes applies it, all or nothing, and can take it back."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue

from mindx.agents.constitution import Act, Constitution, Layer
from mindx.agents.improvement.models import SELF, SELF_FILE, ImprovementRequest, ImprovementResult
from mindx.agents.improvement.paths import CHANGES_FOLDER, folder_of, rule_target
from mindx.core.output import plain_text
from mindx.errors import InputError
from mindx.runtime.run_ids import checked_id
from mindx.workspace.apply import ApplyReport, apply, next_undo, undo
from mindx.workspace.changes import Change
from mindx.workspace.journal import Journal
from mindx.workspace.marks import marks_of
from mindx.workspace.store import ChangesFolder


class ApplyStatus(str, Enum):
    """What became of a candidate."""

    APPLIED = "APPLIED"
    NEEDS_APPROVAL = "NEEDS_APPROVAL"  # a person must look at it first
    CONFLICT = "CONFLICT"  # the target is not what the candidate was made from; nothing was written
    ROLLED_BACK = "ROLLED_BACK"


class ImprovementReport(BaseModel):
    """What was done, on which files. `details` is the report of the review of changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: ApplyStatus
    message: str
    paths: tuple[str, ...] = ()
    details: dict[str, JsonValue] = {}

    @property
    def ok(self) -> bool:
        """True when files are as they were asked to be."""
        return self.status in (ApplyStatus.APPLIED, ApplyStatus.ROLLED_BACK)


def apply_improvement(
    request: ImprovementRequest,
    result: ImprovementResult,
    *,
    work_dir: Path,
    constitution: Constitution,
    layer: Layer = Layer.COORDINATOR,
    approved: bool = False,
) -> ImprovementReport:
    """Write the candidate of `result` over its target in the folder that was copied in, or say why not.

    Only the target itself is written, and only the very bytes that passed the gates. `approved` says that a person
    looked at this candidate. What stood there is kept for `rollback_improvement`. Raises InputError (there is no
    candidate, or it does not fit what is kept of it), ConstitutionError, WorkspaceError; then nothing was written.
    """
    candidate = result.data.candidate
    if not result.ok or candidate is None:
        raise InputError("improvement_none", f"there is nothing to apply: {result.message}")
    if request.tool_spec is not None:
        raise InputError("improvement_is_tool", "a new tool is registered (OfficialToolsRegistry), not applied")
    if candidate.target_path != (SELF_FILE if request.target_file == SELF else request.target_file):
        raise InputError("improvement_altered", f"{candidate.target_path!a} is not the file that was asked about")
    run = _kept(work_dir, request.interaction_id)
    change, folders = _judged(run, candidate.target_path, candidate.sha256)
    marks = marks_of([change]).get(change.path, ())
    baseline = run.read_baseline()
    if not baseline.folder:
        raise InputError("improvement_none", "the candidate was made in an empty workspace; there is no folder for it")
    workspace = request.workspace  # None: the answer was finished before, and a person applies it from elsewhere
    if workspace is not None and os.path.realpath(workspace) != os.path.realpath(baseline.folder):
        raise InputError(
            "improvement_altered", f"what is kept was made from {baseline.folder!a}, not from its workspace"
        )
    target = rule_target(Path(baseline.folder), change.path)
    ruling = constitution.check(layer, Act.APPLY_CODE, target, approved=approved)
    if ruling.needs_person or (not approved and (request.is_critical_target or result.needs_person or marks)):
        reason = ruling.reason if ruling.needs_person else f"it runs on this machine ({', '.join(marks)})"
        reason = reason if ruling.needs_person or marks else "it is marked as critical"
        return ImprovementReport(
            status=ApplyStatus.NEEDS_APPROVAL, message=f"{plain_text(change.path)} waits for a person: {reason}"
        )
    constitution.require(layer, Act.APPLY_CODE, target, approved=approved)
    # The very Change that was judged: the file that names it could be another by now.
    report = apply(
        [*folders, change], run, Path(baseline.folder), [change.path], expected=(baseline.device, baseline.inode)
    )
    return _report(report, ApplyStatus.APPLIED, "applied; `rollback` takes it back")


def rollback_improvement(
    interaction_id: str,
    *,
    work_dir: Path,
    constitution: Constitution,
    layer: Layer = Layer.COORDINATOR,
    approved: bool = False,
) -> ImprovementReport:
    """Put back what stood there before the candidate of an interaction was applied, if nobody changed it since.

    Raises InputError (undo_nothing: it is not applied), ConstitutionError, WorkspaceError.
    """
    run = _kept(work_dir, checked_id(interaction_id, "interaction id"))
    folder = Path(run.read_baseline().folder)
    for change in run.read_changes():
        if change.entry == "file":
            constitution.require(layer, Act.ROLL_BACK_CODE, rule_target(folder, change.path), approved=approved)
    return _report(undo(run), ApplyStatus.ROLLED_BACK, "taken back")


def applied_improvement(interaction_id: str, *, work_dir: Path) -> Journal:
    """Return what `rollback_improvement` would take back now. Raises InputError (improvement_none, undo_nothing)."""
    return next_undo(_kept(work_dir, checked_id(interaction_id, "interaction id")))


def _kept(work_dir: Path, interaction_id: str) -> ChangesFolder:
    path = folder_of(work_dir, interaction_id) / CHANGES_FOLDER
    if not path.is_dir():
        raise InputError("improvement_none", f"nothing is kept of the improvement {interaction_id}")
    return ChangesFolder(path)


def _judged(run: ChangesFolder, path: str, sha256: str) -> tuple[Change, list[Change]]:
    """Return the Change of the target, if it is what passed the gates, and the folders. Raises InputError."""
    changes = run.read_changes()
    change = next((item for item in changes if item.path == path), None)
    if change is None or change.sha256 != sha256:
        raise InputError("improvement_altered", f"what is kept of {path!a} is not the candidate that passed the gates")
    return change, [item for item in changes if item.entry == "directory"]


def _report(report: ApplyReport, status: ApplyStatus, message: str) -> ImprovementReport:
    details: dict[str, Any] = report.to_dict()
    if not report.ok:
        told = "; ".join(f"{plain_text(item.path)}: {item.reason}" for item in report.conflicts)
        return ImprovementReport(status=ApplyStatus.CONFLICT, message=f"nothing was written: {told}", details=details)
    if report.skipped:
        told = "; ".join(f"{plain_text(item.path)}: {item.reason}" for item in report.skipped)
        return ImprovementReport(status=ApplyStatus.CONFLICT, message=f"not applicable: {told}", details=details)
    paths = tuple(plain_text(path) for path in (*report.applied, *report.already))
    return ImprovementReport(status=status, message=message, paths=paths, details=details)
