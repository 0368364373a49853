"""Ending tasks for good: cancelled, awaited, and told of when one does not end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio

T = TypeVar("T")
GRACE_S = 5.0


class OverdueError(Exception):
    """Work did not end in its time, and was ended."""


@dataclass(frozen=True, slots=True)
class CleanupFailure:
    """Something that did not end: `what` names it, `reason` says why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class CloseReport:
    """What closing could not clean up; `ok` when there is nothing of that."""

    failures: tuple[CleanupFailure, ...] = ()

    @property
    def ok(self) -> bool:
        """True when all is gone."""
        return not self.failures


@dataclass(slots=True)
class Reaper:
    """Cancels tasks and waits for them, `grace_s` seconds at most; what outlives that is left and listed."""

    grace_s: float = GRACE_S
    failures: list[CleanupFailure] = field(default_factory=list)

    async def reap(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Cancel the tasks and wait until they have ended; a cancellation of the caller waits with them."""
        waiting = {task for task in tasks if not task.done()}
        for task in waiting:
            task.cancel()
        cancelled = False
        until = asyncio.get_running_loop().time() + self.grace_s
        with anyio.CancelScope(shield=True):
            while waiting:
                left = until - asyncio.get_running_loop().time()
                if left <= 0:
                    break
                try:
                    _, waiting = await asyncio.wait(waiting, timeout=left)
                except asyncio.CancelledError:
                    cancelled = True
                    waiting = {task for task in waiting if not task.done()}
        for task in waiting:
            self.failures.append(CleanupFailure(task.get_name(), f"it ignored its cancellation for {self.grace_s:g} s"))
            task.add_done_callback(_look)
        if cancelled:
            raise asyncio.CancelledError

    async def within(self, work: Coroutine[Any, Any, T], limit_s: float, name: str) -> T:
        """Return what `work` returns. Raises OverdueError after `limit_s` seconds, when it has ended all the same.

        What it returned while it was being ended counts: then it was in time after all.
        """
        task = asyncio.ensure_future(work)
        task.set_name(name)
        try:
            await asyncio.wait({task}, timeout=limit_s)
        except asyncio.CancelledError:
            await self.reap([task])
            _look(task)
            raise
        if not task.done():
            await self.reap([task])
            if not task.done() or task.cancelled():
                raise OverdueError
        return task.result()


def _look(task: asyncio.Task[Any]) -> None:
    """Take a task's exception, so that nobody complains that it was never seen."""
    if task.done() and not task.cancelled():
        task.exception()
