"""The heartbeat: tells now and then that a run is alive, and where it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType


class Heartbeat:
    """Calls `beat` every `interval_s` seconds inside of the `async with` block; 0 means never."""

    def __init__(self, interval_s: float, beat: Callable[[], Awaitable[None]]) -> None:
        self._interval_s = interval_s
        self._beat = beat
        self._task: asyncio.Task[None] | None = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self._beat()

    async def __aenter__(self) -> Heartbeat:
        if self._interval_s > 0:
            self._task = asyncio.create_task(self._run(), name="heartbeat")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
