"""A program's output, passed on while it runs: as it is to files and pipes, harmless to terminals and CI logs."""

from __future__ import annotations

import asyncio
import os
import queue
import stat
import sys
import threading
from contextlib import suppress
from typing import Literal, TextIO

from mindx.cli.escape import StreamEscaper, in_ci

StreamName = Literal["stdout", "stderr"]
MAX_WAITING_BYTES = 8 * 1024 * 1024


class LiveOutput:
    """An OutputListener that writes from a thread of its own: a reader that stalls must not stall the session.

    At most 8 MiB wait for such a reader. Of a stream that is further ahead no more is taken: `finish` writes the rest
    out of what was kept.

    When the reader has gone away, the task that made this is cancelled, and `broken` says why. `raw` True passes on
    every byte.
    """

    def __init__(self, *, raw: bool = False) -> None:
        self.broken: OSError | None = None
        self._task: asyncio.Task[object] | None = asyncio.current_task()
        self._taken: dict[StreamName, int] = {"stdout": 0, "stderr": 0}
        self._behind: set[StreamName] = set()  # the streams of which no more is taken
        self._queued = self._written = 0  # each is changed by one thread alone
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[StreamName, bytes] | None] = queue.SimpleQueue()
        self._escapers: dict[StreamName, StreamEscaper | None] = {
            "stdout": StreamEscaper() if not raw and is_watched(sys.stdout) else None,
            "stderr": StreamEscaper() if not raw and is_watched(sys.stderr) else None,
        }
        # A daemon: at the second Ctrl-C nothing may hold the process.
        self._thread = threading.Thread(target=self._write_all, name="mindx-output", daemon=True)
        self._thread.start()

    def __call__(self, stream: StreamName, data: bytes) -> None:
        """Take one piece of output."""
        if stream in self._behind or self._queued - self._written > MAX_WAITING_BYTES:
            self._behind.add(stream)
            return
        self._queued += len(data)
        self._taken[stream] += len(data)
        self._queue.put((stream, data))

    async def finish(self, stdout: bytes = b"", stderr: bytes = b"") -> None:
        """Write what was kept of the streams and has not come yet (of a cut one the end), and wait for it.

        Raises the OSError that writing met (BrokenPipeError: the reader has gone).
        """
        self._task = None  # from here on we look ourselves
        kept: tuple[tuple[StreamName, bytes], ...] = (("stdout", stdout), ("stderr", stderr))
        for name, data in kept:
            self._queue.put((name, data[self._taken[name] :]))
        self._queue.put(None)
        while self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, 0.2)
        if self.broken is not None:
            raise self.broken

    def _write_all(self) -> None:
        try:
            while (item := self._queue.get()) is not None:
                self._write(*item)
                self._written += len(item[1])
            for name, escaper in self._escapers.items():
                if escaper is not None:
                    self._put(name, escaper.close().encode("utf-8", "backslashreplace"))
        except (OSError, ValueError) as error:
            self.broken = error if isinstance(error, OSError) else BrokenPipeError()
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._give_up)

    def _write(self, name: StreamName, data: bytes) -> None:
        escaper = self._escapers[name]
        self._put(name, data if escaper is None else escaper.feed(data).encode("utf-8", "backslashreplace"))

    def _put(self, name: StreamName, data: bytes) -> None:
        stream = sys.stdout if name == "stdout" else sys.stderr
        if data and stream is not None:
            handle = stream.fileno()
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]

    def _give_up(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()


def is_watched(stream: TextIO | None) -> bool:
    """Return True when a terminal or a CI log is at the other end, where control sequences do harm.

    A pipe in CI may be the log itself; a regular file is not.
    """
    try:
        if stream is None:
            return False
        return stream.isatty() or (in_ci() and not stat.S_ISREG(os.fstat(stream.fileno()).st_mode))
    except (OSError, ValueError):
        return False
