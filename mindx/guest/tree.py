"""Work on many files, in slices between the turns of the loop: bulk copy, listing, manifest, long reads.

One listdir of 200,000 names would block PID 1 for 240 ms and take 107 MiB; a million would lose the session.
"""

from __future__ import annotations

import errno
import os
import stat

from . import files, streams, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from .identity import Identity

    T = TypeVar("T")
    Seen = tuple[int, int, int]

MAX_LIST = 100_000
MAX_DEPTH = 200  # each level holds a handle; a deeper directory is listed as `other` and not entered
BATCH_BYTES = 64 * 1024
SLACK_BYTES = 16 << 20
TRIES = 100  # against a command in the background that takes its own folder's rights away again and again


def seen_of(found: os.stat_result) -> Seen:
    """Return what a walk keeps of a name that it looked at: permission bits, owner, inode."""
    return found.st_mode & 0o7777, found.st_uid, found.st_ino


def list_directory(root: files.Root, path: bytes) -> Iterator[bytes]:
    """Yield payloads of EntryRecords; an empty one only ends a slice. Raises OSError, E2BIG over MAX_LIST names."""
    handle = root.open_directory(path)
    count = 0
    batch: list[bytes] = []
    try:
        with os.scandir(handle) as found:
            for entry in found:
                count += 1
                if count > MAX_LIST:
                    raise files.fail(errno.E2BIG, "more than %d names" % MAX_LIST)
                name = os.fsencode(entry.name)
                try:
                    seen = os.lstat(name, dir_fd=handle)
                except FileNotFoundError:
                    continue
                batch.append(files.entry_of(name, seen))
                if len(batch) >= 256:
                    yield b"".join(batch)
                    batch = []
    finally:
        os.close(handle)
    yield b"".join(batch)


def read_file(handle: int, size: int) -> Iterator[bytes]:
    """Yield the bytes of an open file up to `size`, which was its size when it was opened; closes it at the end."""
    try:
        while size:
            data = os.read(handle, min(size, wire.CHUNK))
            if not data:
                return
            size -= len(data)
            yield data
    finally:
        os.close(handle)


def open_lent(name: bytes, folder: int, flags: int, mode: int) -> int:
    """Open what is one's own even if one took the right away: lend the right, open, restore the mode.

    Without this a `chmod 0` would make files look deleted. Raises OSError.
    """
    try:
        return os.open(name, flags, dir_fd=folder)
    except PermissionError:
        os.chmod(name, mode | 0o700, dir_fd=folder)
        try:
            return os.open(name, flags, dir_fd=folder)
        finally:
            os.chmod(name, mode, dir_fd=folder)


def open_as_owner(name: bytes, level: Level, flags: int, seen: Seen) -> int:
    """Open a file or directory of any user of the session as this very user. Raises OSError.

    The name is looked up as the folder's user and held by a handle, which the owner opens without a way to it: the
    folder may be closed to the owner, and nothing can be put in its place meanwhile.
    """
    mode, uid, inode = seen
    if uid == level.uid or not level.identity.owns(uid):
        return level.identity.as_user(level.uid, open_lent, name, level.handle, flags, mode)
    pinned = level.within(pin, name)
    try:
        if os.fstat(pinned).st_ino != inode:
            raise files.fail(errno.ENOENT)  # replaced since it was looked at
        path = b"/proc/self/fd/%d" % pinned
        return level.identity.as_user(uid, open_lent, path, -1, flags & ~os.O_NOFOLLOW, mode)
    finally:
        os.close(pinned)


def pin(name: bytes, folder: int) -> int:
    """Return a handle on a name that can neither be read nor written. Raises OSError."""
    return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def look(name: bytes, folder: int) -> os.stat_result:
    """Look at a name without following a link. Raises OSError."""
    return os.lstat(name, dir_fd=folder)


def read_link(name: bytes, folder: int) -> bytes:
    """Return the text of a link. Raises OSError."""
    return os.readlink(name, dir_fd=folder)


def hash_file(name: bytes, level: Level, seen: Seen, max_bytes: int) -> Iterator[bytes]:
    """Yield b"" between slices and last the raw SHA-256 of a regular file.

    It is b"" when the file cannot be read, is no regular file any more, or grows over `max_bytes`.
    """
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = open_as_owner(name, level, flags, seen)
    except OSError:
        return
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return
        digest = streams.new_sha256()
        left = max_bytes
        while True:
            data = os.read(handle, wire.MAX_PAYLOAD)
            if not data:
                break
            left -= len(data)
            if left < 0:
                return
            digest.update(data)  # type: ignore[attr-defined]
            if len(data) == wire.MAX_PAYLOAD:
                yield b""
        yield digest.digest()  # type: ignore[attr-defined]
    finally:
        os.close(handle)


class Level:
    """One open directory of a walk and the subdirectories that are still to be entered.

    What is in it is looked at as its owner: a command in the background has a user of its own and may have closed its
    folder to all others.
    """

    __slots__ = ("handle", "identity", "lent", "mode", "prefix", "uid", "waiting")

    def __init__(self, identity: Identity, handle: int, prefix: bytes, seen: Seen) -> None:
        self.identity = identity
        self.handle = handle
        self.prefix = prefix
        self.mode, uid, _ = seen
        self.uid = uid if identity.owns(uid) else identity.uid
        self.lent = False  # the mode is to be given back at the end
        self.waiting: list[tuple[bytes, Seen]] = []

    @classmethod
    def below(cls, level: Level, name: bytes, seen: Seen) -> Level:
        """Enter a directory; without the right to read and search it, lend that until `close`. Raises OSError."""
        handle = open_as_owner(name, level, files.FOLDER, seen)
        below = cls(level.identity, handle, level.prefix + name + b"/", seen)
        if below.mode & 0o500 != 0o500:
            try:
                below.lend()
            except OSError:
                os.close(handle)
                raise
        return below

    def lend(self) -> None:
        """Give its owner all rights until `close`. Raises OSError."""
        self.identity.as_user(self.uid, os.fchmod, self.handle, self.mode | 0o700)
        self.lent = True

    def within(self, work: Callable[[bytes, int], T], name: bytes) -> T:
        """Return what `work` does with a name in it, as its owner; a right that is missing is lent. Raises OSError."""
        for _ in range(TRIES):
            try:
                return self.identity.as_user(self.uid, work, name, self.handle)
            except PermissionError:
                self.lend()
        return self.identity.as_user(self.uid, work, name, self.handle)

    def close(self) -> None:
        """Give the mode back and let go."""
        try:
            if self.lent:
                self.identity.as_user(self.uid, os.fchmod, self.handle, self.mode)
        finally:
            os.close(self.handle)


class Manifest:
    """A walk over the whole workspace, depth first, that holds one handle a level."""

    def __init__(self, root: files.Root, identity: Identity, max_entries: int) -> None:
        handle = root.open_directory(files.WORKSPACE)
        self._levels = [Level(identity, handle, b"", seen_of(os.fstat(handle)))]
        room = os.fstatvfs(self._levels[0].handle)
        # Files with holes may claim exabytes. What the workspace can hold is read once over, and no more.
        self._content_left = room.f_blocks * room.f_frsize + SLACK_BYTES
        self._left = max_entries
        self._max_entries = max_entries

    def walk(self) -> Iterator[bytes]:
        """Yield payloads of EntryRecords relative to the workspace; empty ones end slices. Raises OSError E2BIG."""
        try:
            yield from self._scan(self._levels[0])
            while self._levels:
                level = self._levels[-1]
                if not level.waiting:
                    self._levels.pop().close()
                    continue
                name, seen = level.waiting.pop()
                try:
                    below = self._enter(level, name, seen)
                except OSError as error:
                    if error.errno in files.VANISHED:
                        continue
                    raise  # what cannot be seen must not look deleted
                self._levels.append(below)
                yield from self._scan(below)
        finally:
            for level in self._levels:
                level.close()

    @staticmethod
    def _enter(level: Level, name: bytes, seen: Seen) -> Level:
        for _ in range(TRIES):
            try:
                return Level.below(level, name, seen)
            except PermissionError:
                continue  # its owner took away what was just lent
        return Level.below(level, name, seen)

    def _scan(self, level: Level) -> Iterator[bytes]:
        batch: list[bytes] = []
        held = 0
        with os.scandir(level.handle) as found:
            for entry in found:
                self._left -= 1
                if self._left < 0:
                    raise files.fail(errno.E2BIG, "more than %d files" % self._max_entries)
                name = os.fsencode(entry.name)
                for record in self._examine(name, level):
                    batch.append(record)
                    held += len(record) or BATCH_BYTES // 64
                if held >= BATCH_BYTES:
                    yield b"".join(batch)
                    batch, held = [], 0
        yield b"".join(batch)

    def _examine(self, name: bytes, level: Level) -> Iterator[bytes]:
        try:
            seen = level.within(look, name)
        except FileNotFoundError:
            return
        kind = files.kind_of(seen.st_mode)
        sha256 = target = b""
        if kind == wire.KIND_DIRECTORY:
            if len(self._levels) < MAX_DEPTH:
                level.waiting.append((name, seen_of(seen)))
            else:
                kind = wire.KIND_OTHER
        elif kind == wire.KIND_LINK:
            try:
                target = level.within(read_link, name)
            except OSError:
                return  # replaced since it was looked at
        elif kind == wire.KIND_FILE and seen.st_size <= self._content_left:
            self._content_left -= seen.st_size
            for digest in hash_file(name, level, seen_of(seen), seen.st_size + SLACK_BYTES):
                sha256 = digest
                yield b""
        size = 0 if kind == wire.KIND_DIRECTORY else seen.st_size
        mode = seen.st_mode & 0o7777
        yield wire.pack_entry(level.prefix + name, kind, mode, size, seen.st_mtime_ns, sha256, target)
