"""The task ledger: what a task is about, on which folder, and how its latest run stands. One writer at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from mindx.core.checkpoint import TaskConstraint, TaskState
from mindx.core.decision import AcceptanceCriterion
from mindx.core.nearest import nearest_id
from mindx.core.quote import quoted
from mindx.errors import InputError
from mindx.runtime.run_ids import checked_id
from mindx.runtime.tasks.atomic import load_all, locked, names_in, read_file, replace_file

VERSION = 1
MAX_LEDGER_BYTES = 4 * 1024 * 1024
MAX_OBJECTIVE_CHARS = 100_000


class TaskStatus(str, Enum):
    """How a task stands."""

    ACTIVE = "active"  # a run goes on, or its process died in the middle
    COMPLETED = "completed"
    PARTIAL = "partial"  # its run reached a limit
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class LatestRun:
    """How the latest run of a task stands. `outcome` and `ended_at` are "" while it goes on."""

    run_id: str
    started_at: str
    session_id: str = ""
    outcome: str = ""
    ended_at: str = ""
    steps: int = 0
    error: str = ""
    progress_summary: str = ""
    next_step: str = ""
    unknown_action_ids: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        names = ("run_id", "started_at", "session_id", "outcome", "ended_at", "steps", "error")
        value: dict[str, Any] = {name: getattr(self, name) for name in names}
        value["progress_summary"], value["next_step"] = self.progress_summary, self.next_step
        value["unknown_action_ids"] = list(self.unknown_action_ids)
        return value

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> LatestRun:
        """Return what `to_dict` was called on. Raises KeyError, ValueError and TypeError for anything else."""
        texts = ("run_id", "started_at", "session_id", "outcome", "ended_at", "error", "progress_summary", "next_step")
        return cls(
            **{name: str(value[name]) for name in texts},
            steps=int(value["steps"]),
            unknown_action_ids=tuple(map(str, value["unknown_action_ids"])),
        )


@dataclass(frozen=True, slots=True)
class TaskLedger:
    """One task. `objective` never changes; `revision` counts the saves, so that no writer overwrites what it never saw.

    `workspace` is the folder of the host, None for an empty one.
    """

    task_id: str
    objective: str
    workspace: str | None = None
    status: TaskStatus = TaskStatus.ACTIVE
    revision: int = 0
    created_at: str = ""
    run_count: int = 0
    latest_run: LatestRun | None = None
    criteria: tuple[AcceptanceCriterion, ...] = field(default=())
    constraints: tuple[TaskConstraint, ...] = field(default=())

    @property
    def task_state(self) -> TaskState:
        """The state that a run of this task begins with."""
        return TaskState(self.objective, self.constraints, self.criteria)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "version": VERSION,
            "task_id": self.task_id,
            "objective": self.objective,
            "workspace": self.workspace,
            "status": self.status.value,
            "revision": self.revision,
            "created_at": self.created_at,
            "run_count": self.run_count,
            "latest_run": None if self.latest_run is None else self.latest_run.to_dict(),
            "criteria": [[item.criterion_id, item.description, item.required] for item in self.criteria],
            "constraints": [[item.constraint_id, item.description] for item in self.constraints],
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> TaskLedger:
        """Return what `to_dict` was called on. Raises KeyError, ValueError and TypeError for anything else."""
        if value["version"] != VERSION or not isinstance(value["objective"], str):
            raise ValueError(f"version {value['version']!r}")
        run, workspace = value["latest_run"], value["workspace"]
        return cls(
            str(value["task_id"]),
            value["objective"],
            None if workspace is None else str(workspace),
            TaskStatus(value["status"]),
            int(value["revision"]),
            str(value["created_at"]),
            int(value["run_count"]),
            None if run is None else LatestRun.from_dict(run),
            tuple(AcceptanceCriterion(*item) for item in value["criteria"]),
            tuple(TaskConstraint(*item) for item in value["constraints"]),
        )


class LocalTaskLedgerStore:
    """Ledgers in `folder`: `<task_id>/ledger.json`, replaced as a whole.

    Raises InputError: id_invalid, task_in_use, task_unknown, task_ledger_corrupt; and StateError.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def path(self, task_id: str) -> Path:
        """Return the folder of a task. Raises InputError (id_invalid)."""
        return self.folder / checked_id(task_id, "task id")

    @contextmanager
    def writing(self, task_id: str) -> Iterator[None]:
        """Be the one writer of a task. Raises InputError (task_in_use) when another process or coordinator is."""
        busy = InputError("task_in_use", f"the task {task_id} is being worked on already; wait, or use another id")
        with locked(self.path(task_id) / "lock", busy):
            yield

    def load(self, task_id: str) -> TaskLedger | None:
        """Return the ledger, None when there is no such task."""
        path = self.path(task_id) / "ledger.json"
        data = read_file(path, MAX_LEDGER_BYTES)
        if data is None:
            return None
        try:
            found = TaskLedger.from_dict(json.loads(data))
            if found.task_id != task_id:
                raise ValueError(f"it is the ledger of {quoted(found.task_id)}")
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
            reason = f"{type(error).__name__}: {str(error)[:200]}"
            message = f"the ledger {path} is damaged ({reason}); it was left as it is: mend it, or begin a new task"
            raise InputError("task_ledger_corrupt", message, details={"path": str(path)}) from None
        return found

    def get(self, task_id: str) -> TaskLedger:
        """Return the ledger. Raises InputError (task_unknown)."""
        found = self.load(task_id)
        if found is None:
            hint = nearest_id(task_id, names_in(self.folder), "`mindx task list` names them")
            raise InputError("task_unknown", f"there is no task {quoted(task_id)}; {hint}")
        return found

    def save(self, ledger: TaskLedger) -> TaskLedger:
        """Write the ledger with the next revision and return it; call it inside `writing`.

        Raises InputError (task_revision_old) when somebody has saved another one since this was loaded.
        """
        present = self.load(ledger.task_id)
        if (0 if present is None else present.revision) != ledger.revision:
            raise InputError("task_revision_old", f"the task {ledger.task_id} was changed by somebody else meanwhile")
        value = {**ledger.to_dict(), "revision": ledger.revision + 1}
        data = json.dumps(value, indent=1).encode("ascii") + b"\n"
        if len(data) > MAX_LEDGER_BYTES:
            raise InputError("task_too_large", f"the ledger would have more than {MAX_LEDGER_BYTES:,} bytes")
        replace_file(self.path(ledger.task_id) / "ledger.json", data)
        return TaskLedger.from_dict(value)

    def list(self) -> tuple[TaskLedger, ...]:
        """Return all tasks, the latest first; a damaged one is left out."""
        return tuple(sorted(load_all(self.folder, self.load), key=lambda one: one.created_at, reverse=True))
