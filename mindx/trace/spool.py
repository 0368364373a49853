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

    A longer line than `max_bytes` comes in pieces of that size; of a needle that lies across two of them the second
    comes.
    """
    before = b""
    while piece := file.readline(max_bytes):
        if not needle or needle in before + piece:
            yield piece.removesuffix(b"\n")
        before = b"" if piece.endswith(b"\n") else piece[-(len(needle) - 1) :] if len(needle) > 1 else b""
