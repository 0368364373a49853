"""The words of agent sessions: their environment, their policy, what they are told and what they tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import Any

from mindx.core.action import ActionType
from mindx.core.frozen import dataclass


class SessionState(str, Enum):
    """Where a session stands."""

    CREATED = "created"
    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"  # a run waits for the user, or can be continued
    CLOSING = "closing"
    CLOSED = "closed"
    FAILED = "failed"


class SessionCommandType(str, Enum):
    """What a session can be told."""

    START_RUN = "start_run"
    CONTINUE_RUN = "continue_run"
    APPEND_USER_MESSAGE = "append_user_message"
    SUBMIT_USER_INPUT = "submit_user_input"
    CANCEL_RUN = "cancel_run"
    CLOSE_SESSION = "close_session"
    RUN_FINISHED = "run_finished"  # its own run tells it


class SessionEventType(str, Enum):
    """What a session tells."""

    SESSION_READY = "session_ready"
    RUN_ACCEPTED = "run_accepted"
    AGENT_EVENT = "agent_event"
    USER_MESSAGE_APPENDED = "user_message_appended"
    RUN_INTERRUPTED = "run_interrupted"
    RUN_COMPLETED = "run_completed"
    CONTINUATION_REQUIRED = "continuation_required"
    COMMAND_REJECTED = "command_rejected"
    SESSION_CLOSED = "session_closed"


@dataclass(frozen=True, slots=True)
class SessionCommand:
    """One thing a session is told."""

    command_type: SessionCommandType
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """One thing a session tells. `payload` may hold objects (`result`: an AgentResult, `event`: an AgentEvent)."""

    event_type: SessionEventType
    session_id: str
    seq: int
    payload: Mapping[str, Any] = field(default_factory=dict)
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class SessionEnvironment:
    """What a session works with: a folder that is copied into its container (None: an empty one), variables and names.

    `memory_namespace` "" means the session's own.
    """

    workspace_root: Path | None = None
    env_vars: Mapping[str, str] = field(default_factory=dict)
    memory_namespace: str = ""


@dataclass(frozen=True, slots=True)
class SessionPolicy:
    """What a session may do; None means no limit of its own. It can only take away from what others allow."""

    allowed_action_types: frozenset[ActionType] | None = None
    allowed_tools: frozenset[str] | None = None
    allow_write: bool = True
    allow_dangerous: bool = False
    allow_network: bool = False
    max_parallel_actions: int = 1

    def intersect(self, other: SessionPolicy) -> SessionPolicy:
        """Return what both allow."""
        return SessionPolicy(
            _both(self.allowed_action_types, other.allowed_action_types),
            _both(self.allowed_tools, other.allowed_tools),
            self.allow_write and other.allow_write,
            self.allow_dangerous and other.allow_dangerous,
            self.allow_network and other.allow_network,
            min(self.max_parallel_actions, other.max_parallel_actions),
        )


def _both(one: frozenset[Any] | None, other: frozenset[Any] | None) -> frozenset[Any] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other
