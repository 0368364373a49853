"""Reading a trace back, and finding what was changed in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mindx.core.count import counted
from mindx.errors import InputError
from mindx.trace.event import GENESIS, BrokenLineError, Event, decode_line

MAX_LINE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Verification:
    """What is to be said of a trace. `head` is the digest of the last sound event.

    `problem` is "" or says what is wrong, at line `line` (from 1). `cut` is True when the last line is not whole,
    as a killed process or a full disk leaves it: that alone is no sign of a change. `differences` are what the run's
    document tells otherwise than the trace, where somebody looked; then `problem` says so.
    """

    events: int
    head: str
    problem: str = ""
    line: int | None = None
    cut: bool = False
    differences: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when nothing was changed."""
        return not self.problem


def read(path: Path) -> Iterator[Event]:
    """Yield the events; kinds that this version does not know come like the others, a cut last line is left out.

    Raises InputError when the file cannot be read or a line is not an event. The chain is `verify`'s business.
    """
    for number, line, whole in _lines(path):
        if not whole:
            return
        try:
            yield decode_line(line)
        except BrokenLineError as error:
            raise InputError("trace_broken", f"{path}, line {number}: {error}") from error


def verify(path: Path, *, events: int | None = None, head: str | None = None) -> Verification:
    """Check every line, its number and the chain; `events` and `head`, if known, pin the end.

    Raises InputError when the file cannot be read.
    """
    count, last = 0, GENESIS
    cut = False
    for number, line, whole in _lines(path):
        if not whole:
            cut = True
            break
        try:
            event = decode_line(line)
        except BrokenLineError as error:
            return Verification(count, last, f"line {number}: {error}", number)
        if event.prev != last:
            return Verification(count, last, f"line {number}: it does not follow the line before", number)
        if event.seq != count:
            return Verification(count, last, f"line {number}: its number is {event.seq}, not {count}", number)
        count, last = count + 1, event.sha256
    if (events is not None and events != count) or (head is not None and head != last):
        problem = f"it ends after {counted(count, 'event')}, not where the run's result says"
        return Verification(count, last, problem, cut=cut)
    return Verification(count, last, cut=cut)


def _lines(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Yield number, bytes and wholeness of each line."""
    try:
        with path.open("rb") as file:
            yield from _whole_lines(file)
    except OSError as error:
        raise InputError("trace_unreadable", f"the trace {path} cannot be read: {error.strerror}") from error


def _whole_lines(file: BinaryIO) -> Iterator[tuple[int, bytes, bool]]:
    number = 0
    while line := file.readline(MAX_LINE_BYTES):
        number += 1
        yield number, line.removesuffix(b"\n"), line.endswith(b"\n")
