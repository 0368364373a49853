"""Samples: what was measured, by name, and the statistics of it."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

Action = Callable[[], Awaitable[None]]


class Samples:
    """Values by name: seconds for times, MiB for memory."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._values: dict[str, list[float]] = {}
        self._clock = clock
        self._keep = True

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Add how long the block takes; a block that raises adds nothing."""
        started = self._clock()
        yield
        self.add(name, self._clock() - started)

    def add(self, name: str, value: float) -> None:
        """Add one value."""
        if self._keep:
            self._values.setdefault(name, []).append(value)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep nothing that the block measures: it warms up."""
        self._keep = False
        try:
            yield
        finally:
            self._keep = True

    def of(self, name: str) -> list[float]:
        """Return the values of a name, oldest first; none for a name that was never measured."""
        return list(self._values.get(name, ()))

    def names(self) -> list[str]:
        """Return every name that has a value, sorted."""
        return sorted(self._values)

    def percentile(self, name: str, percent: float) -> float:
        """Return a percentile of a name's values, NaN when there is none."""
        return percentile(self.of(name), percent)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the percentile (0 to 100), interpolated between the two nearest values; NaN of nothing."""
    if not 0 <= percent <= 100:
        raise ValueError(f"a percentile lies between 0 and 100: {percent}")
    if not values:
        return math.nan
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


async def interleave(samples: Samples, actions: Sequence[Action], rounds: int, warm_up: int = 1) -> None:
    """Do every action once a round, in turns of order, so that drift and neighbours hit all of them alike.

    The first `warm_up` rounds are done and not kept.
    """
    with samples.paused():
        for _ in range(warm_up):
            for action in actions:
                await action()
    for number in range(rounds):
        for action in actions if number % 2 == 0 else reversed(actions):
            await action()


def repeat(action: Action, times: int) -> Action:
    """Return an action that does another several times: what is quick is measured warm, not after a slow neighbour."""

    async def repeated() -> None:
        for _ in range(times):
            await action()

    return repeated
