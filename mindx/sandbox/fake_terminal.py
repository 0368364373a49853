"""The terminal of a program of the fake sandbox: a line discipline that knows line ends, ^D and ^C, and echoes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from mindx.core.command import Terminal

INTERRUPT, END, LINE_END = 3, 4, 10


class FakeTerminal:
    """What is typed comes to the program line by line; what it prints, and the echo, go to whoever is connected."""

    def __init__(self, size: Terminal) -> None:
        self.size = size
        self._early = bytearray()  # shown before anybody was connected
        self._show: Callable[[bytes], object] = self._early.extend
        self._interrupted = asyncio.Event()
        self._line = bytearray()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()

    def connect(self, show: Callable[[bytes], None]) -> None:
        """Show what comes, and came, to `show`."""
        self._show = show
        show(bytes(self._early))

    def type(self, data: bytes) -> None:
        """Take what a person types."""
        for byte in data.replace(b"\r", b"\n"):
            if byte == INTERRUPT:
                self.write(b"^C")
                self._interrupted.set()
            elif byte == END:
                self._end_line()
            else:
                self.write(bytes([byte]))
                self._line.append(byte)
                if byte == LINE_END:
                    self._end_line()

    def _end_line(self) -> None:
        self._lines.put_nowait(bytes(self._line))
        self._line.clear()

    async def read(self) -> bytes:
        """Return the next line, b"" at the end."""
        return await self._lines.get()

    def write(self, data: bytes) -> None:
        """Print."""
        self._show(data.replace(b"\n", b"\r\n"))

    async def until_interrupt(self, work: Coroutine[Any, Any, int]) -> int | None:
        """Return what the program returns, or None when ^C has ended it."""
        program, interrupt = asyncio.ensure_future(work), asyncio.ensure_future(self._interrupted.wait())
        try:
            await asyncio.wait((program, interrupt), return_when=asyncio.FIRST_COMPLETED)
            return program.result() if program.done() else None
        finally:
            program.cancel()
            interrupt.cancel()
