"""The recorder: appends Events to a trace, each whole or not at all."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from mindx.core.unwritable import remedy
from mindx.errors import StateError
from mindx.trace.event import GENESIS, encode_line
from mindx.trace.redact import Redactor

Clock = Callable[[], str]


def utc_now() -> str:
    """Return the time as `2026-01-31T12:00:00.000000Z`."""
    seconds, microseconds = divmod(time.time_ns() // 1000, 1_000_000)
    return f"{_second(seconds)}.{microseconds:06d}Z"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()[:19]


class Recorder:
    """Writes one new trace. Each event reaches the system at once; `close` makes it last.

    The file is locked while it is open, so that others can tell a run that goes on from one that was cut off.
    Raises StateError when the file exists or cannot be written.
    """

    def __init__(self, path: Path, *, secrets: Iterable[str] = (), clock: Clock = utc_now) -> None:
        self.path = path
        self.head = GENESIS
        self.events = 0
        self._redactor = Redactor(secrets)
        self._clock = clock
        self._size = 0
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._handle = os.open(path, flags, 0o600)
        except OSError as error:
            raise _unwritable(path, error) from error
        fcntl.flock(self._handle, fcntl.LOCK_EX)

    def record(self, kind: str, figures_json: str = "", **data: Any) -> None:
        """Append one event; its values are redacted and capped. Raises StateError, and leaves no torn line.

        `figures_json` are more members of its data, as JSON without braces, written as they are: what mindx itself has
        made (numbers, digests, words of its own).
        """
        cleaned = self._redactor.clean(data)
        line, digest = encode_line(self.events, self._clock(), kind, cleaned, self.head, figures_json)
        try:
            self._append(line)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._handle, self._size)
            raise _unwritable(self.path, error) from error
        self._size += len(line)
        self.head = digest
        self.events += 1

    def close(self) -> None:
        """Make the trace durable and let go of it. May be called twice. Raises StateError."""
        if self._handle < 0:
            return
        handle, self._handle = self._handle, -1
        try:
            os.fsync(handle)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        finally:
            os.close(handle)

    def _append(self, line: bytes) -> None:
        written = os.write(self._handle, line)
        while written < len(line):
            written += os.write(self._handle, line[written:])

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def is_being_written(path: Path) -> bool:
    """Return True while a recorder holds the trace open, in this process or another."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _unwritable(path: Path, error: OSError) -> StateError:
    return StateError(
        "trace_unwritable",
        f"the trace {path} cannot be written: {error.strerror}; {remedy(error)}",
        details={"path": str(path), "errno": error.errno},
    )
