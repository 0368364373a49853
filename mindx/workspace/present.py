"""Present: what stands on the host right now, looked at by directory handle."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from typing import NamedTuple

from mindx.workspace.changes import State
from mindx.workspace.handle import look, open_directory, open_regular, parent_of, read_chunks

_BLOCKED = (errno.ELOOP, errno.ENOTDIR)


class Fingerprint(NamedTuple):
    """What tells a file that was looked at from one that was written meanwhile."""

    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Fingerprint:
        """Return the fingerprint of a stat result."""
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


class Present(NamedTuple):
    """What stands at a path: None for nothing. `fingerprint` is None but for files and links."""

    state: State | None
    fingerprint: Fingerprint | None = None


class PathBlocked(Exception):
    """A folder on the way is a link or no folder, so nothing can be said or done below it."""


def present(root: int, path: str, sink: Callable[[bytes], object] | None = None) -> Present:
    """Return what stands at `path` under the handle `root`, a link being a link; a file's bytes also go to `sink`.

    A missing folder on the way means nothing. Raises PathBlocked, OSError.
    """
    try:
        with parent_of(root, path) as (directory, name):
            status = look(directory, name)
            if status is None:
                return Present(None)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISDIR(status.st_mode):
                return Present(State("directory", mode & 0o777))
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink(name, dir_fd=directory)
                state = State("link", 0o777, len(os.fsencode(target)), target=target)
                return Present(state, Fingerprint.of(status))
            if not stat.S_ISREG(status.st_mode):
                return Present(State("other", mode))
            return _file(directory, name, sink)
    except FileNotFoundError:
        return Present(None)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in _BLOCKED:
            raise
        raise PathBlocked(str(error)) from None


def _file(directory: int, name: str, sink: Callable[[bytes], object] | None) -> Present:
    handle = open_regular(directory, name)
    try:
        status = os.fstat(handle)  # before reading: whoever writes meanwhile is noticed later
        digest, size = hashlib.sha256(), 0
        for chunk in read_chunks(handle):
            digest.update(chunk)
            size += len(chunk)
            if sink is not None:
                sink(chunk)
        state = State("file", stat.S_IMODE(status.st_mode), size, digest.hexdigest())
        return Present(state, Fingerprint.of(status))
    finally:
        os.close(handle)


def names_in(root: int, path: str) -> set[str]:
    """Return the names in a directory, none if it is not there. Raises PathBlocked, OSError."""
    try:
        handle = open_directory(root, path)
    except FileNotFoundError:
        return set()
    except OSError as error:
        if error.errno in _BLOCKED:
            raise PathBlocked(str(error)) from None
        raise
    try:
        return set(os.listdir(handle))
    finally:
        os.close(handle)
