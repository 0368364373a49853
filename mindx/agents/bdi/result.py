"""What pursuing goals came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mindx.agents.bdi.status import BDIStatus
from mindx.core.agent_error import ErrorCode
from mindx.core.agent_result import AgentResult
from mindx.errors import MindxError


class GoalFailedError(MindxError):
    """A goal could not be reached. Code: goal_failed; `details` has its goal_id and the agent's status."""

    def __init__(self, status: BDIStatus, goal_id: str, message: str) -> None:
        details = {"status": status.value, "goal_id": goal_id}
        super().__init__(ErrorCode.GOAL_FAILED.value, message, details=details)


@dataclass(frozen=True, slots=True)
class BDIResult:
    """How a run of a BDI agent ended.

    `message` is the answer when the goal was achieved, else why it was not. `results` has the result of each step that
    was done, by action_id, in order. `cycles` and `usage` count this run alone; `run` is the loop's own result.
    """

    status: BDIStatus
    goal_id: str
    plan_ids: tuple[str, ...] = ()
    cycles: int = 0
    message: str = ""
    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    usage: Mapping[str, int] = field(default_factory=dict)
    run_id: str = ""
    run: AgentResult | None = None

    @property
    def achieved(self) -> bool:
        """True only for GOAL_ACHIEVED."""
        return self.status is BDIStatus.GOAL_ACHIEVED

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "status": self.status.value,
            "goal_id": self.goal_id,
            "plan_ids": list(self.plan_ids),
            "cycles": self.cycles,
            "message": self.message,
            "results": {name: dict(result) for name, result in self.results.items()},
            "usage": dict(self.usage),
            "run_id": self.run_id,
        }
