"""One idea for making a component better, from its first mention to what became of it."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

MAX_SUGGESTION = 20_000  # characters
MAX_PATH = 1024
MAX_NOTE = 8000
SAME_CHARS = 70  # two suggestions for one target that begin with the same 70 characters are one


class BacklogStatus(str, Enum):
    """How an item stands."""

    PENDING = "pending"
    PENDING_APPROVAL = "pending_approval"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"  # all its attempts failed
    REJECTED_MANUAL = "rejected_manual"
    INTERRUPTED = "interrupted"  # the host died in the middle; only a person sets it going again
    ROLLED_BACK = "rolled_back"


# An idea that is open, that a person has refused or taken back, or whose outcome nobody knows does not come back.
BLOCKS_SAME = frozenset(
    {
        BacklogStatus.PENDING,
        BacklogStatus.PENDING_APPROVAL,
        BacklogStatus.IN_PROGRESS,
        BacklogStatus.REJECTED_MANUAL,
        BacklogStatus.INTERRUPTED,
        BacklogStatus.ROLLED_BACK,
    }
)
OPEN = frozenset({BacklogStatus.PENDING, BacklogStatus.PENDING_APPROVAL, BacklogStatus.IN_PROGRESS})


class WaitsFor(str, Enum):
    """What a person is asked: may the work begin, or may its finished change be applied."""

    NOTHING = ""
    WORK = "work"
    CHANGE = "change"


class BacklogItem(BaseModel):
    """One item. `priority` is 1 to 10, 10 the most urgent.

    `interaction_id` is the Interaction that does it (or did it last), "" before there is one. `approved_*` speak of the
    work, `change_approved_*` of its finished change, whose digest is `change_sha256`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    item_id: str
    target_component_path: str = Field(min_length=1, max_length=MAX_PATH)
    suggestion: str = Field(min_length=1, max_length=MAX_SUGGESTION)
    priority: int = Field(default=5, ge=1, le=10)
    status: BacklogStatus = BacklogStatus.PENDING
    waits_for: WaitsFor = WaitsFor.NOTHING
    source: str = Field(default="", max_length=200)
    is_critical_target: bool = False
    added_at: datetime
    attempt_count: int = Field(default=0, ge=0)
    last_attempted_at: datetime | None = None
    last_failed_at: datetime | None = None
    approved_at: datetime | None = None
    approved_by: str | None = None
    change_sha256: str = ""
    change_approved_at: datetime | None = None
    change_approved_by: str | None = None
    rejected_at: datetime | None = None
    rejected_by: str | None = None
    rejection_reason: str = Field(default="", max_length=MAX_NOTE)
    sia_final_op_status: str = ""
    sia_message: str = Field(default="", max_length=MAX_NOTE)
    sia_error: str = Field(default="", max_length=MAX_NOTE)
    interaction_id: str = ""

    @property
    def same_as(self) -> tuple[str, str]:
        """What makes two items one: the target, and how the suggestion begins."""
        words = " ".join(self.suggestion.split()).casefold()
        return self.target_component_path.casefold(), words[:SAME_CHARS]

    def summary(self) -> dict[str, Any]:
        """Return what a list of items tells, as plain values."""
        return {
            "item_id": self.item_id,
            "target_component_path": self.target_component_path,
            "suggestion": self.suggestion[:300],
            "priority": self.priority,
            "status": self.status.value,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return self.model_dump(mode="json")
