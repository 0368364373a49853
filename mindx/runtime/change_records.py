"""Changes as the document of a run tells them."""

from __future__ import annotations

from mindx.core.count import counted
from mindx.core.output import plain_text
from mindx.core.run import ChangeRecord
from mindx.errors import FileError, StateError
from mindx.runtime.session import Session
from mindx.trace.run_folder import RunFolder
from mindx.workspace.changes import Change
from mindx.workspace.pull import collect
from mindx.workspace.store import ChangesFolder


async def collect_changes(session: Session, folder: RunFolder) -> tuple[ChangeRecord, ...]:
    """Bring the Changes and their contents into the run's folder, and return their records.

    Raises SandboxLostError, and StateError when the folder cannot take them.
    """
    limits = session.policy.policy.limits
    kept = ChangesFolder(folder.path)
    try:
        changes = await collect(
            session.sandbox,
            session.baseline,
            kept,
            limits.copy_out_bytes,
            session.protects,
            limits.workspace_inodes,
        )
    except FileError:
        raise  # too many names in the container: an OSError too, but not of this folder
    except OSError as error:
        raise StateError(
            "changes_unwritable",
            f"the changes cannot be kept in {folder.path}: {error.strerror or error}; free space and run again",
            details={"path": str(folder.path)},
        ) from error
    return tuple(change_record(change) for change in changes)


def change_record(change: Change) -> ChangeRecord:
    """Return the record of a Change; why it cannot be applied, or was not copied out, is its note."""
    collapsed = f"{change.collapsed} of {counted(change.files, 'file')}" if change.collapsed else ""
    return ChangeRecord(
        path=plain_text(change.path),
        kind=change.kind,
        entry=change.entry,
        mode=f"{change.mode:04o}",
        size=change.size,
        sha256=change.sha256,
        stored=change.stored,
        note="; ".join(part for part in (collapsed, change.blocked, change.note) if part),
    )
