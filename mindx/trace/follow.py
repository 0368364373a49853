"""Following a trace while it is written, without keeping a processor busy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from mindx.errors import InputError
from mindx.trace.event import BrokenLineError, Event, decode_line
from mindx.trace.recorder import is_being_written

WAIT_S = 0.2  # between two looks at a file that has not grown; files tell nobody that they grow
PIECE_BYTES = 1024 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024


async def follow(path: Path, *, wait_s: float = WAIT_S) -> AsyncIterator[Event]:
    """Yield the events that are there and those that come, until nobody writes any more.

    A cut last line is left out. Raises InputError when the file cannot be read or a line is not an event.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError("trace_unreadable", f"{path} cannot be read: {error.strerror}") from error
    with file:
        rest, number = b"", 0
        while True:
            open_before = is_being_written(path)  # looked at before the read: what was written last is still read
            grown = file.read(PIECE_BYTES)
            *lines, rest = (rest + grown).split(b"\n")
            for line in lines:
                number += 1
                try:
                    yield decode_line(line)
                except BrokenLineError as error:
                    raise InputError("trace_broken", f"{path}, line {number}: {error}") from error
            if len(rest) > MAX_LINE_BYTES:
                raise InputError("trace_broken", f"{path}, line {number + 1}: it is too long")
            if grown:
                continue
            if not open_before:
                return
            await asyncio.sleep(wait_s)
