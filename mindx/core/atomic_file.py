"""Files that are whole or as they were: written beside, synced, and put in place by one rename."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, data: bytes | Iterable[bytes], *, mode: int = 0o600) -> None:
    """Put `data`, whole or in pieces, in the place of a file; it is on the disk when this returns.

    `mode` is what a new file is made with, less the umask. Whatever is raised (OSError, or what the pieces raise), the
    file is as it was and nothing lies beside it.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines((data,) if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last through a power cut. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
