"""The host's side of the stream against a guest that lies: always SandboxLostError, never success, never a hang."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from mindx.core.command import Exec
from mindx.core.receipt import ExecResult
from mindx.errors import FileError, SandboxLostError
from mindx.guest import records, wire
from mindx.sandbox.channel import Answer, Channel
from mindx.sandbox.execution import Execution

pytestmark = pytest.mark.anyio
WITHIN_S = 10
EMPTY = hashlib.sha256(b"").digest()
COMMAND = Exec(("x",), max_output_bytes=100)


class Guest:
    """The other end: sends whatever a test wants, in the engine's framing or in a broken one."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.sequence = 0

    def raw(self, data: bytes) -> None:
        self._sock.sendall(data)

    def stdout(self, data: bytes) -> None:
        self.raw(b"\1\0\0\0" + len(data).to_bytes(4, "big") + data)

    def frame(self, kind: int, request_id: int, payload: bytes = b"", flags: int = 0) -> None:
        self.stdout(wire.frame(kind, self.sequence, request_id, payload, flags))
        self.sequence += 1

    def close(self) -> None:
        self._sock.close()


@contextlib.asynccontextmanager
async def connection() -> AsyncIterator[tuple[Channel, Guest]]:
    ours, theirs = socket.socketpair()
    channel, guest = await Channel.open(ours), Guest(theirs)
    try:
        yield channel, guest
    finally:
        guest.close()
        await channel.close()


def record(stdout: bytes = b"", **changes: object) -> bytes:
    made = records.ExitRecord()
    made.exit_code = 0
    made.stdout_bytes, made.stdout_sha256, made.stderr_sha256 = len(stdout), hashlib.sha256(stdout).digest(), EMPTY
    for name, value in changes.items():
        setattr(made, name, value)
    return made.pack()


def corrupted(payload: bytes, at: int, value: bytes) -> bytes:
    return payload[:at] + value + payload[at + len(value) :]


async def outcome(lie: Callable[[Guest, int], None], command: Exec = COMMAND) -> ExecResult | SandboxLostError:
    async with connection() as (channel, guest):
        execution = Execution(channel, command, None)
        lie(guest, execution.request_id)
        await asyncio.wait({execution.done}, timeout=WITHIN_S)
        error = execution.done.exception()
        if error is None:
            return execution.done.result()
        assert isinstance(error, SandboxLostError)
        assert channel.error is error
        with pytest.raises(SandboxLostError):
            Execution(channel, command, None)
        return error


def frames(*sent: tuple[int, bytes, int]) -> Callable[[Guest, int], None]:
    def send(guest: Guest, request_id: int) -> None:
        for kind, payload, flags in sent:
            guest.frame(kind, request_id, payload, flags)

    return send


OUT_A = (wire.OUT, b"a", wire.STDOUT)
LIES: dict[str, Callable[[Guest, int], None]] = {
    "too much output": frames(*[(wire.OUT, b"a" * 60, 1)] * 2),
    "too much of a tail": frames((wire.OUT, b"a" * 60, 1), (wire.TAIL, b"a" * 60, 1)),
    "a wrong digest": frames(OUT_A, (wire.EXITED, record(b"b"), 0)),
    "output missing below the cap": frames(OUT_A, (wire.EXITED, record(b"ab"), 0)),
    "output missing at all": frames((wire.EXITED, record(b"ab"), 0)),
    "fewer bytes counted than came": frames(OUT_A, OUT_A, (wire.EXITED, record(b"a"), 0)),
    "a head after a tail": frames((wire.TAIL, b"a", 1), (wire.OUT, b"b", 1), (wire.EXITED, record(b"ab"), 0)),
    "a stream that there is not": frames((wire.OUT, b"a", 3)),
    "an unknown kind": frames((99, b"", 0)),
    "a kind of another request": frames((wire.DONE, b"", 0)),
    "input wanted that there is not": frames((wire.WANT, b"", 0)),
    "no exit record": frames((wire.EXITED, b"", 0)),
    "half an exit record": frames((wire.EXITED, record()[:50], 0)),
    "an unknown cause": frames((wire.EXITED, corrupted(record(), 0, b"\xee"), 0)),
    "an exit without a code": frames((wire.EXITED, record(exit_code=-1), 0)),
    "an exit code that there is not": frames((wire.EXITED, record(exit_code=256), 0)),
    "a signal without a number": frames((wire.EXITED, record(cause=records.CAUSE_SIGNAL), 0)),
    "a killed process without a pid": frames((wire.EXITED, record(killed=[b"sh"], killed_count=1), 0)),
    "a pid of many digits": frames((wire.EXITED, record(killed=[b"9" * 5000 + b" sh"], killed_count=1), 0)),
    "more killed than counted": frames((wire.EXITED, record(killed=[b"1 a", b"2 b"], killed_count=1), 0)),
    "a failure that is none": frames((wire.FAILED, b"\1\2", 0)),
    "a failure full of nul": frames((wire.FAILED, bytes(40), 0)),
    "a reply to an unknown request": lambda guest, n: guest.frame(wire.EXITED, n + 1, record()),
    "a reply to nobody": lambda guest, n: guest.frame(wire.EXITED, 0, record()),
    "a pong that nobody asked for": lambda guest, n: guest.frame(wire.PONG, 0),
    "a huge frame": lambda guest, n: guest.stdout(wire.HEADER.pack(wire.OUT, 1, 0, n, wire.MAX_PAYLOAD + 1)),
    "a gap": lambda guest, n: guest.stdout(wire.frame(wire.EXITED, 1, n, record())),
    "nul bytes": lambda guest, n: guest.stdout(bytes(64)) or guest.stdout(bytes(64)),
    "the engine's framing broken": lambda guest, n: guest.raw(b"HTTP/1.1 500 Internal Server Error\r\n\r\n"),
    "the end of the stream": lambda guest, n: guest.close(),
    "the end in the middle": lambda guest, n: guest.raw(b"\1\0\0\0\0\0\1\0abc") or guest.close(),
    "words on stderr, then the end": lambda guest, n: guest.raw(b"\2\0\0\0\0\0\0\3\xff\0x") or guest.close(),
}


@pytest.mark.parametrize("name", LIES)
async def test_a_lie_ends_the_session(name):
    assert isinstance(await outcome(LIES[name]), SandboxLostError)


async def test_the_truth_is_a_result():
    result = await outcome(frames(OUT_A, (wire.EXITED, record(b"a"), 0)))
    assert isinstance(result, ExecResult)
    assert (result.ok, result.stdout) == (True, b"a")


async def test_a_second_exit_ends_the_session():
    async with connection() as (channel, guest):
        execution = Execution(channel, COMMAND, None)
        for _ in range(2):
            guest.frame(wire.EXITED, execution.request_id, record())
        assert (await asyncio.wait_for(execution.done, WITHIN_S)).ok
        await asyncio.wait_for(channel.ended.wait(), WITHIN_S)
        assert channel.error is not None
        assert channel.error.code == "protocol_broken"


async def test_a_lie_to_one_ends_it_for_all_who_wait():
    async with connection() as (channel, guest):
        execution, answer = Execution(channel, COMMAND, None), Answer(channel, "/workspace/a")
        guest.frame(wire.DONE, execution.request_id)
        for waiting in (execution.done, answer.result()):
            with pytest.raises(SandboxLostError):
                await asyncio.wait_for(waiting, WITHIN_S)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (wire.BYE, b""),
        (wire.PONG, b""),
        (wire.READY, b""),
        (wire.EXITED, b""),
        (wire.ENTRIES, b"x"),
        (wire.DATA, b"x"),
        (wire.FAILED, b"\1"),
        (wire.FAILED, b"\1\0\0\0a\0b\0"),
    ],
)
async def test_an_answer_takes_only_its_own_kind(kind, payload):
    async with connection() as (channel, guest):
        answer = Answer(channel, "/workspace/a")
        guest.frame(kind, answer.request_id, payload)
        with pytest.raises(SandboxLostError):
            await asyncio.wait_for(answer.result(), WITHIN_S)


async def test_more_names_than_the_limit_end_the_session():
    async with connection() as (channel, guest):
        answer = Answer(channel, "/workspace", piece=wire.ENTRIES, max_bytes=10)
        for _ in range(3):
            guest.frame(wire.ENTRIES, answer.request_id, b"12345")
        with pytest.raises(SandboxLostError):
            await asyncio.wait_for(answer.result(), WITHIN_S)


@pytest.mark.parametrize("error", [ValueError("a"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "b"), KeyError("c")])
async def test_any_error_inside_a_request_ends_the_session(error):
    def refuse(_: bytes) -> None:
        raise error

    async with connection() as (channel, guest):
        answer = Answer(channel, "/workspace", refuse, piece=wire.DATA)
        guest.frame(wire.DATA, answer.request_id, b"x")
        with pytest.raises(SandboxLostError) as caught:
            await asyncio.wait_for(answer.result(), WITHIN_S)
        assert caught.value.code == "protocol_broken"


async def test_what_comes_for_an_abandoned_request_falls_on_the_floor_up_to_its_answer():
    async with connection() as (channel, guest):
        answer = Answer(channel, "/workspace/a", piece=wire.DATA)
        answer.drop()
        guest.frame(wire.DATA, answer.request_id, b"late")
        guest.frame(wire.FAILED, answer.request_id, wire.pack_failure(125, b"given up"))
        execution = Execution(channel, COMMAND, None)
        guest.frame(wire.EXITED, execution.request_id, record())
        assert (await asyncio.wait_for(execution.done, WITHIN_S)).ok
        guest.frame(wire.DONE, answer.request_id)
        await asyncio.wait_for(channel.ended.wait(), WITHIN_S)
        assert channel.error is not None


async def test_a_refused_file_request_is_the_files_own_trouble():
    async with connection() as (channel, guest):
        answer = Answer(channel, "/workspace/a")
        guest.frame(wire.FAILED, answer.request_id, wire.pack_failure(2, b"\xff\x1b[31m"))
        with pytest.raises(FileError) as caught:
            await asyncio.wait_for(answer.result(), WITHIN_S)
        assert caught.value.errno == 2
        assert channel.error is None


async def test_a_listener_that_fails_is_no_break_of_the_protocol():
    def listen(stream: str, data: bytes) -> None:
        raise KeyError("the caller's own")

    async with connection() as (channel, guest):
        execution = Execution(channel, COMMAND, listen)
        guest.frame(wire.OUT, execution.request_id, b"a", wire.STDOUT)
        guest.frame(wire.OUT, execution.request_id, b"b", wire.STDOUT)
        guest.frame(wire.EXITED, execution.request_id, record(b"ab", cause=records.CAUSE_CANCELLED))
        with pytest.raises(KeyError):
            await asyncio.wait_for(execution.done, WITHIN_S)
        assert channel.error is None


async def test_one_byte_pieces_share_their_memory():
    async with connection() as (channel, guest):
        execution = Execution(channel, Exec(("x",), max_output_bytes=1 << 20), None)
        data = bytes(range(256)) * 256
        for start in range(0, len(data), 4096):
            many = b"".join(
                wire.frame(wire.OUT, guest.sequence + n, execution.request_id, data[start + n : start + n + 1], 1)
                for n in range(4096)
            )
            guest.sequence += 4096
            guest.stdout(many)
            await asyncio.sleep(0)
        guest.frame(wire.EXITED, execution.request_id, record(data))
        result = await asyncio.wait_for(execution.done, WITHIN_S)
        assert result.stdout == data
        assert len(execution._streams[0].head) < 8
