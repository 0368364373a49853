"""How long a tool holds the loop: nothing else goes on meanwhile, no deadline and no other run."""

from __future__ import annotations

import asyncio

TICK_S = 0.25
HELD_S = 1.0  # longer than this is told


class HeldLoop:
    """Watches the loop while a tool runs. `worst_s` is the longest time in which it did not turn, beyond a tick."""

    def __init__(self) -> None:
        self.worst_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def stop(self) -> float:
        """End the watch and return `worst_s`."""
        self._timer.cancel()
        self._note()
        return self.worst_s

    def _tick(self) -> None:
        self._note()
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def _note(self) -> None:
        now = self._loop.time()
        self.worst_s = max(self.worst_s, now - self._last - TICK_S)
        self._last = now
