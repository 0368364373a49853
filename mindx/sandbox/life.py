"""What the engine has said about one container, kept for its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from mindx.sandbox.events import LOST, EngineEvent, Listener

OBITUARY_WITHIN_S = 1.0  # the stream's end is often there before the event that explains it
OOM_NS = 2_000_000_000  # an oom this close to a 137 was the end of PID 1
ENDS = {
    "0": "Its guest ended in good order, which it does when it has not heard from the host for long.",
    "71": "Its guest gave up: a process could not be killed, or the stream to it was broken.",
    "137": "Its first process was killed (exit code 137), by somebody who may use the engine or by the system.",
}


class Life:
    """One container's events. `attaches` counts who attached, us included; `paused_ns` is how long it stood still.

    `unheard` is True when the events cannot be followed any more.
    """

    def __init__(self) -> None:
        self.attaches = 0
        self.paused_ns = 0
        self.unheard = False
        self.exit_code = ""
        self._paused_at_ns = 0
        self._oom_ns = 0
        self._end_ns = 0
        self._ended: asyncio.Event | None = None
        self._attached = asyncio.Event()

    def listener(self, then: Callable[[EngineEvent], None]) -> Listener:
        """Return what takes events in any thread, notes them here and calls `then`, both in this loop's thread."""
        loop = asyncio.get_running_loop()

        def take(event: EngineEvent) -> None:
            self._note(event)
            then(event)

        def listen(event: EngineEvent) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(take, event)

        return listen

    def _note(self, event: EngineEvent) -> None:
        if event.action == "attach":
            self.attaches += 1
            self._attached.set()
        elif event.action == LOST:
            self.unheard = True
        elif event.action == "oom":
            self._oom_ns = event.time_ns
        elif event.action == "pause":
            self._paused_at_ns = event.time_ns
        elif event.action == "unpause":
            self.paused_ns = max(0, event.time_ns - self._paused_at_ns)
        elif event.action == "die":
            self.exit_code, self._end_ns = event.exit_code, event.time_ns
            self._death().set()

    async def attached(self, within_s: float) -> bool:
        """Wait for the engine to tell of an attach; False when it has not within `within_s` seconds."""
        try:
            await asyncio.wait_for(self._attached.wait(), within_s)
        except asyncio.TimeoutError:
            return False
        return True

    def _death(self) -> asyncio.Event:
        if self._ended is None:
            self._ended = asyncio.Event()
        return self._ended

    async def obituary(self) -> str:
        """Return how it died, in a sentence; "" when the engine does not say so within OBITUARY_WITHIN_S."""
        try:
            await asyncio.wait_for(self._death().wait(), OBITUARY_WITHIN_S)
        except asyncio.TimeoutError:
            return ""
        if self.exit_code == "137" and 0 <= self._end_ns - self._oom_ns < OOM_NS:
            return "The kernel killed its first process for want of memory (oom): raise limits.memory, or use less."
        return ENDS.get(self.exit_code, f"Its guest failed (exit code {self.exit_code[:8]}).")
