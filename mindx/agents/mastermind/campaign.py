"""A campaign: Mastermind's long work on one directive, what was found in it, and what came of it."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

MAX_DIRECTIVE = 20_000  # characters
MAX_SUMMARY = 4000
DEFAULT_DIRECTIVE = (
    "Proactively evolve the mindx system: look at what it is and does, find the most useful tool that it lacks, have "
    "it developed and tested, and register it."
)


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CampaignStatus(str, Enum):
    """How a campaign stands."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED_INCOMPLETE = "FAILED_INCOMPLETE"
    PARTIAL = "PARTIAL"  # a budget was reached; it can be taken up again
    STOPPED = "STOPPED"  # by a person or a signal; it can be taken up again

    @property
    def ended(self) -> bool:
        """True when nothing is being done any more."""
        return self not in (self.PENDING, self.RUNNING)


class CampaignBudget(_Record):
    """What campaigns may spend; only the operator sets it.

    `max_per_day` bounds all campaigns of a state folder, `repeat_after_s` how soon the autonomous worker begins the
    same directive again after it was completed.
    """

    max_bdi_cycles: int = Field(default=25, ge=1, le=10_000)
    max_seconds: float = Field(default=3600.0, gt=0)
    max_tokens: int = Field(default=2_000_000, ge=1)
    max_developments: int = Field(default=3, ge=0, le=100)
    max_per_day: int = Field(default=24, ge=1, le=100_000)
    repeat_after_s: float = Field(default=86_400.0, ge=0)


class Development(_Record):
    """One attempt at a tool that a campaign had developed; the Coordinator's Interaction tells all of it.

    `status` is the Interaction's, "" before it ended; `problem` says why it came to nothing, or is "". `registered`
    and `used` are what the registry and the tool itself showed, not what a plan claims.
    """

    tool_id: str
    version: str
    attempt: int = 1
    interaction_id: str = ""
    status: str = ""
    problem: str = Field(default="", max_length=MAX_SUMMARY)
    sha256: str = ""
    registered: bool = False
    used: bool = False

    @property
    def succeeded(self) -> bool:
        """True when the code is there and passed its tests."""
        return self.status == "completed" and not self.problem


class CampaignOutcome(_Record):
    """How it ended. `final_bdi_status` is that of the subordinate BDI agent."""

    final_bdi_status: str = ""
    summary: str = Field(default="", max_length=MAX_SUMMARY)
    error_code: str = ""
    exit_code: int = 0


class StrategicCampaign(_Record):
    """One campaign. `facts` hold the latest result of each meta-action, for the steps that need it."""

    campaign_id: str
    directive: str = Field(min_length=1, max_length=MAX_DIRECTIVE)
    campaign_type: str = "SYSTEM_EVOLUTION"
    status: CampaignStatus = CampaignStatus.PENDING
    autonomous: bool = False
    created_at: float = 0.0
    completed_at: float | None = None
    outcome: CampaignOutcome | None = None
    sub_tasks: tuple[Development, ...] = Field(default=(), max_length=100)
    cycles: int = 0
    max_bdi_cycles: int = 25
    seconds: float = 0.0
    usage: dict[str, int] = {}
    facts: dict[str, Any] = {}

    def with_development(self, changed: Development) -> StrategicCampaign:
        """Return the campaign with this attempt, in the place of what was known of it."""
        name = (changed.tool_id, changed.version, changed.attempt)
        same = [(one.tool_id, one.version, one.attempt) == name for one in self.sub_tasks]
        if not any(same):
            return self.model_copy(update={"sub_tasks": (*self.sub_tasks, changed)})
        tasks = tuple(changed if hit else one for hit, one in zip(same, self.sub_tasks, strict=True))
        return self.model_copy(update={"sub_tasks": tasks})

    def development(self, tool_id: str) -> Development | None:
        """Return the latest attempt at a tool, or None."""
        return next((one for one in reversed(self.sub_tasks) if one.tool_id == tool_id), None)

    @property
    def told(self) -> dict[str, Any]:
        """The campaign as its history keeps it: all but the facts."""
        return self.model_dump(mode="json", exclude={"facts"})
