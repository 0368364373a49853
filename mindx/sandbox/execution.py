"""One command from its request to its checked result."""

from __future__ import annotations

import asyncio
import os
from hashlib import sha256
from typing import Any, Literal

from mindx.core.command import Exec
from mindx.core.receipt import EMPTY_SHA256, ExecResult, ExitCause, KilledProcess, Receipt
from mindx.errors import SandboxLostError
from mindx.guest import wire
from mindx.sandbox import capped
from mindx.sandbox.base import OutputListener
from mindx.sandbox.channel import Channel, file_error

CAUSES = {
    wire.CAUSE_EXIT: ExitCause.EXIT,
    wire.CAUSE_SIGNAL: ExitCause.SIGNAL,
    wire.CAUSE_TIMEOUT: ExitCause.TIMEOUT,
    wire.CAUSE_OOM: ExitCause.OOM,
    wire.CAUSE_CANCELLED: ExitCause.CANCELLED,
    wire.CAUSE_NOT_FOUND: ExitCause.NOT_FOUND,
    wire.CAUSE_NOT_EXECUTABLE: ExitCause.NOT_EXECUTABLE,
}
EMPTY = bytes.fromhex(EMPTY_SHA256)
MAX_DEADLINE_MS = 2**32 - 1


def request_of(command: Exec) -> wire.ExecRequest:
    """Return the wire's form of a command. Raises ValueError for a NUL in a text."""
    head, tail = capped.split_cap(command.max_output_bytes)
    deadline_ms = 0 if command.timeout_s is None else max(1, min(MAX_DEADLINE_MS, int(command.timeout_s * 1000)))
    return wire.ExecRequest(
        argv=[os.fsencode(word) for word in command.argv],
        cwd=os.fsencode(command.cwd),
        env=[os.fsencode(f"{name}={value}") for name, value in command.env.items()],
        executable=os.fsencode(command.executable or ""),
        deadline_ms=deadline_ms,
        head_bytes=head,
        tail_bytes=tail,
        has_stdin=bool(command.stdin),
    )


class Execution:
    """Gathers what comes back for one EXEC, live, and checks it against the guest's own account."""

    def __init__(self, channel: Channel, command: Exec, on_output: OutputListener | None) -> None:
        self._channel = channel
        self._command = command
        self._listen = on_output
        self._streams = (Kept("stdout"), Kept("stderr"))
        self._sent_stdin = 0
        self.done: asyncio.Future[ExecResult] = asyncio.get_running_loop().create_future()
        request = request_of(command).pack()
        if len(request) > wire.MAX_PAYLOAD:
            raise ValueError("arguments and environment are over 1 MiB")
        self.request_id = channel.begin(self)
        channel.send(wire.EXEC, self.request_id, request)

    def receive(self, kind: int, flags: int, payload: bytes) -> None:
        """Take one frame. Raises WireError."""
        if kind in (wire.OUT, wire.TAIL):
            self._take_output(kind, flags, payload)
        elif kind == wire.EXITED:
            result = self._result(wire.ExitRecord.unpack(payload))
            self._channel.end(self.request_id)
            if not self.done.done():
                self.done.set_result(result)
        elif kind == wire.WANT:
            self._send_stdin()
        elif kind == wire.FAILED:
            self._channel.end(self.request_id)
            if not self.done.done():
                self.done.set_exception(file_error(payload, self._command.cwd))
        else:
            raise wire.WireError(f"kind {kind} in answer to a command")

    def lose(self, error: SandboxLostError) -> None:
        """Pass the error on."""
        if not self.done.done():
            self.done.set_exception(error)

    def _take_output(self, kind: int, flags: int, payload: bytes) -> None:
        if flags not in (wire.STDOUT, wire.STDERR):
            raise wire.WireError(f"output of stream {flags}")
        stream = self._streams[flags - 1]
        if stream.take(payload, kind == wire.TAIL) > self._command.max_output_bytes:
            raise wire.WireError("more output than was asked for")
        if self._listen is not None and kind == wire.OUT:
            self._listen(stream.name, payload)

    def _send_stdin(self) -> None:
        data = self._command.stdin[self._sent_stdin : self._sent_stdin + wire.CHUNK]
        self._sent_stdin += len(data)
        self._channel.send(wire.STDIN, self.request_id, data)

    def _result(self, record: wire.ExitRecord) -> ExecResult:
        stdout, stdout_cut = self._checked(self._streams[0], record.stdout_bytes, record.stdout_sha256)
        stderr, stderr_cut = self._checked(self._streams[1], record.stderr_bytes, record.stderr_sha256)
        return ExecResult(self._command, receipt_of(record), stdout, stderr, stdout_cut, stderr_cut)

    def _checked(self, stream: Kept, total: int, digest: bytes) -> tuple[bytes, bool]:
        if total > stream.kept_bytes:
            if stream.kept_bytes < self._command.max_output_bytes:
                raise wire.WireError("output is missing below the cap")
            return capped.join(b"".join(stream.head), b"".join(stream.tail), total)
        if total < stream.kept_bytes:
            raise wire.WireError("more output than was counted")
        if stream.digest() != digest:
            raise wire.WireError("output that does not match its digest")
        if self._listen is not None:
            for piece in stream.tail:
                self._listen(stream.name, piece)
        return b"".join(stream.head + stream.tail), False


class Kept:
    """What has arrived of one stream, hashed while it is warm in the cache."""

    __slots__ = ("_hash", "head", "kept_bytes", "name", "tail")

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        self.name = name
        self.head: list[bytes] = []
        self.tail: list[bytes] = []
        self.kept_bytes = 0
        self._hash: Any = None

    def take(self, piece: bytes, is_tail: bool) -> int:
        """Take a piece and return how many bytes are kept now."""
        (self.tail if is_tail else self.head).append(piece)
        self.kept_bytes += len(piece)
        if self._hash is None:
            self._hash = sha256(piece)
        else:
            self._hash.update(piece)
        return self.kept_bytes

    def digest(self) -> bytes:
        """Return the raw SHA-256 of all that was taken."""
        return EMPTY if self._hash is None else self._hash.digest()


def receipt_of(record: wire.ExitRecord) -> Receipt:
    """Return the receipt of a checked record; an exit code counts only where the program gave one by itself."""
    cause = CAUSES[record.cause]
    own_end = cause in (ExitCause.EXIT, ExitCause.OOM) and record.exit_code >= 0
    if cause is ExitCause.EXIT and not own_end:
        raise wire.WireError("an exit without a code")
    return Receipt(
        exit_cause=cause,
        exit_code=record.exit_code if own_end else None,
        signal=record.signal or None,
        duration_s=record.duration_ns / 1e9,
        cpu_s=record.cpu_us / 1e6,
        max_rss_bytes=record.max_rss_kib * 1024,
        stdout_bytes=record.stdout_bytes,
        stderr_bytes=record.stderr_bytes,
        stdout_sha256=record.stdout_sha256.hex(),
        stderr_sha256=record.stderr_sha256.hex(),
        oom_kills=record.oom_kills,
        killed=tuple(killed_process(text) for text in record.killed),
        killed_count=record.killed_count,
    )


def killed_process(text: bytes) -> KilledProcess:
    """Return the process that a text `pid name` names. Raises WireError."""
    pid, _, name = text.partition(b" ")
    if not pid.isdigit():
        raise wire.WireError("a killed process without a pid")
    return KilledProcess(int(pid), name.decode("utf-8", "backslashreplace"))
