"""Files of the host reached by directory handle: no component of a path is ever followed if it is a link.

A path that was checked and then opened by name can be swapped in between; a handle cannot. Every function here
walks from an open root, one name at a time, with O_NOFOLLOW. Paths are relative, with `/` between names;
bytes that are no UTF-8 travel as surrogate escapes (PEP 383).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO must not wait for a writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
CHUNK_BYTES = 256 * 1024
MAX_PATH_BYTES = 4096
STAGING_PREFIX = ".mindx-apply-"  # a folder that an apply makes in its target for a moment


def is_relative(path: str, max_bytes: int = MAX_PATH_BYTES) -> bool:
    """Return True for a relative path of plain names: no empty name, no `.`, no `..`, no NUL, below `max_bytes`."""
    if not path or "\0" in path:
        return False
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return False
    if len(raw) >= max_bytes:
        return False
    return all(name not in ("", ".", "..") and len(os.fsencode(name)) <= 255 for name in path.split("/"))


def open_root(folder: str) -> int:
    """Return a handle on a folder; its own name must not be a link. The caller closes it. Raises OSError."""
    # A trailing slash would make the kernel follow a link in spite of O_NOFOLLOW.
    return os.open(folder.rstrip("/") or "/", _DIRECTORY)


def open_directory(root: int, path: str) -> int:
    """Return a handle on the directory `path` ("" is the root itself). The caller closes it.

    Raises OSError: ELOOP or ENOTDIR where a name is a link or no directory, ENOENT where it is missing.
    """
    handle = os.dup(root)
    for name in path.split("/") if path else ():
        try:
            below = os.open(name, _DIRECTORY, dir_fd=handle)
        finally:
            os.close(handle)
        handle = below
    return handle


@contextmanager
def parent_of(root: int, path: str) -> Iterator[tuple[int, str]]:
    """Give a handle on the directory that holds `path`, and the last name. Raises OSError."""
    folder, _, name = path.rpartition("/")
    handle = open_directory(root, folder)
    try:
        yield handle, name
    finally:
        os.close(handle)


def open_regular(directory: int, name: str) -> int:
    """Return a handle for reading a regular file of `directory`. Raises OSError; ValueError if it is none."""
    handle = os.open(name, _READ, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError(f"{name!r} is not a regular file")
    return handle


def read_chunks(handle: int) -> Iterator[bytes]:
    """Yield what an open file holds from where it stands."""
    while chunk := os.read(handle, CHUNK_BYTES):
        yield chunk


def look(directory: int, name: str) -> os.stat_result | None:
    """Return what `name` is, a link being a link; None if there is nothing."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def kind_of(mode: int) -> str:
    """Return `file`, `directory`, `link` or `other` for a stat mode."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


def write_all(handle: int, data: bytes) -> None:
    """Write all of `data`. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
