"""The stream to the host: frames in from stdin, frames out to stdout, never blocking on either."""

from __future__ import annotations

import os

from . import wire

HIGH_WATER = 4 << 20  # above this no more output is taken from commands or files
LOW_WATER = 1 << 20


class Connection:
    """Queues what goes out. PID 1 that blocked on a slow host would be deaf to deadlines."""

    def __init__(self) -> None:
        self._reader = wire.FrameReader()
        self._sequence = 0
        self._queue: list[bytes] = []
        self._sent = 0  # bytes of the first of the queue that are gone
        self.waiting = 0  # bytes in the queue

    def receive(self) -> list[tuple[int, int, int, bytes]] | None:
        """Return the frames that have come, or None at the end of the stream. Raises WireError."""
        try:
            data = os.read(0, wire.MAX_PAYLOAD)
        except BlockingIOError:
            return []
        if not data:
            return None
        return self._reader.feed(data)

    def send(self, kind: int, request_id: int, payload: bytes = b"", flags: int = 0) -> None:
        """Queue one frame."""
        data = wire.frame(kind, self._sequence, request_id, payload, flags)
        self._sequence += 1
        self._queue.append(data)
        self.waiting += len(data)

    def flush(self) -> bool:
        """Write what the pipe takes; return True when nothing is left. Raises OSError when the host is gone."""
        while self._queue:
            if len(self._queue) > 1 and len(self._queue[0]) - self._sent < 4096:
                self._queue = [b"".join([self._queue[0][self._sent :], *self._queue[1:64]]), *self._queue[64:]]
                self._sent = 0
            first = self._queue[0]
            try:
                written = os.write(1, memoryview(first)[self._sent :])
            except BlockingIOError:
                return False
            self.waiting -= written
            self._sent += written
            if self._sent == len(first):
                del self._queue[0]
                self._sent = 0
        return True
