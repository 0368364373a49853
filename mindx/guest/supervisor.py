"""PID 1: one thread, one loop. It reaps, enforces deadlines, answers the host, and ends when the host is gone."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import select
import sys
import time

from . import facts, processes, records, wire
from .connection import HIGH_WATER, LOW_WATER, Connection
from .crew import Crew
from .desk import Desk
from .files import Root
from .identity import Identity
from .spawn import Spawner
from .streams import PIPE_BYTES, pipe_size, widen

HELLO_WITHIN_S = 10.0
FAREWELL_WITHIN_S = 5.0
SLICE_S = 0.01
PACED_BYTES = PIPE_BYTES
FOREVER = float("inf")


class Supervisor:
    """Everything that PID 1 knows."""

    def __init__(self) -> None:
        self.connection = Connection()
        self.poll = select.poll()
        self.crew = Crew(self.connection, self.poll)
        self.writing = False
        self.wide = pipe_size(1) >= PIPE_BYTES
        self.flush_at = FOREVER
        self.leaving = False
        self.lease_s = HELLO_WITHIN_S
        self.heard = time.monotonic()
        self.desk: Desk | None = None  # comes with HELLO

    # -- the loop

    def run(self) -> None:
        """Serve until the host says farewell, falls silent or is gone."""
        self.crew.keep_watchdog()
        self.poll.register(0, select.POLLIN)
        while True:
            timeout_ms = self._timeout_ms()
            for handle, _event in self.poll.poll(timeout_ms):
                if handle == 0:
                    if not self._hear():
                        return
                elif handle != 1:
                    self.crew.attend(handle)
            self.crew.reap()  # first: what has ended in time is not overdue
            self.crew.enforce()
            if self.desk is not None and self.desk.jobs and self.connection.waiting < HIGH_WATER:
                self.crew.counted = None
                self.desk.work(time.monotonic() + SLICE_S)
            if not self._send():
                return
            if time.monotonic() - self.heard > self.lease_s:
                return

    def _timeout_ms(self) -> float:
        if self.desk is not None and self.desk.jobs and self.connection.waiting < HIGH_WATER:
            return 0
        until = min(self.flush_at, self.crew.wake_at(self.heard + self.lease_s))
        return max(0.0, (until - time.monotonic()) * 1000 + 1)

    def _send(self) -> bool:
        if not self.connection.waiting and not self.writing:
            self.flush_at = FOREVER
            self.crew.pause_reading(False)
            return True
        try:
            done = self.connection.flush()
        except OSError:
            return False
        # In a flood the engine takes 32 KiB at a time: one look in a millisecond is enough to keep its pipe filled.
        paced = not done and self.wide and self.connection.waiting > PACED_BYTES
        self.flush_at = time.monotonic() if paced else FOREVER
        writing = not done and not paced
        if writing != self.writing:
            self.writing = writing
            if self.writing:
                self.poll.register(1, select.POLLOUT)
            else:
                self.poll.unregister(1)
        if self.connection.waiting > HIGH_WATER:
            self.crew.pause_reading(True)
        elif self.connection.waiting < LOW_WATER:
            self.crew.pause_reading(False)
        return True

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
            self._execute(request_id, payload)
        elif kind == wire.STDIN:
            self.crew.feed(request_id, payload)
        elif kind == wire.RESIZE:
            self.crew.resize(request_id, *wire.SIZE.unpack(payload))
        elif kind == wire.CANCEL:
            self._cancel(request_id)
        elif kind == wire.PING:
            self.connection.send(wire.PONG, request_id)
        elif kind == wire.HOLD:
            self.crew.hold()
        elif kind == wire.RESUME:
            self.crew.resume(wire.PAUSED_FOR.unpack(payload)[0])
        elif kind == wire.GOODBYE:
            self._leave(request_id)
        elif self.desk is None:
            raise wire.WireError("kind %d before hello" % kind)
        else:
            self.crew.counted = None  # the agent's files are the container's memory: the counts move
            self.desk.take(kind, request_id, payload)

    def _greet(self, request_id: int, payload: bytes) -> None:
        asked = dict(text.split(b"=", 1) for text in wire.split_texts(payload))
        if int(asked[b"protocol"]) != wire.PROTOCOL:
            raise wire.WireError("protocol %r" % asked[b"protocol"])
        identity = Identity(int(asked[b"uid"]), int(asked[b"gid"]))
        self.lease_s = int(asked[b"lease_ms"]) / 1000
        identity.settle()
        identity.enter()  # root without DAC override may not even look into the agent's folder
        try:
            root = Root()
        finally:
            identity.leave()
        self.crew.identity, self.crew.root = identity, root
        self.crew.spawner = Spawner(identity, self.crew.watch, root)
        self.desk = Desk(identity, root, self.connection)
        self.connection.send(wire.READY, request_id, wire.join_texts(facts.gather() + self._agent_facts()))

    def _agent_facts(self) -> list[bytes]:
        crew = self.crew
        return facts.of_agent(crew.spawner, crew.identity, lambda slot: crew.sweep(crew.identity.uid_of(slot)))

    def _execute(self, request_id: int, payload: bytes) -> None:
        request = records.ExecRequest.unpack(payload)
        if self.desk is None or self.leaving:
            raise wire.WireError("a command before hello or after goodbye")
        self.crew.execute(request_id, request)

    def _cancel(self, request_id: int) -> None:
        if not self.crew.cancel(request_id) and self.desk is not None:
            self.desk.cancel(request_id)

    def _leave(self, request_id: int) -> None:
        self.leaving = True
        self.lease_s = FAREWELL_WITHIN_S
        self.crew.end_all()
        self.connection.send(wire.BYE, request_id)


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
