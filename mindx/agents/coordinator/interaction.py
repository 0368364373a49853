"""Interactions: what one agent (or a person) asks of the system, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mindx.agents.constitution import Act
from mindx.core.quote import quoted
from mindx.errors import InputError

MAX_CONTENT = 100_000  # characters
MAX_METADATA_BYTES = 1024 * 1024
MAX_RESPONSE_BYTES = 16 * 1024 * 1024  # more than an improvement agent may answer
MAX_HISTORY = 200


class InteractionType(str, Enum):
    """What is asked."""

    QUERY = "query"
    SYSTEM_ANALYSIS = "system_analysis"
    COMPONENT_IMPROVEMENT = "component_improvement"
    AGENT_REGISTRATION = "agent_registration"
    PUBLISH_EVENT = "publish_event"
    VERIFY_TASK = "verify_task"
    APPROVE_IMPROVEMENT = "approve_improvement"
    REJECT_IMPROVEMENT = "reject_improvement"
    ROLLBACK_COMPONENT = "rollback_component"

    @property
    def act(self) -> Act:
        """The Constitution's word for asking this."""
        return Act(f"request.{self.value}")


class InteractionStatus(str, Enum):
    """How an Interaction stands."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    PENDING_APPROVAL = "pending_approval"  # a person has to say yes first
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"  # the host died in the middle: what was done by then is not known, nothing is repeated

    @property
    def ended(self) -> bool:
        """True when nothing more will happen to it by itself."""
        return self not in (self.PENDING, self.IN_PROGRESS, self.PENDING_APPROVAL)


class HistoryEntry(BaseModel):
    """One thing that happened to an Interaction."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: str
    message: str
    timestamp: datetime
    data: dict[str, Any] = {}


class InteractionError(BaseModel):
    """Why an Interaction failed; `exit_code` is what the command line gives for it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str
    message: str
    exit_code: int = 1
    details: dict[str, Any] = {}


class Interaction(BaseModel):
    """One request. `user_id` is a person's and `agent_id` an agent's; exactly one of them is given.

    `key` makes it idempotent: the same key of the same asker is the same Interaction. `response` is plain JSON, None
    until there is one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    interaction_id: str
    interaction_type: InteractionType
    content: str = Field(max_length=MAX_CONTENT)
    user_id: str | None = None
    agent_id: str | None = None
    metadata: dict[str, Any] = {}
    key: str | None = None
    status: InteractionStatus = InteractionStatus.PENDING
    response: Any = None
    error: InteractionError | None = None
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    history: tuple[HistoryEntry, ...] = ()

    @property
    def ok(self) -> bool:
        """True when it was done."""
        return self.status is InteractionStatus.COMPLETED

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Interaction:
        """Return what `to_dict` was called on. Raises pydantic's ValidationError for anything else."""
        return cls.model_validate(value)

    def with_entry(self, role: str, message: str, at: datetime, **data: Any) -> Interaction:
        """Return it with one more line of history; of a very long history the oldest lines go."""
        entry = HistoryEntry(role=role, message=message, timestamp=at, data=data)
        return self.model_copy(update={"history": (*self.history, entry)[-MAX_HISTORY:]})


def plain_json(value: Any, what: str, max_bytes: int, code: str = "interaction_invalid") -> Any:
    """Return the value as JSON gives it back. Raises InputError with this code: it is no JSON, or too large."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        size = len(text.encode("utf-8"))  # half a surrogate pair is no text
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(code, f"the {what} is no plain JSON: {quoted(str(error), 200)}") from None
    if size > max_bytes:
        raise InputError(code, f"the {what} has {size:,} bytes, at most {max_bytes:,} are kept; write it to a file")
    return json.loads(text)
