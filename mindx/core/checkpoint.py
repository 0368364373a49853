"""How a run ends, and the checkpoint from which another run can go on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

from mindx.core.decision import AcceptanceCriterion
from mindx.core.frozen import dataclass


class RunOutcome(str, Enum):
    """How an agent's run ended; AgentState says where it stood."""

    FINAL = "final"
    PARTIAL = "partial"  # a limit was reached; it can be continued
    ERROR = "error"
    CANCELLED = "cancelled"


class BoundaryScope(str, Enum):
    """What reached its limit."""

    STEP = "step"
    RUN = "run"


class BoundaryReason(str, Enum):
    """Which limit it was."""

    MAX_STEPS = "max_steps"
    STEP_TIMEOUT = "step_timeout"
    RUN_TIMEOUT = "run_timeout"
    BUDGET = "budget"  # of an agent with goals
    INTERRUPTED = "interrupted"  # the host process ended in the middle


@dataclass(frozen=True, slots=True)
class ExecutionBoundary:
    """The limit that a run reached: `limit` in steps or seconds."""

    scope: BoundaryScope
    reason: BoundaryReason
    limit: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskConstraint:
    """A rule that the work must keep."""

    constraint_id: str
    description: str


@dataclass(frozen=True, slots=True)
class TaskState:
    """What the work is about and how far it has come; every run of a task inherits it and none changes `objective`."""

    objective: str
    constraints: tuple[TaskConstraint, ...] = ()
    criteria: tuple[AcceptanceCriterion, ...] = ()
    completed_action_ids: tuple[str, ...] = ()
    unknown_action_ids: tuple[str, ...] = ()
    progress_summary: str = ""
    next_step: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "objective": self.objective,
            "constraints": [[item.constraint_id, item.description] for item in self.constraints],
            "criteria": [[item.criterion_id, item.description, item.required] for item in self.criteria],
            "completed_action_ids": list(self.completed_action_ids),
            "unknown_action_ids": list(self.unknown_action_ids),
            "progress_summary": self.progress_summary,
            "next_step": self.next_step,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> TaskState:
        """Return what `to_dict` was called on. Raises KeyError and TypeError for anything else."""
        return cls(
            str(value["objective"]),
            tuple(TaskConstraint(*item) for item in value["constraints"]),
            tuple(AcceptanceCriterion(*item) for item in value["criteria"]),
            tuple(value["completed_action_ids"]),
            tuple(value["unknown_action_ids"]),
            str(value["progress_summary"]),
            str(value["next_step"]),
        )


@dataclass(frozen=True, slots=True)
class ContinuationCheckpoint:
    """Where a run stopped. Make it with `build`: the same facts always give the same `checkpoint_id`.

    `unknown_action_ids` are Actions that were started and whose end nobody knows; they are told to the model and never
    repeated by mindx. `created_at` (UTC text) is no part of the id.
    """

    checkpoint_id: str
    source_run_id: str
    objective: str
    step_index: int
    completed_action_ids: tuple[str, ...]
    evidence_ids: tuple[str, ...]
    artifact_ids: tuple[str, ...]
    progress_summary: str
    next_step: str
    boundary: ExecutionBoundary
    unknown_action_ids: tuple[str, ...] = ()
    created_at: str = ""

    @classmethod
    def build(cls, *, created_at: str = "", **facts: Any) -> ContinuationCheckpoint:
        """Return the checkpoint of these facts (the fields), with its id."""
        draft = cls(checkpoint_id="", created_at="", **facts)
        text = json.dumps(draft.to_dict(), sort_keys=True, ensure_ascii=True)
        return cls(f"ckpt_{hashlib.sha256(text.encode()).hexdigest()[:20]}", created_at=created_at, **facts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "checkpoint_id": self.checkpoint_id,
            "source_run_id": self.source_run_id,
            "objective": self.objective,
            "step_index": self.step_index,
            "completed_action_ids": list(self.completed_action_ids),
            "unknown_action_ids": list(self.unknown_action_ids),
            "evidence_ids": list(self.evidence_ids),
            "artifact_ids": list(self.artifact_ids),
            "progress_summary": self.progress_summary,
            "next_step": self.next_step,
            "boundary": {
                "scope": self.boundary.scope.value,
                "reason": self.boundary.reason.value,
                "limit": self.boundary.limit,
            },
            "created_at": self.created_at,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> ContinuationCheckpoint:
        """Return what `to_dict` was called on. Raises KeyError and ValueError for anything else."""
        limit = value["boundary"]
        return cls(
            checkpoint_id=str(value["checkpoint_id"]),
            source_run_id=str(value["source_run_id"]),
            objective=str(value["objective"]),
            step_index=int(value["step_index"]),
            completed_action_ids=tuple(value["completed_action_ids"]),
            evidence_ids=tuple(value["evidence_ids"]),
            artifact_ids=tuple(value["artifact_ids"]),
            progress_summary=str(value["progress_summary"]),
            next_step=str(value["next_step"]),
            boundary=ExecutionBoundary(
                BoundaryScope(limit["scope"]), BoundaryReason(limit["reason"]), float(limit["limit"])
            ),
            unknown_action_ids=tuple(value["unknown_action_ids"]),
            created_at=str(value["created_at"]),
        )
