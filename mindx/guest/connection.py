"""The stream to the host: frames in from stdin, frames out to stdout, never blocking on either."""

from __future__ import annotations

import os
from _collections import deque  # type: ignore[import-not-found]  # what `collections` is slow to load

from . import wire

HIGH_WATER = 4 << 20  # above this no more output is taken from commands or files
LOW_WATER = 1 << 20
SIP_BYTES = 64 << 10  # room for more is mapped and unmapped at every read, so it is asked for only in a flood
SMALL_BYTES = 4096
SHARED_BYTES = 1 << 16


class Connection:
    """Queues what goes out. PID 1 that blocked on a slow host would be deaf to deadlines."""

    def __init__(self) -> None:
        self._reader = wire.FrameReader()
        self._appetite = SIP_BYTES
        self._sequence = 0
        self._queue: deque[bytes] = deque()
        self._small = bytearray()  # frames behind the queue that share one write
        self._sent = 0  # bytes of the first of the queue that are gone
        self.waiting = 0  # bytes that are not gone

    def receive(self) -> list[tuple[int, int, int, bytes]] | None:
        """Return the frames that have come, or None at the end of the stream. Raises WireError."""
        try:
            data = os.read(0, self._appetite)
        except BlockingIOError:
            return []
        if not data:
            return None
        self._appetite = wire.MAX_PAYLOAD if len(data) == self._appetite else SIP_BYTES
        return self._reader.feed(data)

    def send(self, kind: int, request_id: int, payload: bytes = b"", flags: int = 0) -> None:
        """Queue one frame."""
        data = wire.frame(kind, self._sequence, request_id, payload, flags)
        self._sequence += 1
        self._enqueue(data)

    def answer(self, kind: int, request_id: int, payload: bytes) -> None:
        """Write one frame at once when nothing waits: the host reads it while the loop clears up."""
        data = wire.frame(kind, self._sequence, request_id, payload)
        self._sequence += 1
        if not self.waiting:
            try:
                data = data[os.write(1, data) :]
            except OSError:
                pass  # what goes wrong, `flush` tells
        if data:
            self._enqueue(data)

    def _enqueue(self, data: bytes) -> None:
        self.waiting += len(data)
        if len(data) < SMALL_BYTES:
            self._small += data
            if len(self._small) >= SHARED_BYTES:
                self._close_small()
        else:
            self._close_small()
            self._queue.append(data)

    def _close_small(self) -> None:
        if self._small:
            self._queue.append(bytes(self._small))
            self._small = bytearray()

    def flush(self) -> bool:
        """Write what the pipe takes; return True when nothing is left. Raises OSError when the host is gone."""
        self._close_small()
        while self._queue:
            first = self._queue[0]
            try:
                written = os.write(1, memoryview(first)[self._sent :])
            except BlockingIOError:
                return False
            self.waiting -= written
            self._sent += written
            if self._sent == len(first):
                self._queue.popleft()
                self._sent = 0
        return True
