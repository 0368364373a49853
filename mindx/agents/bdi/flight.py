"""What a mind asked for and whose result comes next, and what one run did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from mindx.agents.bdi.goals import Goal
from mindx.agents.bdi.intention import SMALL, Intention


class Awaited(str, Enum):
    """What kind of thing was asked for."""

    STEP = "step"
    QUESTION = "question"  # a step's own
    DOUBT = "doubt"  # a question that a recovery put
    CRITERIA = "criteria"
    CLAIM = "claim"  # that all is done


@dataclass(frozen=True, slots=True)
class Flight:
    """One decision on its way. `index` is of the plan's step, -1 for none; `began` is when, on the mind's clock."""

    awaited: Awaited
    goal: Goal
    plan: Intention | None = None
    index: int = -1
    began: float = 0.0

    @property
    def waits_for_user(self) -> bool:
        """True while a person is asked."""
        return self.awaited in (Awaited.QUESTION, Awaited.DOUBT)


@dataclass(slots=True)
class RunNotes:
    """What one run did: its plans, the results by action_id, the evidence for criteria, what its models counted."""

    plan_ids: list[str] = field(default_factory=list)
    results: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    evidence: dict[str, tuple[str, ...]] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)
    cycles: int = 0
    answer: str = ""

    def note(self, action_id: str, result: Mapping[str, Any]) -> None:
        """Keep a result; of one over 64 KiB only its status."""
        small = len(str(result)) <= SMALL
        kept = result if small else {"status": result.get("status"), "note": "too large to keep"}
        self.results[action_id] = kept
