"""The commands that run: spawned, fed, drained, ended at their deadlines, and reaped to the last process."""

from __future__ import annotations

import errno
import os
import select
import time

from . import cgroup, facts, processes, records, terminal, watchdog, wire
from .changed import MARK, Changed, Moment, changed_since
from .command import RunningCommand, open_pidfd, refusal
from .connection import Connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .files import Root
    from .identity import Identity
    from .spawn import Spawner

HOLD_S = 2.0
MAX_PAUSE_NS = 86_400_000_000_000
# Nothing announces an orphan's end to a process without handlers, and zombies take the agent's process slots.
REAP_SELDOM_S = 0.02
REAP_OFTEN_S = 0.001
REAP_AT_MOST = 512  # in one turn: on many CPUs orphans may die faster than they are reaped, and the host is waiting
ALONE = 2


class Crew:
    """All commands, by slot, and the watchdog."""

    def __init__(self, connection: Connection, poll: select.poll) -> None:
        self.connection = connection
        self.poll = poll
        self.watch = watchdog.Watch()
        self.watchdog_pid = 0  # 0: there is none
        self.watchdog_handle = -1
        self.commands: dict[int, RunningCommand] = {}  # by slot
        self.by_handle: dict[int, RunningCommand] = {}
        self.reading_paused = False  # pipes are not read until the host has caught up
        self.tasks = cgroup.Tasks()
        self.counted: cgroup.Count | None = None  # the kernel's counts when the last command ended
        self.held_until = 0.0  # no deadline counts before this: the container was paused
        self.reap_after_s = REAP_SELDOM_S
        self.identity: Identity  # this and the next two come with HELLO
        self.root: Root
        self._mark = -1
        self.spawner: Spawner

    def wake_at(self, until: float) -> float:
        """Return when the loop must turn for a command or the watchdog, at the latest `until` (monotonic s)."""
        if not self.commands and self.watchdog_pid:
            return until
        if self.watchdog_pid == 0:
            until = min(until, time.monotonic() + 0.1)
        if self.commands:
            until = min(until, time.monotonic() + self.reap_after_s)
        for command in self.commands.values():
            if command.pidfd < 0:
                return min(until, time.monotonic() + 0.002)  # no pidfd here: ask waitpid
            until = min(until, max(command.deadline_ns / 1e9, self.held_until))
        return until

    def pause_reading(self, paused: bool) -> None:
        """Read the commands' output no more, or again."""
        if paused == self.reading_paused:
            return
        self.reading_paused = paused
        for command in self.commands.values():
            for stream in command.streams:
                if stream.handle >= 0 and stream.handle in self.by_handle:
                    if paused:
                        self.poll.unregister(stream.handle)
                    else:
                        self.poll.register(stream.handle, select.POLLIN)

    def hold(self) -> None:
        """Let no deadline count: the container was paused, and the host will say for how long."""
        self.held_until = time.monotonic() + HOLD_S
        self._publish_deadline()

    def resume(self, paused_ns: int) -> None:
        """Move every deadline by the length of a pause."""
        self.held_until = 0.0
        for command in self.commands.values():
            if command.deadline_ns != watchdog.NEVER:
                command.deadline_ns += min(paused_ns, MAX_PAUSE_NS)
        self._publish_deadline()

    def execute(self, request_id: int, request: records.ExecRequest) -> None:
        """Start a program; its answer is EXITED, or FAILED when something was wanting."""
        if request.slot in self.commands:
            self.connection.send(wire.FAILED, request_id, wire.pack_failure(errno.EBUSY, b"a command runs already"))
            return
        if self.commands:
            self.counted = None  # what runs beside it may have moved the counts since
        else:
            self.reap_after_s = REAP_SELDOM_S  # nothing of it has ended yet
        before, began_ns, kills = facts.before(self.counted), time.monotonic_ns(), self.watch.kills()
        try:
            moment = self._moment() if request.tells_files else None
            spawned = self.spawner.spawn(
                request.slot,
                request.argv,
                request.cwd,
                request.env,
                request.executable,
                request.has_stdin,
                request.terminal,
            )
        except OSError as error:
            record = refusal(error)
            if record is None:
                self._fail_spawn(request_id, error.errno or errno.EIO, error.strerror or str(error))
            else:
                self.connection.send(wire.EXITED, request_id, record.pack())
            return
        except ValueError as error:  # what no argument or variable can be
            self._fail_spawn(request_id, errno.EINVAL, str(error))
            return
        command = RunningCommand(self.connection, request_id, request, spawned, began_ns, before)
        command.kills_before, command.moment = kills, moment
        self.commands[request.slot] = command
        if command.pidfd >= 0:
            self.by_handle[command.pidfd] = command
            self.poll.register(command.pidfd, select.POLLIN)
        for stream in command.streams:
            if stream.handle < 0:
                continue
            self.by_handle[stream.handle] = command
            if not self.reading_paused:
                self.poll.register(stream.handle, select.POLLIN)
        if request.has_stdin:
            self.connection.send(wire.WANT, request_id)
        self._publish_deadline()

    def _fail_spawn(self, request_id: int, number: int, text: str) -> None:
        self.connection.send(wire.FAILED, request_id, wire.pack_failure(number, os.fsencode(text)))

    def _find(self, request_id: int) -> RunningCommand | None:
        for command in self.commands.values():
            if command.request_id == request_id:
                return command
        return None

    def feed(self, request_id: int, payload: bytes) -> None:
        """Pass a piece of input on to its command."""
        command = self._find(request_id)
        if command is not None:
            command.take_input(payload)
            self._pass_input(command)

    def resize(self, request_id: int, rows: int, cols: int) -> None:
        """Give a command's terminal another size."""
        command = self._find(request_id)
        if command is not None and command.held >= 0:
            terminal.resize(command.held, rows, cols)

    def _pass_input(self, command: RunningCommand) -> None:
        handle = command.stdin
        wants = command.pass_input()
        watched = handle is not None and handle in self.by_handle
        if wants and not command.input_ended:
            self.connection.send(wire.WANT, command.request_id)
        if handle is None:
            return
        if command.stdin is not None and command.input and not watched:
            self.by_handle[handle] = command
            self.poll.register(handle, select.POLLOUT)
        elif watched and (command.stdin is None or not command.input):
            del self.by_handle[handle]
            self.poll.unregister(handle)

    def cancel(self, request_id: int) -> bool:
        """End a command; False when none has this id."""
        command = self._find(request_id)
        if command is None:
            return False
        self._end(command, records.CAUSE_CANCELLED)
        return True

    def end_all(self) -> None:
        """End every command."""
        for command in list(self.commands.values()):
            self._end(command, records.CAUSE_CANCELLED)

    def attend(self, handle: int) -> None:
        """See to a handle that is ready."""
        command = self.by_handle.get(handle)
        if command is None:
            return
        if handle == command.pidfd:
            self.reap()  # before its streams, which then have nothing left to say
            return
        if handle == command.stdin:
            self._pass_input(command)
            return
        for stream in command.streams:
            if stream.handle == handle and not stream.pump():
                self._forget(handle)

    def _forget(self, handle: int) -> None:
        if self.by_handle.pop(handle, None) is not None:
            try:
                self.poll.unregister(handle)
            except KeyError:
                pass

    def collect(self) -> None:
        """Collect ended children. An orphan is counted to the first command: one writes, the rest are beside it."""
        self.reap_after_s = min(REAP_SELDOM_S, self.reap_after_s * 2)
        for _ in range(REAP_AT_MOST):
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.reap_after_s = REAP_OFTEN_S
            if pid == self.watchdog_pid:
                self.watchdog_pid = 0
                if self.watchdog_handle >= 0:
                    self.poll.unregister(self.watchdog_handle)
                    os.close(self.watchdog_handle)
                    self.watchdog_handle = -1
                continue
            self._account(pid, status, usage)

    def _account(self, pid: int, status: int, usage: object) -> None:
        owner = None
        for command in self.commands.values():
            owner = owner or command
            if command.pid == pid:
                owner = command
                command.status = status
                break
        if owner is None:
            return
        owner.account(usage)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == 9 and self._overdue(owner):
            owner.killed_early.append(pid)

    def _overdue(self, command: RunningCommand) -> bool:
        return time.monotonic_ns() >= command.deadline_ns and time.monotonic() >= self.held_until

    def reap(self) -> None:
        """Collect, and end each command whose program has ended."""
        self.collect()
        for command in list(self.commands.values()):
            if command.status is not None:
                # The watchdog kills when this loop is late: that was the deadline, and no signal of the program's own.
                self._end(command, records.CAUSE_TIMEOUT if command.killed_early else None)
        self.keep_watchdog()

    def keep_watchdog(self) -> None:
        """Start the watchdog when there is none; its end wakes the loop."""
        if self.watchdog_pid:
            return
        try:
            self.watchdog_pid = watchdog.start(self.watch)
        except OSError:
            return  # every process slot is taken: again in 100 ms
        self.watchdog_handle = open_pidfd(self.watchdog_pid)
        if self.watchdog_handle >= 0:
            self.poll.register(self.watchdog_handle, select.POLLIN)

    def enforce(self) -> None:
        """End what is past its deadline."""
        if not self.commands and not self.held_until:
            return
        if self.held_until and time.monotonic() >= self.held_until:
            self.held_until = 0.0  # the word of how long it was has not come
            self._publish_deadline()
        if self.commands and time.monotonic() >= self.held_until:
            now = time.monotonic_ns()
            for command in list(self.commands.values()):
                if now >= command.deadline_ns:
                    self._end(command, records.CAUSE_TIMEOUT)

    def sweep(self, uid: int) -> list[tuple[int, bytes]]:
        """Kill and reap all of a uid, and return what was alive. Raises Unkillable."""
        if self.tasks.look() == ALONE and self.watchdog_pid:
            return []  # the kernel counts PID 1 and the watchdog in this container, and no third task
        return processes.sweep(self.identity, uid, {1, self.watchdog_pid}, self.collect)

    def _end(self, command: RunningCommand, cause: int | None) -> None:
        """Kill and reap all that is left of a command, and send its record."""
        if self.commands.get(command.slot) is not command:
            return
        if command.cause is None:
            command.cause = cause
        killed = self.sweep(self.identity.uid_of(command.slot))
        if command.killed_early:
            known = {pid for pid, _ in killed}
            killed += [(pid, b"") for pid in command.killed_early if pid not in known]
        del self.commands[command.slot]
        self._publish_deadline()  # before what takes time: its own deadline has been met
        command.drain()
        self._forget(command.pidfd)
        if command.stdin is not None:
            self._forget(command.stdin)
        for stream in command.streams:
            self._forget(stream.handle)
            tail = stream.tail()
            for at in range(0, len(tail), wire.CHUNK):
                self.connection.send(wire.TAIL, command.request_id, tail[at : at + wire.CHUNK], stream.number)
        if command.cause is None and command.was_killed and self.watch.kills() != command.kills_before:
            # It was in the way when PID 1 had to be freed: no end of its own, and nobody's signal.
            self._fail_spawn(command.request_id, errno.EINTR, "it was killed to free the container's first process")
        else:
            self.counted = facts.count()
            record = command.record(killed, self.counted, time.monotonic_ns(), self._changed_by(command))
            self.connection.answer(wire.EXITED, command.request_id, record.pack())
        command.close()

    def _moment(self) -> Moment:
        if self._mark < 0:
            self._mark = os.open(MARK, os.O_RDONLY | os.O_CLOEXEC)
        return Moment(self._mark)

    def _changed_by(self, command: RunningCommand) -> Changed | None:
        if command.moment is None:
            return None
        return changed_since(command.moment, self.root, self.identity, self._next_deadline())

    def _publish_deadline(self) -> None:
        held = self.held_until and time.monotonic() < self.held_until
        self.watch.next_deadline(watchdog.NEVER if held else self._next_deadline())

    def _next_deadline(self) -> int:
        earliest = watchdog.NEVER
        for command in self.commands.values():
            earliest = min(earliest, command.deadline_ns)
        return earliest
