"""Places to run in: there are so many, the rest waits, and who waits for a child lends out its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager


class Place:
    """One task's place in each of `gates`, taken in their order (all tasks name them in one order: no deadlock)."""

    def __init__(self, gates: Sequence[asyncio.Semaphore]) -> None:
        self._gates = tuple(gates)
        self._held = False
        self._ended = False
        self._lenders = 0
        self._lock = asyncio.Lock()

    async def take(self) -> None:
        """Wait for a place in each gate; when cancelled, none is held."""
        taken: list[asyncio.Semaphore] = []
        try:
            for gate in self._gates:
                await gate.acquire()
                taken.append(gate)
        except BaseException:
            for gate in taken:
                gate.release()
            raise
        self._held = True

    def leave(self) -> None:
        """Give the place back, if it is held."""
        if self._held:
            self._held = False
            for gate in self._gates:
                gate.release()

    def end(self) -> None:
        """Give the place back for good."""
        self._ended = True
        self.leave()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Let others have the place inside the block; at the end of the last such block it is taken back.

        When the block is cancelled the place is taken back only if one is free: an end must not wait for others.
        """
        self._lenders += 1
        self.leave()
        try:
            yield
        except asyncio.CancelledError:
            self._lenders -= 1
            if not self._lenders and not any(gate.locked() for gate in self._gates):
                await self._take_back()
            raise
        except BaseException:
            self._lenders -= 1
            raise
        self._lenders -= 1
        await self._take_back()

    async def _take_back(self) -> None:
        async with self._lock:  # two blocks may end at once, and one may begin while another waits here
            if not self._lenders and not self._held and not self._ended:
                await self.take()
                if self._lenders or self._ended:
                    self.leave()
