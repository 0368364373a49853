"""The improvements of `self` that are applied, and taking the last of them back."""

from __future__ import annotations

from pathlib import Path

from mindx.agents.constitution import Constitution
from mindx.agents.improvement.apply import rollback_improvement
from mindx.agents.improvement.call import MAX_RESULT_BYTES, parse_result
from mindx.agents.improvement.models import (
    SELF_FILE,
    CycleResult,
    ImplementationStatus,
    ImprovementData,
    ImprovementResult,
    ImprovementStatus,
    OperationType,
)
from mindx.agents.improvement.paths import CHANGES_FOLDER, RESULT_FILE
from mindx.runtime.tasks.atomic import read_file
from mindx.workspace.apply import JOURNAL_FOLDER
from mindx.workspace.journal import journals, read_journal


def applied_self(work_dir: Path) -> list[str]:
    """Return the interactions whose improvement of `self` is applied, the last one first."""
    found: list[tuple[int, str]] = []
    for folder in (item for item in work_dir.iterdir() if item.is_dir()) if work_dir.is_dir() else ():
        kept = journals(folder / CHANGES_FOLDER / JOURNAL_FOLDER)
        last = [path for path in kept if read_journal(path).phase == "applied"][-1:]
        if last and _is_of_self(folder):
            found.append((last[0].stat().st_mtime_ns, folder.name))
    return [interaction_id for _, interaction_id in sorted(found, reverse=True)]


def roll_back_self(work_dir: Path, count: int, constitution: Constitution) -> ImprovementResult:
    """Take the last `count` improvements of `self` back, the last one first, and stop at what cannot be.

    Raises InputError, WorkspaceError.
    """
    wanted = applied_self(work_dir)[:count]
    done: list[str] = []
    problem = "" if wanted else "no improvement of `self` is applied"
    for interaction_id in wanted:
        report = rollback_improvement(interaction_id, work_dir=work_dir, constitution=constitution, approved=True)
        if not report.ok:
            problem = f"{interaction_id}: {report.message}"
            break
        done.append(interaction_id)
    message = "; ".join(part for part in (f"taken back: {', '.join(done)}" if done else "", problem) if part)
    status = ImplementationStatus.FAILED_ROLLBACK if problem else ImplementationStatus.SUCCESS_ROLLED_BACK
    data = ImprovementData(
        operation_type=OperationType.IMPROVE_SELF,
        target_path=SELF_FILE,
        cycles_configured=count,
        cycles_attempted=len(wanted),
        final_status=status,
        message=message,
        cycle_results=tuple(_cycle(number, status) for number, _ in enumerate(done, 1)),
    )
    ended = ImprovementStatus.FAILURE if problem else ImprovementStatus.SUCCESS
    return ImprovementResult(status=ended, message=message, data=data)


def _cycle(number: int, status: ImplementationStatus) -> CycleResult:
    return CycleResult(
        cycle=number,
        target_path=SELF_FILE,
        is_self=True,
        implementation_status=status,
        code_updated_requires_restart=True,
    )


def _is_of_self(folder: Path) -> bool:
    data = read_file(folder / RESULT_FILE, MAX_RESULT_BYTES)
    result = None if data is None else parse_result(data)[0]
    return result is not None and result.data.operation_type is OperationType.IMPROVE_SELF
