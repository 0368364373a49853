"""A root process beside PID 1 that frees it when the agent has managed to stop it.

It is the one thing that a hostile exec (a lease on the file, a stopped vfork child) cannot hold: when a spawn or a
deadline is overdue, or the host is gone and PID 1 is still there, it kills every process but PID 1.
"""

from __future__ import annotations

import mmap
import os
import select
import struct
import time

GRACE_NS = 250_000_000
SPAWN_GRACE_NS = 1_000_000_000  # a spawn that is held up is so for ever; on a busy machine an honest one takes its time
PERIOD_MS = 100
NEVER = (1 << 64) - 1
_PAIR = struct.Struct("<QQ")
_KILLS = struct.Struct("<Q")


class Watch:
    """Shared memory in which PID 1 says when its spawn began and which deadline comes next, in monotonic ns."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._spawn_began = NEVER
        self._deadline = NEVER
        self._publish()

    def _publish(self) -> None:
        _PAIR.pack_into(self._memory, 0, self._spawn_began, self._deadline)

    def spawn_begins(self) -> None:
        """Say that a spawn begins now."""
        self._spawn_began = time.monotonic_ns()
        self._publish()

    def spawn_ended(self) -> None:
        """Say that no spawn is under way."""
        self._spawn_began = NEVER
        self._publish()

    def next_deadline(self, deadline_ns: int) -> None:
        """Say which deadline comes next; NEVER for none."""
        if deadline_ns != self._deadline:
            self._deadline = deadline_ns
            self._publish()

    def overdue(self) -> bool:
        """Return whether a spawn or a deadline is late by more than the grace."""
        began, deadline = _PAIR.unpack_from(self._memory, 0)
        now = time.monotonic_ns()
        return bool(began < now - SPAWN_GRACE_NS or deadline < now - GRACE_NS)

    def count_kill(self) -> None:
        """Say that everything is about to be killed; the watchdog's part."""
        _KILLS.pack_into(self._memory, _PAIR.size, self.kills() + 1)

    def kills(self) -> int:
        """Return how often everything was killed."""
        return int(_KILLS.unpack_from(self._memory, _PAIR.size)[0])


def start(watch: Watch) -> int:
    """Fork the watchdog and return its pid; the child never returns."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.closerange(3, 1 << 16)  # a held end of a command's pipe would keep it from seeing the other end close
        _watch(watch)
    finally:
        os._exit(70)


def _watch(watch: Watch) -> None:
    hangup = select.poll()
    hangup.register(0, 0)  # POLLHUP and POLLERR come unasked
    host_gone_ns = NEVER
    late_before = False
    while True:
        if hangup.poll(PERIOD_MS) and host_gone_ns == NEVER:
            host_gone_ns = time.monotonic_ns()
        if host_gone_ns != NEVER:
            time.sleep(0.05)
        # Two looks: after a pause of the container PID 1 gets the time to hear how long it was.
        late = watch.overdue()
        if (late and late_before) or time.monotonic_ns() - GRACE_NS > host_gone_ns:
            watch.count_kill()
            try:
                os.kill(-1, 9)
            except OSError:
                pass
        late_before = late
