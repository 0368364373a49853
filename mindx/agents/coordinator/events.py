"""Publish and subscribe between agents. A listener that raises, hangs or is slow hurts nobody but itself."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Union

from mindx.agents.coordinator.interaction import MAX_METADATA_BYTES, plain_json
from mindx.agents.coordinator.threads import in_thread
from mindx.core.quote import quoted
from mindx.errors import InputError

logger = logging.getLogger("coordinator.events")
Listener = Callable[["Event"], Union[Awaitable[None], None]]  # noqa: UP007 - evaluated on 3.10
ALL_TOPICS = "*"
MAX_TOPIC = 200  # characters
MAX_LISTENERS = 1000
MAX_FAILURES = 3  # in a row: then a listener is heard of no more
MAX_THREADS = 32


@dataclass(frozen=True, slots=True)
class Event:
    """What is told: `data` is the publisher's, and no listener may change it for others."""

    topic: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delivery:
    """How an event reached its listeners: how many took it, and what was wrong with the others."""

    topic: str
    delivered: int = 0
    problems: tuple[str, ...] = ()


@dataclass(eq=False)
class _Subscription:
    topic: str
    listener: Listener
    failures: int = field(default=0)


class EventBus:
    """Topics and listeners. Each listener has `timeout_s` seconds for an event, all of them at the same time.

    An async listener runs in the loop, any other in a thread of its own.
    """

    def __init__(self, timeout_s: float = 5.0) -> None:
        self._timeout_s = timeout_s
        self._subscriptions: list[_Subscription] = []
        self._left_behind: set[asyncio.Future[None]] = set()
        self._threads = 0

    def subscribe(self, topic: str, listener: Listener) -> Callable[[], None]:
        """Have a listener called with each Event of a topic (`*`: of all); return what ends that, twice if need be.

        Raises InputError (topic_invalid, too_many_listeners).
        """
        _check_topic(topic)
        if len(self._subscriptions) >= MAX_LISTENERS:
            raise InputError("too_many_listeners", f"there are {MAX_LISTENERS:,} listeners already; end some")
        subscription = _Subscription(topic, listener)
        self._subscriptions.append(subscription)

        def end() -> None:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)

        return end

    async def publish(self, topic: str, data: Mapping[str, Any] | None = None) -> Delivery:
        """Tell everybody and return how it went; `data` is plain JSON, and each listener gets a copy of its own.

        Never raises for a listener. Raises InputError (topic_invalid, event_invalid).
        """
        _check_topic(topic)
        wanted = [one for one in self._subscriptions if one.topic in (topic, ALL_TOPICS)]
        if not wanted:
            return Delivery(topic)
        told = plain_json(dict(data or {}), "event", MAX_METADATA_BYTES, "event_invalid")
        found = await asyncio.gather(*(self._told(one, Event(topic, deepcopy(told))) for one in wanted))
        problems = tuple(problem for problem in found if problem)
        return Delivery(topic, len(found) - len(problems), problems)

    async def close(self) -> None:
        """End all subscriptions and what still runs in the loop for them; may be called twice."""
        self._subscriptions.clear()
        for one in self._left_behind:
            one.cancel()

    async def _told(self, one: _Subscription, event: Event) -> str:
        """Tell one listener; return what was wrong, or ""."""
        try:
            work = asyncio.ensure_future(self._called(one.listener, event))
        except InputError as error:
            return error.message
        try:
            done, _ = await asyncio.wait({work}, timeout=self._timeout_s)
        except asyncio.CancelledError:
            self._leave(work)
            raise
        problem = _problem(work) if done else f"it did not end within {self._timeout_s:g} s"
        if not done:
            self._leave(work)
        one.failures = one.failures + 1 if problem else 0
        if not problem:
            return ""
        if one.failures >= MAX_FAILURES and one in self._subscriptions:
            self._subscriptions.remove(one)
            problem += f"; it failed {MAX_FAILURES} times in a row and is told nothing more"
        told = f"a listener of {quoted(event.topic)} failed: {problem}"
        logger.warning(told)
        return told

    async def _called(self, listener: Listener, event: Event) -> None:
        if inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(getattr(listener, "__call__", None)):  # noqa: B004
            await listener(event)  # type: ignore[misc]
            return
        if self._threads >= MAX_THREADS:  # none can be stopped: one that hangs counts until it ends
            raise RuntimeError(f"{MAX_THREADS} listeners hang already")
        self._threads += 1
        result: Any = await in_thread(lambda: listener(event), self._thread_ended, "mindx-listener")
        if inspect.isawaitable(result):
            await result

    def _thread_ended(self) -> None:
        self._threads -= 1

    def _leave(self, work: asyncio.Future[None]) -> None:
        """Cancel a listener and do not wait: it might not let itself be cancelled."""
        self._left_behind.add(work)
        work.add_done_callback(self._forget)
        work.cancel()

    def _forget(self, work: asyncio.Future[None]) -> None:
        self._left_behind.discard(work)
        _problem(work)  # so that its exception counts as seen


def _problem(work: asyncio.Future[None]) -> str:
    if work.cancelled():
        return "it cancelled itself"
    error = work.exception()
    return "" if error is None else f"{type(error).__name__}: {str(error)[:300]}"


def _check_topic(topic: str) -> None:
    if not isinstance(topic, str) or not topic or len(topic) > MAX_TOPIC or not topic.isprintable():
        raise InputError("topic_invalid", f"a topic has 1 to {MAX_TOPIC} printable characters")
