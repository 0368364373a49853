"""Which files changed while a command ran: by the kernel's change time, which no program can set.

A tmpfs does not move the time of a file that is written through a mapping: what is found is no proof of what is not.
"""

from __future__ import annotations

import os
import time

from . import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .identity import Identity

MAX_LOOKED = 20_000  # names that are looked at after one command: some 60 ms
BETWEEN_LOOKS = 64  # names between two looks at the clock
MAX_TOLD = 100
MAX_TOLD_BYTES = 32 * 1024
MAX_DEPTH = 200  # each level holds a handle
MAX_SKEW_NS = 1_000_000
SLEW = 1000  # no more than a thousandth is the clock made faster or slower; what is more was a jump
MARK = "/run/mindx/group"


class Moment:
    """A point of the file systems' own time; what changes later has no earlier one, unless the clock is set back."""

    __slots__ = ("began_ns", "ctime_ns", "offset_ns")

    def __init__(self, mark: int) -> None:
        """Take the moment of now, with a handle of a file that nobody else touches. Raises OSError.

        A file's time has the grain of the kernel's tick, up to 10 ms. Where the kernel has finer ones (6.13 and newer),
        a file whose time has been looked at gets one, and no later change of any file gets an earlier one.
        """
        os.utime(mark)
        os.fstat(mark)
        os.utime(mark)
        self.ctime_ns = os.fstat(mark).st_ctime_ns
        self.began_ns = time.monotonic_ns()
        self.offset_ns = time.time_ns() - self.began_ns

    def holds(self) -> bool:
        """Return whether the clock has not been set since."""
        now_ns = time.monotonic_ns()
        skew_ns = abs(time.time_ns() - now_ns - self.offset_ns)
        return skew_ns < MAX_SKEW_NS + (now_ns - self.began_ns) // SLEW


class Changed:
    """What has changed: the first names (a directory's end in /), how many there are, and whether that is all."""

    __slots__ = ("complete", "count", "held_bytes", "names")

    def __init__(self) -> None:
        self.names: list[bytes] = []
        self.count = 0
        self.complete = True
        self.held_bytes = 0

    def add(self, name: bytes) -> None:
        """Count a name, and keep it while there is room."""
        self.count += 1
        if len(self.names) < MAX_TOLD and self.held_bytes + len(name) <= MAX_TOLD_BYTES:
            self.names.append(name)
            self.held_bytes += len(name)


def changed_since(moment: Moment, root: files.Root, identity: Identity, until_ns: int) -> Changed:
    """Look through the workspace for what has changed since a moment, until `until_ns` (monotonic) at the latest.

    The loop stands still meanwhile, and a command beside may have its deadline.
    """
    identity.enter()
    try:
        found = _Walk(moment.ctime_ns, identity, until_ns).run(root)
    finally:
        identity.leave()
    if not moment.holds():
        found.complete = False
    return found


class _Walk:
    """A walk that changes nothing: a directory without the right to read it is passed over, and that is said."""

    def __init__(self, since_ns: int, identity: Identity, until_ns: int) -> None:
        self.found = Changed()
        self._since_ns = since_ns
        self._identity = identity
        self._until_ns = until_ns
        self._left = MAX_LOOKED
        self._levels: list[tuple[int, bytes, list[tuple[bytes, int]]]] = []  # handle, prefix, (name, owner) below it

    def run(self, root: files.Root) -> Changed:
        top = root.open_directory(files.WORKSPACE)
        if os.fstat(top).st_ctime_ns >= self._since_ns:
            self.found.add(b"./")
        try:
            self._scan(top, b"", self._identity.uid)
            while self._levels and self._left > 0:
                handle, prefix, below = self._levels[-1]
                if below:
                    self._enter(handle, prefix, *below.pop())
                else:
                    os.close(self._levels.pop()[0])
        finally:
            for handle, _, _ in self._levels:
                os.close(handle)
        return self.found

    def _enter(self, parent: int, prefix: bytes, name: bytes, uid: int) -> None:
        if len(self._levels) >= MAX_DEPTH:
            self.found.complete = False
            return
        try:
            handle = self._identity.as_user(uid, _open_below, name, parent)
        except OSError as error:
            if error.errno not in files.VANISHED:
                self.found.complete = False
            return
        self._scan(handle, prefix + name + b"/", uid)

    def _scan(self, handle: int, prefix: bytes, uid: int) -> None:
        below: list[tuple[bytes, int]] = []
        self._levels.append((handle, prefix, below))
        try:
            self._identity.as_user(uid, self._look, handle, prefix, below)
        except OSError:
            self.found.complete = False

    def _look(self, handle: int, prefix: bytes, below: list[tuple[bytes, int]]) -> None:
        with os.scandir(handle) as entries:
            for entry in entries:
                self._left -= 1
                if self._left % BETWEEN_LOOKS == 0 and time.monotonic_ns() > self._until_ns:
                    self._left = 0
                if self._left <= 0:
                    self.found.complete = False
                    return
                try:
                    seen = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # a command beside this one took it away
                name = os.fsencode(entry.name)
                is_directory = seen.st_mode & 0o170000 == 0o040000
                if is_directory:
                    below.append((name, seen.st_uid))
                if seen.st_ctime_ns >= self._since_ns:
                    self.found.add(prefix + name + (b"/" if is_directory else b""))


def _open_below(name: bytes, parent: int) -> int:
    return os.open(name, files.FOLDER, dir_fd=parent)
