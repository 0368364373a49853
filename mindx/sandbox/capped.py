"""Capped output: what is kept of a stream that may be longer than its cap, for the real sandbox and the fake alike.

The first three quarters of the cap and the last quarter (1 MiB at most) are kept; what lies between is counted, and a
marker line says how much it was. The marker comes on top of the cap.
"""

from __future__ import annotations

import hashlib

MAX_TAIL_BYTES = 1024 * 1024  # the guest holds it in the container's memory


def split_cap(max_bytes: int, head_only: bool = False) -> tuple[int, int]:
    """Return how many bytes of head and of tail are kept under a cap of `max_bytes`; a tail is seen at the end only."""
    if head_only:
        return max_bytes, 0
    tail = min(max_bytes - max_bytes * 3 // 4, MAX_TAIL_BYTES)
    return max_bytes - tail, tail


def marker(left_out: int) -> bytes:
    """Return the line that stands for `left_out` bytes."""
    return b"\n[mindx: %d bytes left out]\n" % left_out


def join(head: bytes, tail: bytes, total: int) -> tuple[bytes, bool]:
    """Return what is kept of a stream of `total` bytes, and whether something is missing.

    `head` is its beginning and `tail` its end; they may overlap when the stream is short.
    Raises ValueError when they cannot be parts of such a stream.
    """
    if len(head) > total or len(tail) > total:
        raise ValueError(f"{len(head)} and {len(tail)} bytes cannot be parts of a stream of {total} bytes")
    left_out = total - len(head) - len(tail)
    if left_out > 0:
        return b"".join((head, marker(left_out), tail)), True
    return (head + tail[-left_out:] if tail else head), False


class CappedStream:
    """Takes a stream piece by piece; counts and digests all of it, keeps its head and its tail."""

    def __init__(self, max_bytes: int, head_only: bool = False) -> None:
        if max_bytes < 0:
            raise ValueError(f"max_bytes must not be negative: {max_bytes}")
        self._head_bytes, self._tail_bytes = split_cap(max_bytes, head_only)
        self._head = bytearray()
        self._tail = bytearray()
        self._digest = hashlib.sha256()
        self._total = 0

    @property
    def total_bytes(self) -> int:
        """How many bytes went in."""
        return self._total

    @property
    def sha256(self) -> str:
        """The digest of all that went in, in hexadecimal."""
        return self._digest.hexdigest()

    def write(self, data: bytes) -> None:
        """Take the next piece."""
        self._total += len(data)
        self._digest.update(data)
        room = self._head_bytes - len(self._head)
        self._head += data[:room]
        self._tail += data[room:][-self._tail_bytes :] if self._tail_bytes else b""
        # Cut late, so that many small pieces do not move the whole tail each time.
        if len(self._tail) > 2 * self._tail_bytes:
            del self._tail[: -self._tail_bytes]

    def result(self) -> tuple[bytes, bool]:
        """Return what is kept (head, marker, tail; or all of it) and whether something is missing."""
        tail = bytes(self._tail[-self._tail_bytes :]) if self._tail_bytes else b""
        return join(bytes(self._head), tail, self._total)
