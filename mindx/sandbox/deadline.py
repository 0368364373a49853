"""The host's own clock for one command, a little later than the guest's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

STALLED_S = 0.5  # a timer that fires later than this says that the loop stood still, not that the guest did


class HostDeadline:
    """Calls `give_up` when a command is overdue. A pause of the container stops it; a stalled loop gets a new chance.

    `seconds` None: never.
    """

    def __init__(self, seconds: float | None, give_up: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._give_up = give_up
        self._left_s = 0.0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._open = seconds is not None
        if seconds is not None:
            self._arm(seconds)

    def _arm(self, seconds: float) -> None:
        self._due = self._loop.time() + seconds
        self._timer = self._loop.call_at(self._due, self._fire)

    def _fire(self) -> None:
        if self._loop.time() - self._due > STALLED_S:
            self._arm(2.0)  # first read what has been waiting in the socket
        else:
            self._timer = None
            self._give_up()

    def pause(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._left_s = max(0.0, self._due - self._loop.time())
            self._timer.cancel()
            self._timer = None

    def resume(self) -> None:
        """Let it go on where it stopped."""
        if self._open and self._timer is None:
            self._arm(self._left_s)

    def cancel(self) -> None:
        """End it."""
        self._open = False
        self.pause()
