"""Errors of a run as values: a code, the phase, whether trying again makes sense, and details."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any

from mindx.core.frozen import dataclass
from mindx.errors import MindxError


class ErrorCode(str, Enum):
    """What went wrong."""

    ACTION_REJECTED = "action_rejected"  # the policy says no
    ACTION_TYPE_UNSUPPORTED = "action_type_unsupported"
    ACTION_EXECUTION_FAILED = "action_execution_failed"
    ACTION_TIMEOUT = "action_timeout"
    BATCH_TIMEOUT = "batch_timeout"
    ACTION_CANCELLED = "action_cancelled"
    ACTION_OUTCOME_UNKNOWN = "action_outcome_unknown"  # it was started and its end was never recorded
    HUMAN_APPROVAL_UNAVAILABLE = "human_approval_unavailable"
    HUMAN_APPROVAL_REJECTED = "human_approval_rejected"
    INVALID_DECISION = "invalid_decision"
    MAX_STEPS_EXCEEDED = "max_steps_exceeded"
    STEP_TIMEOUT = "step_timeout"
    RUN_TIMEOUT = "run_timeout"
    BUDGET_REACHED = "budget_reached"  # of an agent with goals: cycles, tokens, seconds or commands
    GOAL_FAILED = "goal_failed"
    STATE_FAILED = "state_failed"  # what outlives the run cannot be read or written
    CANCELLED = "cancelled"
    PROVIDER_FAILED = "provider_failed"
    SANDBOX_FAILED = "sandbox_failed"
    WORKER_FAILED = "worker_failed"  # the process of a sub-agent
    INTERNAL_ERROR = "internal_error"


class ErrorPhase(str, Enum):
    """Where in a run it went wrong."""

    CONTEXT = "context"
    REASONING = "reasoning"
    POLICY = "policy"
    APPROVAL = "approval"
    ACTION_EXECUTION = "action_execution"
    OBSERVATION = "observation"
    CONTEXT_UPDATE = "context_update"
    RUNTIME = "runtime"


@dataclass(frozen=True, slots=True)
class AgentError:
    """`recoverable` is True when the run can go on, or the same call may succeed later. `details` are JSON values."""

    code: ErrorCode
    message: str
    phase: ErrorPhase = ErrorPhase.RUNTIME
    recoverable: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "code": self.code.value,
            "message": self.message,
            "phase": self.phase.value,
            "recoverable": self.recoverable,
            "details": dict(self.details),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> AgentError:
        """Return what `to_dict` was called on. Raises KeyError and ValueError for anything else."""
        return cls(
            ErrorCode(value["code"]),
            str(value["message"]),
            ErrorPhase(value["phase"]),
            bool(value["recoverable"]),
            dict(value["details"]),
        )

    @classmethod
    def of(cls, code: ErrorCode, error: BaseException, phase: ErrorPhase) -> AgentError:
        """Return an exception as a value. Of one that is not mindx's own only the type is told, not the text."""
        if isinstance(error, MindxError):
            return cls(code, error.message, phase, error.recoverable, {"code": error.code, **error.details})
        return cls(code, f"mindx made a mistake here ({type(error).__name__})", phase, False)
