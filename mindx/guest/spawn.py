"""Starting a program as the agent's uid, in the window in which PID 1 is that uid itself.

A living process of the uid could stop the child between vfork and exec, so the caller sweeps the uid first.
"""

from __future__ import annotations

import errno
import os

from . import files
from .identity import HOME, SLOTS, Identity, home_of
from .launch import IGNORED_BY_PYTHON, Launcher, mapping_of, with_variables
from .terminal import Pair
from .watchdog import Watch

SYSTEM_PATH = (b"/usr/local/sbin", b"/usr/local/bin", b"/usr/sbin", b"/usr/bin", b"/sbin", b"/bin")
BASE_ENV = {
    b"PATH": b":".join(SYSTEM_PATH),
    b"HOME": HOME,
    b"USER": b"agent",
    b"LOGNAME": b"agent",
    b"SHELL": b"/bin/sh",
    b"LANG": b"C.UTF-8",
    b"TMPDIR": b"/tmp",
    b"PYTHONDONTWRITEBYTECODE": b"1",
}


def make_home(home: bytes) -> None:
    """Make a home that is not there yet. Whoever was first to take its name in the shared /tmp keeps it."""
    try:
        os.mkdir(home, 0o700)
    except OSError:
        pass


def _environment_of(slot: int) -> list[bytes]:
    """Return what every program of a slot has, as texts `name=value`."""
    name = b"agent%d" % slot if slot else b"agent"
    return with_variables([], {**BASE_ENV, b"HOME": home_of(slot), b"USER": name, b"LOGNAME": name})


class NoFolder(OSError):
    """The working directory cannot be entered."""


class Spawned:
    """A started program: its pid and our ends of its pipes; `stdin` is None when it reads from /dev/null.

    With a terminal `stdin` and `stdout` are its master, `stderr` is -1, and `held` is to be closed at its end.
    """

    __slots__ = ("held", "pid", "stderr", "stdin", "stdout")

    def __init__(self, pid: int, stdin: int | None, stdout: int, stderr: int, held: int = -1) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.held = held


class Spawner:
    """Starts programs. What it looked up in the read-only system folders it remembers."""

    def __init__(self, identity: Identity, watch: Watch, root: files.Root) -> None:
        self._identity = identity
        self._watch = watch
        self._root = root
        self._null = os.open("/dev/null", os.O_RDWR)
        self._home = os.open("/", os.O_PATH | os.O_DIRECTORY)
        self._score = os.open("/proc/self/oom_score_adj", os.O_RDWR)
        self._start_score = os.pread(self._score, 16, 0).strip()
        self._launcher = Launcher()
        self._known: dict[bytes, bytes] = {}
        self._base = [_environment_of(slot) for slot in range(SLOTS)]

    def find(self, name: bytes) -> bytes:
        """Return the absolute path of a program of the image. Raises OSError ENOENT or EACCES."""
        known = self._known.get(name)
        if known is not None:
            return known
        if not name or b"/" in name:
            raise OSError(errno.ENOENT, "not a bare program name")
        refused = errno.ENOENT
        for folder in SYSTEM_PATH:
            path = folder + b"/" + name
            try:
                mode = os.stat(path).st_mode
            except OSError:
                continue
            if mode & 0o170000 == 0o100000 and mode & 0o001:
                self._known[name] = path
                return path
            refused = errno.EACCES
        raise OSError(refused, "no such program in the image")

    def spawn(
        self,
        slot: int,
        argv: list[bytes],
        cwd: bytes,
        env: list[bytes],
        executable: bytes,
        has_stdin: bool,
        terminal: tuple[int, int] | None = None,
    ) -> Spawned:
        """Start a program. Raises NoFolder, or OSError with the errno of the lookup or the exec."""
        path = executable or self.find(argv[0])
        uid = self._identity.uid_of(slot)
        environment = self._base[slot]
        if terminal or env:
            asked = mapping_of(env)
            environment = with_variables(environment, {b"TERM": b"xterm", **asked} if terminal else asked)
        self._watch.spawn_begins()
        os.pwrite(self._score, b"1000", 0)
        self._identity.become(uid)
        try:
            if slot:
                make_home(home_of(slot))
            if terminal:
                return self._start_in_terminal(path, argv, cwd, environment, terminal)
            return self._start(path, argv, cwd, environment, has_stdin)
        finally:
            self._identity.come_back()
            os.fchdir(self._home)
            os.pwrite(self._score, self._start_score, 0)
            self._watch.spawn_ended()

    def _start(self, path: bytes, argv: list[bytes], cwd: bytes, environment: list[bytes], has_stdin: bool) -> Spawned:
        # The pipes are made here so that the agent owns them: `> /dev/stderr` opens one anew.
        self._enter(cwd)
        opened: list[int] = []
        try:
            out_read, out_write = os.pipe()
            opened += (out_read, out_write)
            err_read, err_write = os.pipe()
            opened += (err_read, err_write)
            in_read, in_write = self._null, None
            if has_stdin:
                in_read, in_write = os.pipe()
                opened += (in_read, in_write)
            pid = self._launcher.start(path, argv, environment, in_read, out_write, err_write)
        except BaseException:
            for handle in opened:
                os.close(handle)
            raise
        for handle in (out_write, err_write):
            os.close(handle)
        if has_stdin:
            os.close(in_read)
        for end in (out_read, err_read, in_write):
            if end is not None:
                os.set_blocking(end, False)
        return Spawned(pid, in_write, out_read, err_read)

    def _start_in_terminal(
        self, path: bytes, argv: list[bytes], cwd: bytes, environment: list[bytes], size: tuple[int, int]
    ) -> Spawned:
        self._enter(cwd)
        pair = Pair(*size)
        try:
            stdin = os.dup(pair.master)  # of its own: a handle is polled for one thing
            try:
                # A leader of a new session gets the first terminal that it opens for its own.
                opening = (os.POSIX_SPAWN_OPEN, 0, pair.path, os.O_RDWR, 0)
                pid = os.posix_spawn(
                    path,
                    argv,
                    mapping_of(environment),
                    file_actions=[opening, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)],
                    setsid=True,
                    setsigdef=IGNORED_BY_PYTHON,
                )
            except BaseException:
                os.close(stdin)
                raise
        except BaseException:
            pair.close()
            raise
        return Spawned(pid, stdin, pair.master, -1, pair.held)

    def _enter(self, cwd: bytes) -> None:
        """Change to the folder of a program. Raises NoFolder."""
        try:
            self._root.enter(cwd)
        except OSError as error:
            raise NoFolder(error.errno, error.strerror) from None
