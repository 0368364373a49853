"""One running command: its program, its streams, its deadline, and the record of what it really did."""

from __future__ import annotations

import errno
import os

from . import records, wire
from .changed import Moment
from .connection import Connection
from .spawn import NoFolder, Spawned
from .streams import EMPTY, OutputStream
from .watchdog import NEVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cgroup import Count
    from .changed import Changed
    from .facts import Before


class RunningCommand:
    """A command from its spawn to its record."""

    def __init__(
        self,
        connection: Connection,
        request_id: int,
        request: records.ExecRequest,
        spawned: Spawned,
        began_ns: int,
        before: Before,
    ) -> None:
        self.request_id = request_id
        self.slot = request.slot
        self.pid = spawned.pid
        self.stdin = spawned.stdin
        self.held = spawned.held  # of a terminal; -1: it has none
        self.input: bytes | memoryview = b""
        self.input_ended = False
        head, tail = request.head_bytes, request.tail_bytes
        self.streams = (
            OutputStream(connection, request_id, spawned.stdout, wire.STDOUT, head, tail),
            OutputStream(connection, request_id, spawned.stderr, wire.STDERR, head, tail),
        )
        self.moment: Moment | None = None  # from which on its changes of files count; None: nobody asks
        self.began_ns = began_ns  # before the spawn: the program may be well on its way when PID 1 gets its turn
        self.deadline_ns = self.began_ns + request.deadline_ms * 1_000_000 if request.deadline_ms else NEVER
        self.status: int | None = None
        self.cause: int | None = None
        self.kills_before = 0  # of the watchdog
        self.killed_early: list[int] = []  # what the watchdog killed at the deadline, before this loop could
        self.before = before
        self.cpu_s = 0.0
        self.max_rss_kib = 0
        self.pidfd = open_pidfd(spawned.pid)

    @property
    def was_killed(self) -> bool:
        """True when the program ended by SIGKILL."""
        return self.status is not None and os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == 9

    def account(self, usage: object) -> None:
        """Add the use of one reaped process and of what it waited for."""
        self.cpu_s += usage.ru_utime + usage.ru_stime  # type: ignore[attr-defined]
        self.max_rss_kib = max(self.max_rss_kib, usage.ru_maxrss)  # type: ignore[attr-defined]

    def take_input(self, data: bytes) -> None:
        """Take the next piece of input; an empty one is the last."""
        if data:
            self.input = memoryview(data)
        else:
            self.input_ended = True

    def pass_input(self) -> bool:
        """Write what the program takes now; return True when the host may send more, False when not yet or ended."""
        if self.stdin is None:
            return False
        try:
            while self.input:
                self.input = self.input[os.write(self.stdin, self.input) :]
        except BlockingIOError:
            return False
        except OSError:  # EPIPE of a pipe, EIO of a terminal: nobody reads any more
            self.input_ended = True
            self.input = b""
        if self.input_ended:
            self.close_input()
            return False
        return True

    def close_input(self) -> None:
        """End the program's input."""
        if self.stdin is not None:
            os.close(self.stdin)
            self.stdin = None

    def drain(self) -> None:
        """Take all that is left in the pipes."""
        for stream in self.streams:
            stream.drain()

    def close(self) -> None:
        """Close every handle."""
        self.close_input()
        if self.held >= 0:
            os.close(self.held)
            self.held = -1
        for stream in self.streams:
            if stream.handle >= 0:
                os.close(stream.handle)
                stream.handle = -1
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def record(
        self, killed: list[tuple[int, bytes]], after: Count, ended_ns: int, changed: Changed | None
    ) -> records.ExitRecord:
        """Return the record; called once, when nothing of the command is alive."""
        record = records.ExitRecord()
        record.duration_ns = ended_ns - self.began_ns
        record.cpu_us = int(self.cpu_s * 1e6)
        # A spawned process starts with the size of PID 1, whose memory it shares until its exec: no more is known then.
        record.max_rss_kib = self.max_rss_kib if self.max_rss_kib > self.before.own_kib else 0
        out, err = self.streams
        record.stdout_bytes, record.stdout_sha256 = out.total, out.digest()
        record.stderr_bytes, record.stderr_sha256 = err.total, err.digest()
        count = self.before.count
        record.oom_kills = max(0, after.oom_kills - count.oom_kills)
        record.pids_refused = max(0, after.pids_refused - count.pids_refused)
        record.throttled_us = max(0, after.throttled_us - count.throttled_us)
        record.memory_peak = after.memory_peak if after.memory_peak > count.memory_peak else 0
        record.killed_count = len(killed)
        record.killed = [b"%d %s" % (pid, name) for pid, name in killed[:64]]
        if changed is not None:
            record.files_seen = records.FILES_ALL if changed.complete else records.FILES_SOME
            record.changed_count, record.changed = changed.count, changed.names
        self._judge(record)
        return record

    def _judge(self, record: records.ExitRecord) -> None:
        status = self.status
        exited = status is not None and os.WIFEXITED(status)
        if self.cause is not None:
            record.cause = self.cause
        elif record.oom_kills:
            record.cause = records.CAUSE_OOM
        else:
            record.cause = records.CAUSE_EXIT if exited else records.CAUSE_SIGNAL
        if status is None:
            return
        if exited:
            record.exit_code = os.WEXITSTATUS(status)
        else:
            record.signal = os.WTERMSIG(status)


def open_pidfd(pid: int) -> int:
    """Return a handle that becomes readable when the process ends, or -1 where the kernel or Python has none."""
    try:
        return os.pidfd_open(pid)  # type: ignore[attr-defined,no-any-return,unused-ignore]
    except (AttributeError, OSError):
        return -1


def refusal(error: OSError) -> records.ExitRecord | None:
    """Return the record of a program that could not be started, or None when it was not the program's fault."""
    record = records.ExitRecord()
    record.stdout_sha256 = record.stderr_sha256 = EMPTY
    if isinstance(error, NoFolder):
        record.cause = records.CAUSE_NOT_EXECUTABLE
    elif error.errno in (errno.ENOENT, errno.ENOTDIR):
        record.cause = records.CAUSE_NOT_FOUND
    elif error.errno in (errno.EACCES, errno.ENOEXEC, errno.EISDIR, errno.EPERM, errno.E2BIG, errno.ELOOP):
        record.cause = records.CAUSE_NOT_EXECUTABLE
    else:
        return None
    return record
