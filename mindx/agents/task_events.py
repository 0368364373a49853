"""What an orchestrator has told, kept up to a bound, for any number of readers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from mindx.agents.task_record import AgentTaskEvent, AgentTaskEventType, TaskRecord


class TaskEvents:
    """Keeps `limit` events; beyond that the oldest go, those that tell of an end last."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._events: list[AgentTaskEvent] = []
        self._next_seq = 0
        self._closed = False
        self._news = asyncio.Event()

    def tell(self, event_type: AgentTaskEventType, record: TaskRecord, payload: Mapping[str, Any]) -> None:
        """Keep one event and wake the readers."""
        parent_id = "" if record.parent is None else record.parent.task_id
        event = AgentTaskEvent(self._next_seq, event_type, record.task_id, record.spec.name, parent_id, payload)
        self._next_seq += 1
        self._events.append(event)
        if len(self._events) > self._limit:
            passing = (i for i, old in enumerate(self._events) if old.event_type is not AgentTaskEventType.TASK_ENDED)
            del self._events[next(passing, 0)]
        self._wake()

    def close(self) -> None:
        """End all readers, once they have read what there is."""
        self._closed = True
        self._wake()

    async def read(self, replay: bool) -> AsyncIterator[AgentTaskEvent]:
        """Yield the kept events (with `replay`) and then the new ones, until `close`."""
        seq = 0 if replay else self._next_seq
        while True:
            news = self._news
            for event in [event for event in self._events if event.seq >= seq]:
                seq = event.seq + 1
                yield event
            if self._events and self._events[-1].seq >= seq:  # told while the reader was busy
                continue
            if self._closed:
                return
            await news.wait()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
