"""What a mind decides, for the run's record: goals, plans, refusals, failures and the ways on."""

from __future__ import annotations

from typing import Any

from mindx.core.agent_context import AgentContext
from mindx.core.agent_event import AgentEventType
from mindx.core.output import plain_value


class Trail:
    """Gathers facts while the mind works; they are told as MIND_CHANGED events before the next Action is."""

    def __init__(self) -> None:
        self._facts: list[dict[str, Any]] = []

    def note(self, what: str, **details: Any) -> None:
        """Note a fact; `what` names it, `details` are plain values."""
        self._facts.append({"what": what, **details})

    async def tell(self, context: AgentContext) -> None:
        """Tell all that was noted since the last time."""
        facts, self._facts = self._facts, []
        for fact in facts:
            await context.emit(AgentEventType.MIND_CHANGED, plain_value(fact))
