"""A queue of a session's events, bounded in number and bytes, in which what ends something is never dropped."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import Mapping
from typing import Any

from mindx.core.agent_event import AgentEvent
from mindx.core.agent_session import SessionEvent, SessionEventType
from mindx.runtime.kept import size_of_value

# Only what a run tells on its way may be dropped: the results, questions and ends never.
_DROPPABLE = SessionEventType.AGENT_EVENT
MAX_BYTES = 16 * 1024 * 1024  # of the agent events that wait: one may tell of a megabyte of output


class SessionEventQueue:
    """Events in order, for one reader. When `size` agent events wait, or MAX_BYTES, the oldest of them make room.

    How many were dropped is told in the next event that is read (`payload["dropped"]`). Waiting wakes, never polls.
    """

    def __init__(self, session_id: str, size: int) -> None:
        self.dropped = 0
        self._session_id = session_id
        self._size = max(1, size)
        self._events: deque[SessionEvent] = deque()
        self._agent_events = self._agent_bytes = 0
        self._seq = 0
        self._told = 0
        self._ready = asyncio.Event()

    def put(self, event_type: SessionEventType, payload: Mapping[str, Any] | None = None, run_id: str = "") -> None:
        """Add an event; never waits."""
        self._events.append(SessionEvent(event_type, self._session_id, self._seq, payload or {}, run_id))
        self._seq += 1
        if event_type is _DROPPABLE:
            self._agent_events += 1
            self._agent_bytes += _weight(self._events[-1])
            while self._agent_events > self._size or (self._agent_bytes > MAX_BYTES and self._agent_events > 1):
                self._drop()
        self._ready.set()

    def _drop(self) -> None:
        for index, event in enumerate(self._events):
            if event.event_type is _DROPPABLE:
                del self._events[index]
                self._take_off(event)
                self.dropped += 1
                return

    def _take_off(self, event: SessionEvent) -> None:
        self._agent_events -= 1
        self._agent_bytes -= _weight(event)

    async def get(self) -> SessionEvent:
        """Return the oldest event, when there is one."""
        while not self._events:
            self._ready.clear()
            await self._ready.wait()
        event = self._events.popleft()
        if event.event_type is _DROPPABLE:
            self._take_off(event)
        if self.dropped > self._told:
            payload = {**event.payload, "dropped": self.dropped - self._told}
            self._told = self.dropped
            event = dataclasses.replace(event, payload=payload)
        return event

    def __len__(self) -> int:
        return len(self._events)


def _weight(event: SessionEvent) -> int:
    told = event.payload.get("event")
    return size_of_value(told.payload if isinstance(told, AgentEvent) else event.payload)
