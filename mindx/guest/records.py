"""The records of one command, both sides: what is asked of it (EXEC), and what it really did (EXITED).

This module is copied into the container: standard library only, Python 3.8 or newer, quick to import.
"""

from __future__ import annotations

import struct

from .wire import WireError, join_texts, split_texts

CAUSE_EXIT = 0
CAUSE_SIGNAL = 1
CAUSE_TIMEOUT = 2
CAUSE_OOM = 3
CAUSE_CANCELLED = 4
CAUSE_NOT_FOUND = 5
CAUSE_NOT_EXECUTABLE = 6

HAS_STDIN = 1
TELLS_FILES = 2
# slot, flags, argc, envc, deadline in ms (0: none), head and tail to keep of each stream in bytes, size of a terminal
_EXEC = struct.Struct("<BBHHIQQHH")


class ExecRequest:
    """One program to run. `terminal` is (rows, columns), or None when its streams are pipes."""

    __slots__ = (
        "argv",
        "cwd",
        "deadline_ms",
        "env",
        "executable",
        "has_stdin",
        "head_bytes",
        "slot",
        "tail_bytes",
        "tells_files",
        "terminal",
    )

    argv: list[bytes]
    cwd: bytes
    env: list[bytes]
    executable: bytes
    deadline_ms: int
    head_bytes: int
    tail_bytes: int
    has_stdin: bool
    slot: int
    tells_files: bool
    terminal: tuple[int, int] | None

    @staticmethod
    def pack(
        argv: list[bytes],
        cwd: bytes,
        env: list[bytes],
        executable: bytes,
        deadline_ms: int,
        head_bytes: int,
        tail_bytes: int,
        has_stdin: bool,
        slot: int = 0,
        tells_files: bool = False,
        terminal: tuple[int, int] | None = None,
    ) -> bytes:
        """Return the payload. Raises ValueError for a NUL in a text, struct.error for a number out of range."""
        flags = (HAS_STDIN if has_stdin else 0) | (TELLS_FILES if tells_files else 0)
        rows, cols = terminal or (0, 0)
        head = _EXEC.pack(slot, flags, len(argv), len(env), deadline_ms, head_bytes, tail_bytes, rows, cols)
        return head + join_texts([cwd, executable, *argv, *env])

    @classmethod
    def unpack(cls, payload: bytes) -> ExecRequest:
        """Return the request of a payload. Raises WireError when the counts do not fit."""
        if len(payload) < _EXEC.size:
            raise WireError("an exec request of %d bytes" % len(payload))
        request = cls()
        request.slot, flags, argc, envc, request.deadline_ms, request.head_bytes, request.tail_bytes, rows, cols = (
            _EXEC.unpack_from(payload)
        )
        texts = payload[_EXEC.size :].split(b"\0")
        if len(texts) != 2 + argc + envc or not argc:
            raise WireError("an exec request of %d texts" % len(texts))
        request.cwd, request.executable = texts[0], texts[1]
        request.argv, request.env = texts[2 : 2 + argc], texts[2 + argc :]
        request.has_stdin, request.tells_files = bool(flags & HAS_STDIN), bool(flags & TELLS_FILES)
        request.terminal = (rows, cols) if rows else None
        return request


FILES_UNSEEN = 0  # nobody asked
FILES_SOME = 1  # more may have changed
FILES_ALL = 2
# cause, signal, files seen, named processes, exit code, wall ns, cpu us, max rss KiB, bytes out, bytes err, digests,
# oom kills, killed, pids refused, throttled us, memory peak, files changed
_EXIT = struct.Struct("<BBBBiQQQQQ32s32sIIIQQI")


class ExitRecord:
    """What a command really did.

    `killed` holds texts `pid name`, at most 64 of `killed_count`; `changed` the first of `changed_count` file names.
    """

    __slots__ = (
        "cause",
        "changed",
        "changed_count",
        "cpu_us",
        "duration_ns",
        "exit_code",
        "files_seen",
        "killed",
        "killed_count",
        "max_rss_kib",
        "memory_peak",
        "oom_kills",
        "pids_refused",
        "signal",
        "stderr_bytes",
        "stderr_sha256",
        "stdout_bytes",
        "stdout_sha256",
        "throttled_us",
    )

    def __init__(self) -> None:
        self.cause = CAUSE_EXIT
        self.signal = 0
        self.exit_code = -1
        self.duration_ns = 0
        self.cpu_us = 0
        self.max_rss_kib = 0
        self.stdout_bytes = 0
        self.stderr_bytes = 0
        self.stdout_sha256 = b""
        self.stderr_sha256 = b""
        self.oom_kills = 0
        self.killed_count = 0
        self.pids_refused = 0
        self.throttled_us = 0
        self.memory_peak = 0
        self.killed: list[bytes] = []
        self.files_seen = FILES_UNSEEN
        self.changed_count = 0
        self.changed: list[bytes] = []

    def pack(self) -> bytes:
        """Return the payload."""
        return _EXIT.pack(
            self.cause,
            self.signal,
            self.files_seen,
            len(self.killed),
            self.exit_code,
            self.duration_ns,
            self.cpu_us,
            self.max_rss_kib,
            self.stdout_bytes,
            self.stderr_bytes,
            self.stdout_sha256,
            self.stderr_sha256,
            self.oom_kills,
            self.killed_count,
            self.pids_refused,
            self.throttled_us,
            self.memory_peak,
            self.changed_count,
        ) + join_texts(self.killed + self.changed)

    @classmethod
    def unpack(cls, payload: bytes) -> ExitRecord:
        """Return the record of a payload. Raises WireError when it is too short or does not fit together."""
        if len(payload) < _EXIT.size:
            raise WireError("an exit record of %d bytes" % len(payload))
        record = cls.__new__(cls)  # all of it is set here
        (
            record.cause,
            record.signal,
            record.files_seen,
            named,
            record.exit_code,
            record.duration_ns,
            record.cpu_us,
            record.max_rss_kib,
            record.stdout_bytes,
            record.stderr_bytes,
            record.stdout_sha256,
            record.stderr_sha256,
            record.oom_kills,
            record.killed_count,
            record.pids_refused,
            record.throttled_us,
            record.memory_peak,
            record.changed_count,
        ) = _EXIT.unpack_from(payload)
        if record.cause > CAUSE_NOT_EXECUTABLE:
            raise WireError("exit cause %d" % record.cause)
        texts = split_texts(payload[_EXIT.size :])
        record.killed, record.changed = texts[:named], texts[named:]
        if len(record.killed) != named or record.files_seen > FILES_ALL:
            raise WireError("an exit record of %d texts" % len(texts))
        return record
