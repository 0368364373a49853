"""Receipts: what a Command really did."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, NamedTuple

from mindx.core.command import Exec
from mindx.core.frozen import dataclass

EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class ExitCause(str, Enum):
    """Why a command ended."""

    EXIT = "exit"  # the program ended by itself; only then is there an exit code
    SIGNAL = "signal"  # a signal that mindx did not send
    TIMEOUT = "timeout"  # the deadline; everything of it was killed
    OOM = "oom"  # the kernel killed it, or a process of it, for want of memory
    CANCELLED = "cancelled"  # the caller gave up; everything of it was killed
    NOT_FOUND = "not_found"  # no such program; nothing ran
    NOT_EXECUTABLE = "not_executable"  # there, but it cannot be started; nothing ran
    POLICY = "policy"  # refused; nothing ran
    ENGINE = "engine"  # the sandbox broke; what ran is not known


@dataclass(frozen=True, slots=True)
class KilledProcess:
    """A process that was still alive when its command ended, and was killed."""

    pid: int
    name: str


class Receipt(NamedTuple):  # made for each command, and a frozen dataclass takes six times as long to make
    """The guest's account of one command, checked against what arrived.

    `exit_code` is None unless `exit_cause` is EXIT, or OOM when the program hid the kill and ended by itself.
    `duration_s` and `cpu_s` (user and system, of all that was reaped) are in seconds, measured in the container.
    `max_rss_bytes` is the largest resident size of one process; 0 when no process was larger than our PID 1 (about
    10 MiB), which is the least that the kernel tells of a process that PID 1 has spawned.
    `memory_peak_bytes` is the most that the whole container has used, with files in memory and the page cache, when
    this command raised it; 0 when it stayed below what an earlier one reached, or the kernel does not tell.
    `oom_kills` counts the kernel's kills for memory while the command ran, `pids_refused` the processes and threads
    that it refused for the pids limit, `throttled_s` the seconds for which a CPU quota held the container back. These
    are the container's: of commands that run side by side, each sees what all of them did.
    The byte counts and digests are of the whole streams, also of what was not kept.
    `files_changed` names what changed in the workspace while the command ran, relative to it, the first 100 of
    `files_changed_count`; None: the command did not ask (`Exec.tells_files`). A directory's name ends in `/` (`./` is
    the workspace) and means that names in it came or went, or its rights changed. `files_changed_complete` is False
    when not all could be looked at: over 20,000 files, a directory that may not be read, a clock that was set
    meanwhile. What is written through a mapping (mmap) that was read through before is not seen, and where the kernel's
    file times are coarse (before Linux 6.13) a change up to 10 ms before the start is told too.
    """

    exit_cause: ExitCause
    exit_code: int | None = None
    signal: int | None = None
    duration_s: float = 0.0
    cpu_s: float = 0.0
    max_rss_bytes: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    stdout_sha256: str = EMPTY_SHA256
    stderr_sha256: str = EMPTY_SHA256
    oom_kills: int = 0
    killed: tuple[KilledProcess, ...] = ()
    killed_count: int = 0
    memory_peak_bytes: int = 0
    pids_refused: int = 0
    throttled_s: float = 0.0
    files_changed: tuple[str, ...] = ()
    files_changed_count: int | None = None
    files_changed_complete: bool = False

    def figures(self) -> dict[str, Any]:
        """Return what mindx itself has measured; no text that a program chose is in it."""
        found: dict[str, Any] = json.loads(f"{{{self.figures_json()}}}")
        return found

    def figures_json(self) -> str:
        """Return the figures as the members of a JSON object, without its braces: one is recorded for each command."""
        return (
            f'"exit_cause": "{self.exit_cause.value}", "exit_code": {_or_null(self.exit_code)}, '
            f'"signal": {_or_null(self.signal)}, "duration_s": {self.duration_s:.6f}, "cpu_s": {self.cpu_s:.6f}, '
            f'"max_rss_bytes": {self.max_rss_bytes}, "memory_peak_bytes": {self.memory_peak_bytes}, '
            f'"pids_refused": {self.pids_refused}, "throttled_s": {self.throttled_s:.6f}, '
            f'"oom_kills": {self.oom_kills}, "stdout_bytes": {self.stdout_bytes}, '
            f'"stdout_sha256": "{self.stdout_sha256}", "stderr_bytes": {self.stderr_bytes}, '
            f'"stderr_sha256": "{self.stderr_sha256}", "killed_count": {self.killed_count}'
        )


def _or_null(number: int | None) -> str:
    return "null" if number is None else str(number)


class ExecResult(NamedTuple):
    """What came back for an Exec: a failed command is a value.

    `stdout` and `stderr` hold what was kept: all of it, or head, a line that says how much is missing, and tail.
    """

    command: Exec
    receipt: Receipt
    stdout: bytes
    stderr: bytes
    stdout_truncated: bool = False
    stderr_truncated: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        """The arguments that ran."""
        return self.command.argv

    @property
    def exit_code(self) -> int | None:
        """The program's own exit code; None when it gave none (see Receipt)."""
        return self.receipt.exit_code

    @property
    def exit_cause(self) -> ExitCause:
        """Why it ended."""
        return self.receipt.exit_cause

    @property
    def duration_s(self) -> float:
        """Wall time in seconds, measured in the container."""
        return self.receipt.duration_s

    @property
    def truncated(self) -> bool:
        """True when part of a stream was counted but not kept."""
        return self.stdout_truncated or self.stderr_truncated

    @property
    def ok(self) -> bool:
        """True only for an exit with code 0 and no kill for memory."""
        return self.receipt.exit_cause is ExitCause.EXIT and self.receipt.exit_code == 0

    @property
    def stdout_text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 appear as \\xNN."""
        return self.stdout.decode("utf-8", "backslashreplace")

    @property
    def stderr_text(self) -> str:
        """Standard error as text; bytes that are not UTF-8 appear as \\xNN."""
        return self.stderr.decode("utf-8", "backslashreplace")
