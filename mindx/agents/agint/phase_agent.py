"""The BDI agent of one phase: it always runs in the mission's container."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mindx.agents.bdi import BDIAgent, BDIResult, Goal
from mindx.core.protocols import EventHandler, HumanApprovalHandler
from mindx.runtime.lazy_sandbox import LazySandbox


class PhaseAgent:
    """A BDI agent as AGInt needs it."""

    def __init__(
        self,
        agent: BDIAgent,
        box: LazySandbox,
        approval_handler: HumanApprovalHandler | None = None,
        event_handler: EventHandler | None = None,
    ) -> None:
        self._agent, self._box = agent, box
        self._approve, self._hear = approval_handler, event_handler

    @property
    def goal(self) -> Goal | None:
        """The goal that it has from before, or None."""
        return self._agent.goal

    def set_goal(self, text: str, criteria: Sequence[Any] = (), priority: int = 100) -> Goal:
        """Give it its goal. Raises InputError."""
        return self._agent.set_goal(text, criteria, priority)

    async def run(self) -> BDIResult:
        """Pursue the goal to an end."""
        return await self._agent.run(box=self._box, approval_handler=self._approve, event_handler=self._hear)

    async def close(self) -> None:
        """Let go of its state."""
        await self._agent.close()
