"""One command from its request to its checked result."""

from __future__ import annotations

import asyncio
import math
import os
from hashlib import sha256
from typing import Any, Literal

from mindx.core.command import MAX_TERMINAL, Exec, Terminal
from mindx.core.receipt import EMPTY_SHA256, ExecResult, ExitCause, KilledProcess, Receipt
from mindx.errors import SandboxError, SandboxLostError
from mindx.guest import records, wire
from mindx.sandbox import capped
from mindx.sandbox.base import OutputListener
from mindx.sandbox.channel import Channel

CAUSES = {
    records.CAUSE_EXIT: ExitCause.EXIT,
    records.CAUSE_SIGNAL: ExitCause.SIGNAL,
    records.CAUSE_TIMEOUT: ExitCause.TIMEOUT,
    records.CAUSE_OOM: ExitCause.OOM,
    records.CAUSE_CANCELLED: ExitCause.CANCELLED,
    records.CAUSE_NOT_FOUND: ExitCause.NOT_FOUND,
    records.CAUSE_NOT_EXECUTABLE: ExitCause.NOT_EXECUTABLE,
}
EMPTY = bytes.fromhex(EMPTY_SHA256)
MAX_DEADLINE_MS = 2**32 - 1
SMALL_BYTES = 4096
SHARED_BYTES = 64 * 1024
MAX_TYPED_BYTES = 256 * 1024  # that wait for a program which does not read


def request_of(command: Exec, slot: int = 0) -> bytes:
    """Return the payload that asks for a command. Raises ValueError for a NUL in a text."""
    if not command.argv:
        raise ValueError("no program is named")
    for name in command.env:
        if not name or "=" in name:
            raise ValueError(f"{name!r} is no name of a variable")
    terminal = command.terminal
    if terminal is not None and not (slot and terminal.fits):
        raise ValueError(f"a terminal is for the background, and has 1 to {MAX_TERMINAL} rows and columns")
    head, tail = capped.split_cap(command.max_output_bytes, head_only=terminal is not None)
    deadline_ms = 0 if command.timeout_s is None else max(1, min(MAX_DEADLINE_MS, math.ceil(command.timeout_s * 1000)))
    return records.ExecRequest.pack(
        [os.fsencode(word) for word in command.argv],
        os.fsencode(command.cwd),
        [os.fsencode(f"{name}={value}") for name, value in command.env.items()],
        os.fsencode(command.executable) if command.executable else b"",
        deadline_ms,
        head,
        tail,
        bool(command.stdin) or terminal is not None,
        slot,
        command.tells_files,
        None if terminal is None else (terminal.rows, terminal.cols),
    )


class Execution:
    """Gathers what comes back for one EXEC, live, and checks it against the guest's own account."""

    def __init__(self, channel: Channel, command: Exec, on_output: OutputListener | None, slot: int = 0) -> None:
        self._channel = channel
        self._command = command
        self.slot = slot
        self._listen = on_output
        self._streams = (Kept("stdout"), Kept("stderr"))
        self._sent_stdin = 0
        self._stdin_ended = not command.stdin and command.terminal is None
        self._typed = bytearray(command.stdin) if command.terminal is not None else None  # and not sent yet
        self._wanted = False  # the guest takes more of it
        self._news: asyncio.Event | None = None  # made by the first who waits for output
        self._listener_error: Exception | None = None
        self.ended = False  # the answer has come, also when nobody waited for it in that moment
        self.done: asyncio.Future[ExecResult] = asyncio.get_running_loop().create_future()
        request = request_of(command, slot)
        if len(request) > wire.MAX_PAYLOAD:
            raise ValueError("arguments and environment are over 1 MiB")
        self.request_id = channel.begin(self)
        channel.send(wire.EXEC, self.request_id, request)

    def receive(self, kind: int, flags: int, payload: bytes) -> None:
        """Take one frame. Raises WireError."""
        if kind in (wire.OUT, wire.TAIL):
            self._take_output(kind, flags, payload)
        elif kind == wire.EXITED:
            result = self._result(records.ExitRecord.unpack(payload))
            self._end()
            if not self.done.done():
                if self._listener_error is not None:
                    self.done.set_exception(self._listener_error)
                else:
                    self.done.set_result(result)
        elif kind == wire.WANT:
            self._send_stdin()
        elif kind == wire.FAILED:
            error = spawn_error(payload, self._command)
            self._end()
            if not self.done.done():
                self.done.set_exception(error)
        else:
            raise wire.WireError(f"kind {kind} in answer to a command")

    @property
    def command(self) -> Exec:
        """What was asked for."""
        return self._command

    def so_far(self) -> tuple[bytes, bytes]:
        """Return what has come of both streams until now, up to the cap."""
        out, err = self._streams
        return b"".join(out.head), b"".join(err.head)

    async def more_than(self, seen: int) -> None:
        """Return when more than `seen` bytes of stdout are kept, or it has ended."""
        news = self._news = self._news or asyncio.Event()
        while not self.ended and self._streams[0].kept_bytes <= seen:
            news.clear()
            await news.wait()

    def type(self, data: bytes) -> None:
        """Type into the terminal. Raises SandboxError: background_no_terminal, background_stuck."""
        if self._typed is None:
            raise no_terminal()
        if len(self._typed) + len(data) > MAX_TYPED_BYTES:
            raise SandboxError(
                "background_stuck",
                f"The program does not read: {len(self._typed):,} bytes wait for it already.",
                recoverable=True,
            )
        self._typed += data
        if self._wanted:
            self._send_typed()

    def resize(self, terminal: Terminal) -> None:
        """Give the terminal another size. Raises SandboxError: background_no_terminal."""
        if self._typed is None:
            raise no_terminal()
        self._channel.send(wire.RESIZE, self.request_id, wire.SIZE.pack(terminal.rows, terminal.cols))

    def _tell_news(self) -> None:
        if self._news is not None:
            self._news.set()

    def _end(self) -> None:
        self.ended = True
        self._tell_news()
        self._channel.end(self.request_id)

    def lose(self, error: SandboxLostError) -> None:
        """Pass the error on."""
        self.ended = True
        self._tell_news()
        if not self.done.done():
            self.done.set_exception(error)

    def _take_output(self, kind: int, flags: int, payload: bytes) -> None:
        if flags not in (wire.STDOUT, wire.STDERR):
            raise wire.WireError(f"output of stream {flags}")
        stream = self._streams[flags - 1]
        if stream.take(payload, kind == wire.TAIL) > self._command.max_output_bytes:
            raise wire.WireError("more output than was asked for")
        self._tell_news()
        if kind == wire.OUT:
            self._tell(stream.name, payload)

    def _tell(self, name: Literal["stdout", "stderr"], piece: bytes) -> None:
        """Pass a piece to the caller's listener. If that fails, the command is killed and the error is the caller's."""
        if self._listen is None:
            return
        try:
            self._listen(name, piece)
        except Exception as error:  # noqa: BLE001 - it is raised again from `done`
            self._listener_error = error
            self.cancel()

    def cancel(self) -> None:
        """Ask for the command's end and tell the listener nothing more. Raises SandboxLostError."""
        self._listen = None
        self._channel.send(wire.CANCEL, self.request_id)

    def _send_stdin(self) -> None:
        if self._stdin_ended:
            raise wire.WireError("more input is wanted after its end")
        if self._typed is not None:
            self._wanted = True
            self._send_typed()
            return
        data = self._command.stdin[self._sent_stdin : self._sent_stdin + wire.CHUNK]
        self._sent_stdin += len(data)
        self._stdin_ended = not data
        self._channel.send(wire.STDIN, self.request_id, data)

    def _send_typed(self) -> None:
        """Send what was typed, if anything; nothing is the end of a pipe, and a terminal has none."""
        if self._typed:
            data = bytes(self._typed[: wire.CHUNK])
            del self._typed[: wire.CHUNK]
            self._wanted = False
            self._channel.send(wire.STDIN, self.request_id, data)

    def _result(self, record: records.ExitRecord) -> ExecResult:
        stdout, stdout_cut = self._checked(self._streams[0], record.stdout_bytes, record.stdout_sha256)
        stderr, stderr_cut = self._checked(self._streams[1], record.stderr_bytes, record.stderr_sha256)
        return ExecResult(self._command, receipt_of(record), stdout, stderr, stdout_cut, stderr_cut)

    def _checked(self, stream: Kept, total: int, digest: bytes) -> tuple[bytes, bool]:
        if not total and not stream.kept_bytes and digest == EMPTY:
            return b"", False
        if total > stream.kept_bytes:
            if stream.kept_bytes < self._command.max_output_bytes:
                raise wire.WireError("output is missing below the cap")
            return capped.join(b"".join(stream.head), b"".join(stream.tail), total)
        if total < stream.kept_bytes:
            raise wire.WireError("more output than was counted")
        if stream.digest() != digest:
            raise wire.WireError("output that does not match its digest")
        for piece in stream.tail:
            self._tell(stream.name, bytes(piece))
        return b"".join(stream.head + stream.tail), False


class Kept:
    """What has arrived of one stream, hashed while it is warm in the cache."""

    __slots__ = ("_hash", "head", "kept_bytes", "name", "tail")

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        self.name = name
        self.head: list[bytes | bytearray] = []
        self.tail: list[bytes | bytearray] = []
        self.kept_bytes = 0
        self._hash: Any = None

    def take(self, piece: bytes, is_tail: bool) -> int:
        """Take a piece and return how many bytes are kept now. Raises WireError for a head after a tail."""
        if self.tail and not is_tail:
            raise wire.WireError("the head of a stream after its tail")
        keep(self.tail if is_tail else self.head, piece)
        self.kept_bytes += len(piece)
        if self._hash is None:
            self._hash = sha256(piece)
        else:
            self._hash.update(piece)
        return self.kept_bytes

    def digest(self) -> bytes:
        """Return the raw SHA-256 of all that was taken."""
        return EMPTY if self._hash is None else self._hash.digest()


def keep(parts: list[bytes | bytearray], piece: bytes) -> None:
    """Append a piece; small ones share a buffer, since a million objects of one byte take 40 MiB."""
    last = parts[-1] if parts else b""
    if isinstance(last, bytearray) and len(last) + len(piece) <= SHARED_BYTES:
        last += piece
    else:
        parts.append(bytearray(piece) if len(piece) < SMALL_BYTES else piece)


def no_terminal() -> SandboxError:
    """Return the error of what only a terminal can do."""
    return SandboxError("background_no_terminal", "This background command has no terminal.")


def spawn_error(payload: bytes, command: Exec) -> SandboxError:
    """Return the error of a program that could not be started for want of something: processes, memory, handles."""
    number, text, _ = wire.unpack_failure(payload)
    said = text[:200].decode("utf-8", "backslashreplace") or os.strerror(number)
    return SandboxError(
        "spawn_failed",
        f"The container could not start {command.argv[0]!r}: {said}. End what runs in the background, or raise limits.",
        recoverable=True,
        details={"errno": number},
    )


def receipt_of(record: records.ExitRecord) -> Receipt:
    """Return the receipt of a checked record; an exit code counts only where the program gave one by itself."""
    own_end = record.cause in (records.CAUSE_EXIT, records.CAUSE_OOM) and record.exit_code >= 0
    if record.cause == records.CAUSE_EXIT and not 0 <= record.exit_code <= 255:
        raise wire.WireError("an exit without a code")
    if record.cause == records.CAUSE_SIGNAL and not record.signal:
        raise wire.WireError("a signal without a number")
    if len(record.killed) > record.killed_count:
        raise wire.WireError("more killed processes than were counted")
    if len(record.changed) > record.changed_count:
        raise wire.WireError("more changed files than were counted")
    return Receipt(
        exit_cause=CAUSES[record.cause],
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
        killed=tuple([killed_process(text) for text in record.killed]),
        killed_count=record.killed_count,
        memory_peak_bytes=record.memory_peak,
        pids_refused=record.pids_refused,
        throttled_s=record.throttled_us / 1e6,
        files_changed=tuple([name.decode("utf-8", "backslashreplace") for name in sorted(record.changed)]),
        files_changed_count=None if record.files_seen == records.FILES_UNSEEN else record.changed_count,
        files_changed_complete=record.files_seen == records.FILES_ALL,
    )


def killed_process(text: bytes) -> KilledProcess:
    """Return the process that a text `pid name` names. Raises WireError."""
    pid, _, name = text.partition(b" ")
    if not pid.isdigit():
        raise wire.WireError("a killed process without a pid")
    return KilledProcess(int(pid), name.decode("utf-8", "backslashreplace"))
