"""One task of an orchestrator: what it is, where it stands, and what can be seen of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from mindx.agents.place import Place
from mindx.agents.worker import AgentWorkerSpec, Bounds
from mindx.core.agent_error import AgentError, ErrorCode, ErrorPhase
from mindx.core.agent_result import AgentResult
from mindx.core.agent_state import AgentState
from mindx.core.checkpoint import RunOutcome


class AgentTaskState(str, Enum):
    """Where a task stands; how it ended is its result's outcome."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


class AgentTaskEventType(str, Enum):
    """What an orchestrator tells."""

    TASK_QUEUED = "task_queued"
    TASK_STARTED = "task_started"
    TASK_CANCELLING = "task_cancelling"
    TASK_ENDED = "task_ended"


@dataclass(frozen=True, slots=True)
class AgentTaskEvent:
    """One fact of one task. `seq` counts from 0; a gap tells how many were dropped. `payload` holds JSON values."""

    seq: int
    event_type: AgentTaskEventType
    task_id: str
    agent: str
    parent_id: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentTaskView:
    """What can be seen of a task. `depth` is 1 for one without a parent; `outcome` None until it has ended."""

    task_id: str
    agent: str
    task: str
    parent_id: str
    depth: int
    background: bool
    depends_on: tuple[str, ...]
    children: tuple[str, ...]
    state: AgentTaskState
    outcome: RunOutcome | None = None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "task_id": self.task_id,
            "agent": self.agent,
            "task": self.task,
            "parent_id": self.parent_id,
            "depth": self.depth,
            "background": self.background,
            "depends_on": list(self.depends_on),
            "state": self.state.value,
            "outcome": None if self.outcome is None else self.outcome.value,
            "error": self.error,
        }


@dataclass(slots=True, eq=False)
class TaskRecord:
    """The orchestrator's own record of a task; `work` gives its result and never raises."""

    task_id: str
    spec: AgentWorkerSpec
    task: str
    bounds: Bounds
    place: Place
    parent: TaskRecord | None = None
    background: bool = False
    depends_on: tuple[str, ...] = ()
    children: list[TaskRecord] = field(default_factory=list)
    state: AgentTaskState = AgentTaskState.QUEUED
    closing: bool = False  # no more children: it was cancelled, or its own run has ended
    result: AgentResult | None = None
    work: asyncio.Task[AgentResult] | None = None

    @property
    def depth(self) -> int:
        """1 for a task without a parent."""
        return 1 if self.parent is None else self.parent.depth + 1

    @property
    def ended(self) -> bool:
        """True when its result is there."""
        return self.result is not None

    @property
    def all_ended(self) -> bool:
        """True when it and all below it have ended."""
        return self.ended and all(child.all_ended for child in self.children)

    def view(self) -> AgentTaskView:
        """Return what can be seen of it now."""
        return AgentTaskView(
            self.task_id,
            self.spec.name,
            self.task,
            "" if self.parent is None else self.parent.task_id,
            self.depth,
            self.background,
            self.depends_on,
            tuple(child.task_id for child in self.children),
            self.state,
            None if self.result is None else self.result.outcome,
            None if self.result is None else self.result.error,
        )

    def is_below(self, other: TaskRecord) -> bool:
        """Return whether `other` is this task or one of its ancestors."""
        return self is other or (self.parent is not None and self.parent.is_below(other))


def unrun(task_id: str, error: Exception | None = None) -> AgentResult:
    """Return the result of a task that never came to run: cancelled before, or refused by its runtime."""
    if error is None:
        info = AgentError(ErrorCode.CANCELLED, "the task was cancelled", ErrorPhase.RUNTIME)
        return AgentResult(task_id, RunOutcome.CANCELLED, AgentState.CANCELLED, error_info=info)
    info = AgentError.of(ErrorCode.INTERNAL_ERROR, error, ErrorPhase.RUNTIME)
    return AgentResult(task_id, RunOutcome.ERROR, AgentState.ERROR, error_info=info)
