"""The spool: what each step of a Run printed, each stream in a file of the run's folder, for its user only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from mindx.errors import InputError, StateError

FOLDER = "output"
MAX_LINE_BYTES = 64 * 1024
SpoolName = Literal["stdout", "stderr", "result.json"]


class Spool:
    """The spool of one run's folder. Steps count from 1, as people are shown them.

    A stream that stayed empty has no file.
    """

    def __init__(self, run_folder: Path) -> None:
        self.path = run_folder / FOLDER

    def keep(self, step: int, name: SpoolName, data: bytes) -> str:
        """Keep what came from a step; return the file's name in the run's folder, "" for nothing. Raises StateError."""
        if not data:
            return ""
        file_name = f"{step}.{name}"
        path = self.path / file_name
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb", buffering=0) as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
        except OSError as error:
            raise StateError(
                "output_unwritable",
                f"the output {path} cannot be written: {error.strerror}; free space and run again",
                details={"path": str(path), "errno": error.errno},
            ) from error
        return f"{FOLDER}/{file_name}"

    def holds(self, step: int) -> bool:
        """Return True when something is kept of a step."""
        return any((self.path / f"{step}.{name}").is_file() for name in ("stdout", "stderr", "result.json"))

    def open(self, step: int, name: SpoolName) -> BinaryIO | None:
        """Open what was kept, or return None when there is nothing. Raises InputError when it cannot be read."""
        path = self.path / f"{step}.{name}"
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
