"""The events of one run: numbered, each with its cause, handed to whoever listens."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mindx.core.agent_event import AgentEvent, AgentEventType
from mindx.core.protocols import EventHandler
from mindx.trace.recorder import utc_now

_LOG = logging.getLogger("mindx.runtime.events")


class EventStream:
    """Hands every event to every handler, in order, before the run goes on.

    A handler that raises, or takes longer than `timeout_s`, is counted in `failures` and changes nothing else.
    """

    def __init__(
        self,
        run_id: str,
        handlers: Sequence[EventHandler] = (),
        *,
        session_id: str = "",
        timeout_s: float = 5.0,
        now: Callable[[], str] = utc_now,
    ) -> None:
        self.step = 0
        self.failures = 0
        self._run_id = run_id
        self._session_id = session_id
        self._handlers = tuple(handlers)
        self._timeout_s = timeout_s
        self._now = now
        self._seq = 0
        self._last_id = ""
        self._action_ids: dict[str, str] = {}

    @property
    def heard(self) -> bool:
        """True when somebody listens."""
        return bool(self._handlers)

    async def emit(self, event_type: AgentEventType, payload: Mapping[str, Any], cause_id: str = "") -> None:
        """Tell an event. Its cause is `cause_id`, else the last event of the same Action, else the one before."""
        await self.tell(event_type, payload, cause_id)

    async def tell(self, event_type: AgentEventType, payload: Mapping[str, Any], cause_id: str = "") -> str:
        """Tell an event and return its event_id."""
        seq, self._seq = self._seq, self._seq + 1
        if not self._handlers:
            return ""
        action_id = payload.get("action_id", "")
        cause = cause_id or self._action_ids.get(action_id) or self._last_id
        event = AgentEvent(event_type, self._run_id, seq, self._now(), self.step, payload, cause, self._session_id)
        event_id = self._last_id = event.event_id
        if action_id:
            self._action_ids[action_id] = event_id
        for handler in self._handlers:
            await self._hand(handler, event)
        return event_id

    async def _hand(self, handler: EventHandler, event: AgentEvent) -> None:
        if not await hand(handler, event, self._timeout_s):
            self.failures += 1


async def hand(handler: EventHandler, event: AgentEvent, timeout_s: float) -> bool:
    """Hand one event to one handler; return False when it raised or took too long, which goes to the log."""
    try:
        answer = handler(event)
        if inspect.isawaitable(answer):
            await asyncio.wait_for(answer, timeout_s)
    except Exception as error:  # noqa: BLE001 - a listener never ends a run
        _LOG.warning("an event handler failed at %s: %s", event.event_type.value, type(error).__name__)
        return False
    return True
