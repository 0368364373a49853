"""File operations by directory handle: no part of a path is ever a followed link.

A plain open would make PID 1 a deputy: a planted link to /proc/self/maps reads the guest's own. Every walk opens
component by component with O_NOFOLLOW, as the agent's effective ids, and every file is looked at before it is read.
"""

from __future__ import annotations

import errno
import os
import stat

from . import wire

WORKSPACE = b"/workspace"
VANISHED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # removed or replaced since it was listed
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def fail(number: int, text: str = "") -> OSError:
    """Return an OSError with the system's own text, or `text`."""
    return OSError(number, text or os.strerror(number))


class Root:
    """The workspace, held by a handle, so that nothing can be put in its place."""

    def __init__(self) -> None:
        self._handle = os.open(WORKSPACE, FOLDER)

    def _parts(self, path: bytes) -> list[bytes]:
        if path != WORKSPACE and not path.startswith(WORKSPACE + b"/"):
            raise fail(errno.EPERM, "outside the workspace")
        parts = path[len(WORKSPACE) + 1 :].split(b"/") if len(path) > len(WORKSPACE) else []
        if b"\0" in path or any(part in (b"", b".", b"..") for part in parts):
            raise fail(errno.EINVAL, "not a normalised path")
        return parts

    def _walk(self, parts: list[bytes]) -> int:
        handle = os.dup(self._handle)
        for part in parts:
            try:
                below = os.open(part, FOLDER, dir_fd=handle)
            except OSError as error:
                if error.errno == errno.ENOTDIR and is_link(part, handle):
                    raise fail(errno.ELOOP) from None
                raise
            finally:
                os.close(handle)
            handle = below
        return handle

    def enter(self, path: bytes) -> None:
        """Make a directory the current one. Raises OSError: ENOENT, ENOTDIR, ELOOP, EACCES."""
        if path == WORKSPACE:
            os.fchdir(self._handle)
            return
        handle = self.open_directory(path)
        try:
            os.fchdir(handle)
        finally:
            os.close(handle)

    def open_directory(self, path: bytes) -> int:
        """Return a handle on a directory. Raises OSError: ENOENT, ENOTDIR, ELOOP, EACCES."""
        return self._walk(self._parts(path))

    def open_parent(self, path: bytes) -> tuple[int, bytes]:
        """Return a handle on the directory that holds `path`, and the last name. Raises OSError, EBUSY for the root."""
        parts = self._parts(path)
        if not parts:
            raise fail(errno.EBUSY, "the workspace itself")
        return self._walk(parts[:-1]), parts[-1]

    def make_directory(self, path: bytes) -> None:
        """Make a directory and its missing parents. Raises OSError: EEXIST, ENOTDIR, ELOOP, ENOSPC."""
        handle = os.dup(self._handle)
        try:
            parts = self._parts(path)
            for depth, part in enumerate(parts, 1):
                try:
                    os.mkdir(part, 0o775, dir_fd=handle)
                except FileExistsError:
                    pass
                try:
                    below = os.open(part, FOLDER, dir_fd=handle)
                except NotADirectoryError:
                    if is_link(part, handle):
                        raise fail(errno.ELOOP) from None
                    raise fail(errno.EEXIST if depth == len(parts) else errno.ENOTDIR) from None
                os.close(handle)
                handle = below
        finally:
            os.close(handle)

    def open_file(self, path: bytes, max_bytes: int) -> tuple[int, int]:
        """Return a handle on a regular file and its size. Raises OSError: ELOOP, EISDIR, EINVAL, EFBIG, ENOENT."""
        parent, name = self.parent_of_file(path)
        try:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        finally:
            os.close(parent)
        try:
            seen = os.fstat(handle)
            if stat.S_ISDIR(seen.st_mode):
                raise fail(errno.EISDIR)
            if not stat.S_ISREG(seen.st_mode):
                raise fail(errno.EINVAL, "not a regular file")
            if seen.st_size > max_bytes:
                raise fail(errno.EFBIG, "%d bytes, more than %d" % (seen.st_size, max_bytes))
        except BaseException:
            os.close(handle)
            raise
        return handle, seen.st_size

    def parent_of_file(self, path: bytes) -> tuple[int, bytes]:
        """Return what open_parent does, but EISDIR for the root."""
        if path == WORKSPACE:
            raise fail(errno.EISDIR)
        return self.open_parent(path)

    def remove(self, path: bytes) -> None:
        """Remove a file or link. Raises OSError: ENOENT, EISDIR."""
        parent, name = self.parent_of_file(path)
        try:
            if stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
                raise fail(errno.EISDIR)
            os.unlink(name, dir_fd=parent)
        finally:
            os.close(parent)

    def look(self, path: bytes) -> bytes:
        """Return the EntryRecord of one path. Raises OSError ENOENT."""
        if path == WORKSPACE:
            return entry_of(path, os.fstat(self._handle))
        parent, name = self.open_parent(path)
        try:
            return entry_of(path, os.lstat(name, dir_fd=parent))
        finally:
            os.close(parent)


def is_link(name: bytes, folder: int) -> bool:
    """Return whether a name in a folder is a symbolic link."""
    try:
        return stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode)
    except OSError:
        return False


def kind_of(mode: int) -> int:
    """Return the wire's kind of a st_mode."""
    if stat.S_ISREG(mode):
        return wire.KIND_FILE
    if stat.S_ISDIR(mode):
        return wire.KIND_DIRECTORY
    return wire.KIND_LINK if stat.S_ISLNK(mode) else wire.KIND_OTHER


def entry_of(path: bytes, seen: os.stat_result, sha256: bytes = b"", target: bytes = b"") -> bytes:
    """Return the EntryRecord of what was seen; a directory's size counts as 0."""
    kind = kind_of(seen.st_mode)
    size = 0 if kind == wire.KIND_DIRECTORY else seen.st_size
    return wire.pack_entry(path, kind, seen.st_mode & 0o7777, size, seen.st_mtime_ns, sha256, target)


class NewFile:
    """A file being written: a temporary name beside the target, then one rename."""

    def __init__(self, root: Root, path: bytes, mode: int, size: int) -> None:
        self.left = size
        self._mode = mode
        self._parent, self._name = root.parent_of_file(path)
        self._temporary = b".mindx-%s.part" % os.urandom(8).hex().encode()
        try:
            try:
                seen = os.lstat(self._name, dir_fd=self._parent)
            except FileNotFoundError:
                self._mode = 0o664 if mode < 0 else mode
            else:
                self._refuse_unfit(seen.st_mode)
                self._mode = seen.st_mode & 0o777 if mode < 0 else mode
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._handle = os.open(self._temporary, flags, 0o600, dir_fd=self._parent)
        except BaseException:
            os.close(self._parent)
            raise

    @staticmethod
    def _refuse_unfit(mode: int) -> None:
        if stat.S_ISLNK(mode):
            raise fail(errno.ELOOP)
        if stat.S_ISDIR(mode):
            raise fail(errno.EISDIR)
        if not stat.S_ISREG(mode):
            raise fail(errno.EINVAL, "not a regular file")

    def write(self, data: bytes) -> None:
        """Append. Raises OSError: ENOSPC; EPROTO when more comes than was said."""
        if len(data) > self.left:
            raise fail(errno.EPROTO)
        self.left -= len(data)
        write_all(self._handle, data)

    def finish(self) -> None:
        """Put the file in its place."""
        os.fchmod(self._handle, self._mode & 0o777)
        os.rename(self._temporary, self._name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        os.close(self._handle)
        os.close(self._parent)

    def abandon(self) -> None:
        """Leave nothing of it."""
        os.close(self._handle)
        try:
            os.unlink(self._temporary, dir_fd=self._parent)
        except OSError:
            pass
        os.close(self._parent)


def write_all(handle: int, data: bytes) -> None:
    """Write every byte. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
