"""The clock of a run: it stops while a person decides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class RunClock:
    """Seconds that a run has worked, and has left. `now` gives seconds."""

    def __init__(self, total_s: float, now: Callable[[], float]) -> None:
        self._total_s = total_s
        self._now = now
        self._began = now()
        self._paused_s = 0.0
        self._pause_began: float | None = None

    @property
    def worked_s(self) -> float:
        """The time without the pauses."""
        until = self._now() if self._pause_began is None else self._pause_began
        return until - self._began - self._paused_s

    @property
    def left_s(self) -> float:
        """What is left, never below 0."""
        return math.inf if self._total_s == math.inf else max(0.0, self._total_s - self.worked_s)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock inside of the block."""
        self._pause_began = self._now()
        try:
            yield
        finally:
            self._paused_s += self._now() - self._pause_began
            self._pause_began = None
