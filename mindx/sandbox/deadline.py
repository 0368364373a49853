"""The host's own clock for a command, a little later than the guest's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

STALLED_S = 0.5  # a timer that fires later than this says that the loop stood still, not that the guest did
NEW_CHANCE_S = 2.0


class HostDeadline:
    """Calls `give_up` when a command is overdue. A pause of the container stops it; a stalled loop gets a new chance.

    `seconds` None: not before `set`. One clock serves one command after the other: when it is set anew or cleared, its
    timer is left standing and looks again as it fires, since most commands end long before their deadlines.
    """

    def __init__(self, seconds: float | None, give_up: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._give_up = give_up
        self._due: float | None = None
        self._left_s: float | None = None  # in a pause
        self._timer: asyncio.TimerHandle | None = None
        self.set(seconds)

    def set(self, seconds: float | None) -> None:
        """Give the command that starts now so many seconds; None: no deadline."""
        self._left_s = None
        self._due = None if seconds is None else self._loop.time() + seconds
        if self._due is not None and (self._timer is None or self._timer.when() > self._due):
            self._arm(self._due)

    def clear(self) -> None:
        """No command waits."""
        self._due = self._left_s = None

    def cancel(self) -> None:
        """End the clock."""
        self.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def pause(self) -> None:
        """Stop the clock."""
        if self._due is not None:
            self._left_s = max(0.0, self._due - self._loop.time())
            self._due = None

    def resume(self) -> None:
        """Let it go on where it stopped."""
        if self._left_s is not None:
            self.set(self._left_s)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._due is None:
            return
        late_s = self._loop.time() - self._due
        if late_s < 0:
            self._arm(self._due)  # it was set for an earlier command
        elif late_s > STALLED_S:
            self.set(NEW_CHANCE_S)  # first read what has been waiting in the socket
        else:
            self.clear()
            self._give_up()
