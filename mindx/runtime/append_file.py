"""Files of JSON lines that are only ever appended to, and survive a killed process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mindx.core.unwritable import state_unwritable
from mindx.errors import StateError


class AppendFile:
    """One file of JSON lines, opened at the first `append`. Each line is whole or not at all for a reader.

    Raises StateError when it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = -1

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Append records: they survive the end of this process, and with `sync` that of the machine."""
        data = b"".join(json.dumps(record, default=str).encode("ascii") + b"\n" for record in records)
        try:
            if self._handle < 0:
                self._open()
            view = memoryview(data)
            while view:
                view = view[os.write(self._handle, view) :]
        except OSError as error:
            raise state_unwritable(self.path, error) from error

    async def sync(self) -> None:
        """Wait until all that was appended is on the disk; the loop goes on meanwhile."""
        if self._handle < 0:
            return
        try:
            await asyncio.to_thread(os.fdatasync, self._handle)
        except OSError as error:
            raise state_unwritable(self.path, error) from error

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._handle = os.open(self.path, flags, 0o600)
        size = os.fstat(self._handle).st_size
        if size and os.pread(self._handle, 1, size - 1) != b"\n":
            os.write(self._handle, b"\n")  # a killed process left half a line: it stays a line of its own, unread


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a file, none when it is not there; a line that is no record is left out.

    Raises StateError when it cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise StateError("state_unreadable", f"{path} cannot be read: {error.strerror}") from error
    for line in data.split(b"\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value
