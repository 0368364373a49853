"""One output stream of a command: hashed and counted whole, kept as head and tail."""

from __future__ import annotations

import errno
import fcntl
import os
from _collections import deque  # type: ignore[import-not-found]  # what `collections` is slow to load

from . import wire
from .connection import SHARED_BYTES, SMALL_BYTES, Connection

EMPTY = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
PIPE_BYTES = 1 << 20
DEFAULT_PIPE_BYTES = 1 << 16
TERMINAL_BYTES = 1 << 16  # more than the kernel holds of a terminal's output
F_SETPIPE_SZ, F_GETPIPE_SZ = 1031, 1032


def widen(handle: int) -> None:
    """Give a pipe the largest buffer that an unprivileged user may ask for; a refusal costs only speed."""
    try:
        fcntl.fcntl(handle, F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:
        pass


def pipe_size(handle: int) -> int:
    """Return how many bytes a pipe holds, or 0 for what is no pipe."""
    try:
        return fcntl.fcntl(handle, F_GETPIPE_SZ)
    except OSError:
        return 0


def new_sha256() -> object:
    """Return a SHA-256 object; the import (3 MiB, 5 ms) waits for the first byte that needs it."""
    import hashlib

    return hashlib.sha256()


class OutputStream:
    """Reads a pipe or a terminal's master (-1: nothing) to its end.

    The first `head_bytes` go out as they come, the last `tail_bytes` at the end.
    """

    __slots__ = (
        "_connection",
        "_ended",
        "_hash",
        "_head_left",
        "_request_id",
        "_tail",
        "_tail_bytes",
        "_tail_held",
        "handle",
        "number",
        "total",
    )

    def __init__(
        self, connection: Connection, request_id: int, handle: int, number: int, head_bytes: int, tail_bytes: int
    ) -> None:
        self._connection = connection
        self._request_id = request_id
        self.handle = handle
        self.number = number
        self.total = 0
        self._ended = handle < 0
        self._head_left = head_bytes
        self._tail_bytes = tail_bytes
        self._tail: deque[bytes | bytearray] | None = None  # made for the first piece beyond the head
        self._tail_held = 0
        self._hash: object = None

    def pump(self) -> bool:
        """Read once and pass on; return False at the end of the stream."""
        if self._ended:
            return False
        try:
            data = os.read(self.handle, wire.CHUNK)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""  # every handle of the terminal is closed
        if not data:
            self._ended = True
            return False
        if len(data) == DEFAULT_PIPE_BYTES:
            widen(self.handle)  # a flood: fewer turns of the loop
        if self._hash is None:
            self._hash = new_sha256()
        self._hash.update(data)  # type: ignore[attr-defined]
        self.total += len(data)
        if self._head_left:
            head = data[: self._head_left]
            self._head_left -= len(head)
            self._connection.send(wire.OUT, self._request_id, head, self.number)
            data = data[len(head) :]
        if data and self._tail_bytes:
            self._keep(data)
        return True

    def drain(self) -> None:
        """Take what dead writers left.

        Its capacity bounds that: a writer of another slot that was given the pipe could fill it for ever.
        """
        left = 0
        while True:
            before = self.total
            if not self.pump() or self.total == before:
                return
            left = (left or pipe_size(self.handle) or TERMINAL_BYTES) - (self.total - before)
            if left <= 0:
                return

    def _keep(self, data: bytes) -> None:
        tail = self._tail = self._tail or deque()
        last = tail[-1] if tail else b""
        if isinstance(last, bytearray) and len(last) + len(data) <= SHARED_BYTES:
            last += data  # small ones share a buffer: a million objects of one byte take 40 MiB
        else:
            tail.append(bytearray(data) if len(data) < SMALL_BYTES else data)
        self._tail_held += len(data)
        while self._tail_held - len(tail[0]) >= self._tail_bytes:
            self._tail_held -= len(tail.popleft())

    def tail(self) -> bytes:
        """Return the last bytes beyond the head, at most `tail_bytes`."""
        return b"".join(self._tail)[-self._tail_bytes :] if self._tail else b""

    def digest(self) -> bytes:
        """Return the raw SHA-256 of the whole stream."""
        return EMPTY if self._hash is None else self._hash.digest()  # type: ignore[attr-defined]
