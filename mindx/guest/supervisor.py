"""PID 1: one thread, one loop. It reaps, enforces deadlines, answers the host, and ends when the host is gone."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import errno
import os
import select
import sys
import time

from . import facts, processes, watchdog, wire
from .command import RunningCommand, open_pidfd, refusal
from .connection import HIGH_WATER, LOW_WATER, Connection
from .desk import Desk
from .files import Root
from .identity import Identity
from .spawn import Spawner
from .streams import widen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HELLO_WITHIN_S = 10.0
FAREWELL_WITHIN_S = 5.0
HOLD_S = 2.0
# Nothing announces an orphan's end to a process without handlers, and zombies take the agent's process slots.
REAP_SELDOM_S = 0.02
REAP_OFTEN_S = 0.001
MAX_PAUSE_NS = 86_400_000_000_000
SLICE_S = 0.01


class Supervisor:
    """Everything that PID 1 knows."""

    def __init__(self) -> None:
        self.connection = Connection()
        self.poll = select.poll()
        self.watch = watchdog.Watch()
        self.watchdog_pid = 0  # 0: there is none
        self.watchdog_handle = -1
        self.commands: dict[int, RunningCommand] = {}  # by slot
        self.by_handle: dict[int, RunningCommand] = {}
        self.paused: list[int] = []  # pipes not read until the host has caught up
        self.reading_paused = False
        self.writing = False
        self.leaving = False
        self.held_until = 0.0  # no deadline counts before this: the container was paused
        self.reap_after_s = REAP_SELDOM_S
        self.lease_s = HELLO_WITHIN_S
        self.heard = time.monotonic()
        self.desk: Desk | None = None  # this and the next two come with HELLO
        self.identity: Identity
        self.spawner: Spawner

    # -- the loop

    def run(self) -> None:
        """Serve until the host says farewell, falls silent or is gone."""
        self._keep_watchdog()
        self.poll.register(0, select.POLLIN)
        while True:
            timeout_ms = self._timeout_ms()
            for handle, event in self.poll.poll(timeout_ms):
                if handle == 0:
                    if not self._hear():
                        return
                elif handle != 1:
                    self._attend(handle, event)
            self._enforce()
            if self.desk is not None and self._desk_may_work():
                self.desk.work(time.monotonic() + SLICE_S)
            self._reap()
            if not self._send():
                return
            if time.monotonic() - self.heard > self.lease_s:
                return

    def _desk_may_work(self) -> bool:
        return self.desk is not None and self.desk.has_work() and self.connection.waiting < HIGH_WATER

    def _timeout_ms(self) -> float:
        if self._desk_may_work():
            return 0
        until = self.heard + self.lease_s
        if self.watchdog_pid == 0:
            until = min(until, time.monotonic() + 0.1)
        if self.commands:
            until = min(until, time.monotonic() + self.reap_after_s)
        for command in self.commands.values():
            if command.pidfd < 0:
                return 2  # no pidfd here: ask waitpid
            until = min(until, max(command.deadline_ns / 1e9, self.held_until))
        return max(0.0, (until - time.monotonic()) * 1000 + 1)

    def _send(self) -> bool:
        try:
            done = self.connection.flush()
        except OSError:
            return False
        if done == self.writing:
            self.writing = not done
            if self.writing:
                self.poll.register(1, select.POLLOUT)
            else:
                self.poll.unregister(1)
        if self.connection.waiting > HIGH_WATER and not self.reading_paused:
            self.reading_paused = True
            for handle in self._pipes():
                self.poll.unregister(handle)
        elif self.reading_paused and self.connection.waiting < LOW_WATER:
            self.reading_paused = False
            for handle in self._pipes():
                self.poll.register(handle, select.POLLIN)
        return True

    def _pipes(self) -> list[int]:
        return [
            s.handle for c in self.commands.values() for s in c.streams if s.handle >= 0 and s.handle in self.by_handle
        ]

    # -- the host

    def _hear(self) -> bool:
        frames = self.connection.receive()
        if frames is None:
            return False
        self.heard = time.monotonic()
        for kind, _flags, request_id, payload in frames:
            if kind == wire.FAREWELL:
                return False
            self._obey(kind, request_id, payload)
        return True

    def _obey(self, kind: int, request_id: int, payload: bytes) -> None:
        if kind == wire.HELLO:
            self._greet(request_id, payload)
        elif kind == wire.EXEC:
            self._execute(request_id, wire.ExecRequest.unpack(payload))
        elif kind == wire.STDIN:
            self._feed(request_id, payload)
        elif kind == wire.CANCEL:
            self._cancel(request_id)
        elif kind == wire.PING:
            self.connection.send(wire.PONG, request_id)
        elif kind == wire.HOLD:
            self.held_until = time.monotonic() + HOLD_S
            self._publish_deadline()
        elif kind == wire.RESUME:
            self._resume(wire.PAUSED_FOR.unpack(payload)[0])
        elif kind == wire.GOODBYE:
            self._leave(request_id)
        elif self.desk is None:
            raise wire.WireError("kind %d before hello" % kind)
        else:
            self.desk.take(kind, request_id, payload)

    def _resume(self, paused_ns: int) -> None:
        """Move every deadline by the length of a pause."""
        self.held_until = 0.0
        for command in self.commands.values():
            if command.deadline_ns != watchdog.NEVER:
                command.deadline_ns += min(paused_ns, MAX_PAUSE_NS)
        self._publish_deadline()

    def _greet(self, request_id: int, payload: bytes) -> None:
        asked = dict(text.split(b"=", 1) for text in wire.split_texts(payload))
        if int(asked[b"protocol"]) != wire.PROTOCOL:
            raise wire.WireError("protocol %r" % asked[b"protocol"])
        self.identity = Identity(int(asked[b"uid"]), int(asked[b"gid"]))
        self.lease_s = int(asked[b"lease_ms"]) / 1000
        self.identity.settle()
        self.identity.enter()  # root without DAC override may not even look into the agent's folder
        try:
            root = Root()
        finally:
            self.identity.leave()
        self.spawner = Spawner(self.identity, self.watch, root)
        self.desk = Desk(self.identity, root, self.connection)
        self.connection.send(wire.READY, request_id, wire.join_texts(facts.gather() + self._agent_facts()))

    def _agent_facts(self) -> list[bytes]:
        def end(slot: int) -> None:
            processes.sweep(self.identity, self.identity.uid_of(slot), {1, self.watchdog_pid}, self._collect)

        return facts.of_agent(self.spawner, self.identity, end)

    def _leave(self, request_id: int) -> None:
        self.leaving = True
        self.lease_s = FAREWELL_WITHIN_S
        for command in list(self.commands.values()):
            self._end(command, wire.CAUSE_CANCELLED)
        self.connection.send(wire.BYE, request_id)

    # -- commands

    def _execute(self, request_id: int, request: wire.ExecRequest) -> None:
        if request.slot in self.commands or self.leaving:
            self.connection.send(wire.FAILED, request_id, wire.pack_failure(errno.EBUSY, b"a command runs already"))
            return
        before, began_ns = facts.before(), time.monotonic_ns()
        try:
            spawned = self.spawner.spawn(
                request.slot, request.argv, request.cwd, request.env, request.executable, request.has_stdin
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
        command = RunningCommand(request_id, request, spawned, began_ns, before)
        self.commands[request.slot] = command
        for stream in command.streams:
            self.by_handle[stream.handle] = command
            if not self.reading_paused:
                self.poll.register(stream.handle, select.POLLIN)
        if command.pidfd >= 0:
            self.by_handle[command.pidfd] = command
            self.poll.register(command.pidfd, select.POLLIN)
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

    def _feed(self, request_id: int, payload: bytes) -> None:
        command = self._find(request_id)
        if command is not None:
            command.take_input(payload)
            self._pass_input(command)

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

    def _cancel(self, request_id: int) -> None:
        command = self._find(request_id)
        if command is not None:
            self._end(command, wire.CAUSE_CANCELLED)
        elif self.desk is not None:
            self.desk.cancel(request_id)

    def _attend(self, handle: int, event: int) -> None:
        command = self.by_handle.get(handle)
        if command is None:
            return
        if handle == command.pidfd:
            self._reap()
        elif handle == command.stdin:
            self._pass_input(command)
        else:
            for stream in command.streams:
                if stream.handle == handle and not stream.pump(self._head_of(command)):
                    self._forget(handle)

    def _head_of(self, command: RunningCommand) -> Callable[[int, bytes], None]:
        def send(number: int, data: bytes) -> None:
            self.connection.send(wire.OUT, command.request_id, data, number)

        return send

    def _forget(self, handle: int) -> None:
        if self.by_handle.pop(handle, None) is not None:
            try:
                self.poll.unregister(handle)
            except KeyError:
                pass

    def _collect(self) -> None:
        """Collect every ended child. An orphan is counted to the first command: one writes, the rest are beside it."""
        self.reap_after_s = min(REAP_SELDOM_S, self.reap_after_s * 2)
        while True:
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
            owner = None
            for command in self.commands.values():
                owner = owner or command
                if command.pid == pid:
                    owner = command
                    command.status = status
                    break
            if owner is not None:
                owner.account(usage)

    def _reap(self) -> None:
        """Collect, and end each command whose program has ended."""
        self._collect()
        for command in list(self.commands.values()):
            if command.status is not None:
                self._end(command, None)
        self._keep_watchdog()

    def _keep_watchdog(self) -> None:
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

    def _enforce(self) -> None:
        if self.held_until and time.monotonic() >= self.held_until:
            self.held_until = 0.0  # the word of how long it was has not come
            self._publish_deadline()
        if self.commands and time.monotonic() >= self.held_until:
            now = time.monotonic_ns()
            for command in list(self.commands.values()):
                if now >= command.deadline_ns:
                    self._end(command, wire.CAUSE_TIMEOUT)

    def _end(self, command: RunningCommand, cause: int | None) -> None:
        """Kill and reap all that is left of a command, and send its record."""
        if self.commands.get(command.slot) is not command:
            return
        if command.cause is None:
            command.cause = cause
        uid = self.identity.uid_of(command.slot)
        killed = processes.sweep(self.identity, uid, {1, self.watchdog_pid}, self._collect)
        del self.commands[command.slot]
        command.drain(self._head_of(command))
        for stream in command.streams:
            self._forget(stream.handle)
        self._forget(command.pidfd)
        if command.stdin is not None:
            self._forget(command.stdin)
        for stream in command.streams:
            tail = stream.tail()
            for at in range(0, len(tail), wire.CHUNK):
                self.connection.send(wire.TAIL, command.request_id, tail[at : at + wire.CHUNK], stream.number)
        self.connection.send(wire.EXITED, command.request_id, command.record(killed, facts.count()).pack())
        command.close()
        self._publish_deadline()

    def _publish_deadline(self) -> None:
        held = time.monotonic() < self.held_until
        deadlines = [] if held else [command.deadline_ns for command in self.commands.values()]
        self.watch.next_deadline(min(deadlines, default=watchdog.NEVER))


def main() -> None:
    """Be PID 1. Any way out of here ends the container and all in it."""
    # Python's own handler of SIGINT would let the agent's signal in. (The C module: `signal` costs 0.7 MiB of enum.)
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    os.umask(0o002)
    os.setgroups([])
    for handle in (0, 1):
        widen(handle)
        os.set_blocking(handle, False)
    try:
        Supervisor().run()
    except (processes.Unkillable, wire.WireError) as error:
        sys.stderr.write("mindx guest: %s %s\n" % (type(error).__name__, error))
        sys.stderr.flush()
        os._exit(71)
    os._exit(0)
