"""The worker: now and then it takes the first idea of the backlog that may be worked on. It is off until started."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mindx.agents.coordinator.backlog_item import BacklogItem, BacklogStatus
from mindx.agents.coordinator.interaction import Interaction, InteractionStatus, InteractionType

if TYPE_CHECKING:
    from mindx.agents.coordinator.coordinator import CoordinatorAgent

logger = logging.getLogger("coordinator.worker")


class BacklogWorker:
    """Works for one coordinator. `cpu_percent` tells how busy the machine is, None when that is not known."""

    def __init__(
        self, coordinator: CoordinatorAgent, agent_id: str, cpu_percent: Callable[[], Awaitable[float | None]]
    ) -> None:
        self._coordinator, self._agent_id, self._cpu_percent = coordinator, agent_id, cpu_percent

    async def work_once(self) -> Interaction | None:
        """Do the first item that can be done now and return its Interaction; None when nothing was done.

        Nothing is done on a machine that is busier than `max_cpu_percent`, or whose business is not known.
        """
        busy = await self._cpu_percent()
        limit = self._coordinator.config.max_cpu_percent
        if busy is None or busy > limit:
            logger.info("nothing is improved now: the machine is busy (%s %%, at most %g %%)", busy, limit)
            return None
        item = self._coordinator.backlog.next(self._coordinator.config.cooldown_s)
        if item is None and self._coordinator.config.worker_analyzes:
            await self._coordinator.analyze_system()
            item = self._coordinator.backlog.next(self._coordinator.config.cooldown_s)
        if item is None:
            return None
        logger.info("working on %s: %s", item.item_id, item.target_component_path)
        return await self._coordinator.process_interaction(self._interaction_of(item))

    async def run(self) -> None:
        """Work for ever, with a pause before each time; what fails is logged, and the next time comes all the same."""
        while True:
            await asyncio.sleep(self._coordinator.config.worker_interval_s)
            try:
                await self.work_once()
            except Exception:
                logger.exception("the backlog could not be worked on")

    def _interaction_of(self, item: BacklogItem) -> Interaction:
        """Return the Interaction that waits for this item, or a new one for this attempt."""
        coordinator = self._coordinator
        if item.interaction_id:
            waiting = coordinator.interactions.get(item.interaction_id)
            if waiting.status is InteractionStatus.PENDING:
                return waiting
        made = coordinator.create_interaction(
            InteractionType.COMPONENT_IMPROVEMENT,
            item.suggestion,
            metadata={
                "target_component": item.target_component_path,
                "source": item.source,
                "backlog_item_id": item.item_id,
                "original_priority": item.priority,
                "is_critical_target": item.is_critical_target,
            },
            agent_id=self._agent_id,
            key=f"{item.item_id}:{item.attempt_count + 1}:{item.approved_at or ''}",
        )
        pending = frozenset({BacklogStatus.PENDING})
        coordinator.backlog.change(item.item_id, pending, interaction_id=made.interaction_id)
        return made
