"""Events of a run: one fact each, numbered, with the event that caused it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any

from mindx.core.frozen import dataclass


class AgentEventType(str, Enum):
    """What happened."""

    STATE_CHANGED = "state_changed"
    CONTEXT_PACKED = "context_packed"
    TEXT_DELTA = "text_delta"
    HEARTBEAT = "heartbeat"
    DECISION_CREATED = "decision_created"
    ACTION_VALIDATED = "action_validated"
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_RECEIVED = "approval_received"
    ACTION_STARTED = "action_started"
    ACTION_PROGRESS = "action_progress"
    ACTION_FINISHED = "action_finished"
    ACTION_CANCELLED = "action_cancelled"
    OBSERVATION_CREATED = "observation_created"
    USER_INPUT_REQUESTED = "user_input_requested"
    USER_INPUT_RECEIVED = "user_input_received"
    MIND_CHANGED = "mind_changed"  # an agent with goals: one was chosen, planned for, achieved or given up
    COMPLETION_ACCEPTED = "completion_accepted"
    COMPLETION_REJECTED = "completion_rejected"
    CHECKPOINT_CREATED = "checkpoint_created"
    FINAL_CREATED = "final_created"
    ERROR_CREATED = "error_created"
    RUN_FINISHED = "run_finished"  # always the last one of a run
    UNKNOWN = "unknown"  # only in a replay: a type that this version does not know


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """One fact. `seq` counts from 0 in its run; `time` is UTC text; `step` counts from 1, 0 before the first.

    `payload` holds JSON values. `cause_id` is the `event_id` of what led to it, "" for the first.
    """

    event_type: AgentEventType
    run_id: str
    seq: int
    time: str
    step: int = 0
    payload: Mapping[str, Any] = field(default_factory=dict)
    cause_id: str = ""
    session_id: str = ""

    @property
    def event_id(self) -> str:
        """`<run_id>:<seq>`."""
        return f"{self.run_id}:{self.seq}"
