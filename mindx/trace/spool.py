"""The spool: what each step of a Run printed, each stream in a file of the run's folder, for its user only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from mindx.errors import InputError, StateError

FOLDER = "output"
MAX_LINE_BYTES = 64 * 1024
MAX_BYTES = 1024 * 1024 * 1024  # of one run, where no policy says another number
_COMPARED_BYTES = 1024 * 1024
SpoolName = Literal["stdout", "stderr", "result.json"]


class Kept(NamedTuple):
    """What is kept of one stream: the file's name in the run's folder ("": none), and how many bytes had no room."""

    name: str
    left_out_bytes: int = 0


class _Live:
    """A file that is written while its step runs."""

    __slots__ = ("handle", "size")

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.size = 0

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            written = os.write(self.handle, view)
            self.size += written
            view = view[written:]

    def begins(self, data: bytes) -> bool:
        """Return whether the data begins with what is in the file."""
        for at in range(0, self.size, _COMPARED_BYTES):
            piece = os.pread(self.handle, min(_COMPARED_BYTES, self.size - at), at)
            if not piece or piece != data[at : at + len(piece)]:
                return False
        return True

    def empty(self) -> None:
        os.ftruncate(self.handle, 0)
        os.lseek(self.handle, 0, os.SEEK_SET)
        self.size = 0


class Spool:
    """The spool of one run's folder. Steps count from 1, as people are shown them.

    A stream that stayed empty has no file. All files together hold at most `max_bytes`; a line at the end of a file
    says how much had no room.
    """

    def __init__(self, run_folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path = run_folder / FOLDER
        self._left = max_bytes
        self._step = 0
        self._live: dict[SpoolName, _Live] = {}

    def begin(self, step: int) -> None:
        """Write from now on what `hear` is told of into the files of this step."""
        self.close()
        self._step = step

    def hear(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Write a piece of output as it comes. What cannot be written now is tried again by `keep`, which tells."""
        if not self._step or not data:
            return
        room = memoryview(data)[: self._left]
        try:
            live = self._live.get(stream) or self._open(self._step, stream)
            before = live.size
            try:
                live.write(room)
            finally:
                self._left -= live.size - before
        except OSError:
            return

    def keep(self, step: int, name: SpoolName, data: bytes) -> Kept:
        """Keep what came from a step, with what `hear` has written of it already. Raises StateError.

        A result that does not fit is left out whole: a part of it is no JSON.
        """
        live = self._live.get(name) if step == self._step else None
        if not data and live is None:
            return Kept("")
        try:
            if name == "result.json" and len(data) > self._left:
                return Kept("", len(data))
            if live is None:
                live = self._open(step, name)
            if not live.begins(data):
                self._left += live.size
                live.empty()
            left_out = self._append(live, memoryview(data)[live.size :])
            if not live.size:
                os.unlink(self._file(step, name))
                return Kept("", left_out)
        except OSError as error:
            path = self._file(step, name)
            raise StateError(
                "output_unwritable",
                f"the output {path} cannot be written: {error.strerror}; free space and run again",
                details={"path": str(path), "errno": error.errno},
            ) from error
        finally:
            if live is not None:
                if self._live.get(name) is live:
                    del self._live[name]
                os.close(live.handle)
        return Kept(f"{FOLDER}/{step}.{name}", left_out)

    def settle(self, step: int) -> dict[SpoolName, Kept]:
        """Keep what `hear` has written of a step that gave no output of its own, such as one that was cancelled."""
        heard = {name: Kept(f"{FOLDER}/{step}.{name}") for name in self._live if step == self._step}
        self.close()
        return heard

    def drop(self, step: int) -> None:
        """Remove what `hear` has written of a step: what a tool's own helpers printed is no output of the step."""
        names = tuple(self._live) if step == self._step else ()
        self._left += sum(live.size for live in self._live.values()) if names else 0
        self.close()
        for name in names:
            with suppress(OSError):
                os.unlink(self._file(step, name))

    def _append(self, live: _Live, rest: memoryview) -> int:
        """Write what has room and return how many bytes have not; they are marked where something stands before."""
        before = live.size
        try:
            live.write(rest[: self._left])
        finally:
            self._left -= live.size - before
        left_out = len(rest) - (live.size - before)
        if left_out and live.size:
            live.write(b"\n[mindx: %d bytes left out: the run may keep no more output]\n" % left_out)
        return left_out

    def _file(self, step: int, name: SpoolName) -> Path:
        return self.path / f"{step}.{name}"

    def _open(self, step: int, name: SpoolName) -> _Live:
        """Make a file. Raises OSError, also when it is there: no two steps have the same number."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        live = _Live(os.open(self._file(step, name), flags, 0o600))
        if step == self._step:
            self._live[name] = live
        return live

    def close(self) -> None:
        """Write no more of the step that runs."""
        for live in self._live.values():
            os.close(live.handle)
        self._live.clear()
        self._step = 0

    def holds(self, step: int) -> bool:
        """Return True when something is kept of a step."""
        return any((self.path / f"{step}.{name}").is_file() for name in ("stdout", "stderr", "result.json"))

    def open(self, step: int, name: SpoolName) -> BinaryIO | None:
        """Open what was kept, or return None when there is nothing. Raises InputError when it cannot be read."""
        path = self._file(step, name)
        try:
            return os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError("output_unreadable", f"{path} cannot be read: {error.strerror}") from error


def lines_of(file: BinaryIO, needle: bytes = b"", max_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines that hold `needle`, without their ends, of whatever size the file is.

    A line longer than `max_bytes` (8 or more) comes in pieces of about that size, no UTF-8 character cut in two; of
    pieces that have the needle between them the second comes.
    """
    overlap = max(len(needle) - 1, 0)
    before = held = b""
    while piece := file.readline(max_bytes - len(held)):
        piece = held + piece
        ended = piece.endswith(b"\n")
        whole = len(piece) if ended else _whole_characters(piece)
        piece, held = piece[:whole], piece[whole:]
        if not needle or needle in before + piece:
            yield piece.removesuffix(b"\n")
        before = piece[len(piece) - overlap :] if overlap and not ended else b""
    if held and (not needle or needle in before + held):
        yield held


def _whole_characters(data: bytes) -> int:
    """Return how many bytes come before a UTF-8 character that the end of the data cuts."""
    for back in range(1, min(len(data), 4)):
        byte = data[-back]
        if byte >= 0xC0:  # it starts a character of 2, 3 or 4 bytes
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if needed > back else len(data)
        if byte < 0x80:
            break
    return len(data)
