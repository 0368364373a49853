"""The stream to one guest: the engine's attached stdin and stdout, frames within, requests and their answers.

Nothing that arrives is trusted: the engine's own framing, the sequence, the kinds, the sizes and the digests are
checked here or by the request that waits, and any break of the protocol ends the session.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable
from typing import Protocol

from mindx.errors import FileError, SandboxLostError
from mindx.guest import wire

ENGINE_HEADER = struct.Struct(">BxxxI")  # stream, bytes that follow
ENGINE_STDERR = 2
MAX_STDERR_BYTES = 16 * 1024
GONE = "The container ended while the session was open."
FINAL = frozenset((wire.EXITED, wire.DONE, wire.FAILED, wire.READY, wire.PONG, wire.BYE))
HEARTBEAT_ID = 0  # PING and PONG only
MAX_ANSWER_BYTES = 96 << 20  # of names or content gathered for one answer, where the request sets no limit of its own


class Request(Protocol):
    """What waits for the frames of one request."""

    def receive(self, kind: int, flags: int, payload: bytes) -> None:
        """Take one frame. Raises WireError when it does not fit."""

    def lose(self, error: SandboxLostError) -> None:
        """The session is over; there will be no answer."""


class Channel(asyncio.BufferedProtocol):
    """One connection to a guest, used from one event loop."""

    def __init__(self) -> None:
        self._frames = wire.FrameReader()
        self._buffer = bytearray(1 << 18)
        self._view = memoryview(self._buffer)
        self._header = bytearray()
        self._left = 0
        self._from_stderr = False
        self._stderr = bytearray()
        self._sequence = 0
        self._next_id = 1
        self._requests: dict[int, Request] = {}
        self._heartbeats = 0  # sent and not yet answered
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.error: SandboxLostError | None = None
        self.closing = False
        self.ended = asyncio.Event()
        self.obituary: Callable[[], Awaitable[str]] | None = None  # asked how the container died, when it has
        self._mourning: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, sock: socket.socket) -> Channel:
        """Take over an attached socket."""
        loop = asyncio.get_running_loop()
        if isinstance(sock, ssl.SSLSocket):
            sock = bridge(sock)
        sock.setblocking(False)
        _, channel = await loop.connect_accepted_socket(cls, sock)
        return channel

    # -- sending

    def send(self, kind: int, request_id: int, payload: bytes = b"", flags: int = 0) -> None:
        """Queue one frame. Raises SandboxLostError when the session is over."""
        if self.error is not None:
            raise self.error
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write(wire.frame(kind, self._sequence, request_id, payload, flags))
            self._sequence += 1

    def beat(self) -> None:
        """Tell the guest that the host lives. Raises SandboxLostError."""
        self.send(wire.PING, HEARTBEAT_ID)
        self._heartbeats += 1

    def begin(self, request: Request) -> int:
        """Return a fresh id under which `request` gets its frames. Raises SandboxLostError."""
        if self.error is not None:
            raise self.error
        request_id = self._next_id
        self._next_id += 1
        self._requests[request_id] = request
        return request_id

    def end(self, request_id: int) -> None:
        """Forget a request that has had its one answer: whatever else comes for it breaks the protocol."""
        self._requests.pop(request_id, None)

    def abandon(self, request_id: int) -> None:
        """Give a request up: the guest is told, and what still comes for it, to its answer, falls on the floor."""
        if self.error is None and request_id in self._requests:
            self._requests[request_id] = _Abandoned(self, request_id)
            self.send(wire.CANCEL, request_id)

    async def writable(self) -> None:
        """Wait until the engine takes more. Raises SandboxLostError."""
        await self._writable.wait()
        if self.error is not None:
            raise self.error

    async def close(self, within_s: float = 1.0) -> None:
        """Close the connection; the guest then ends by itself. What it does not take within the time is dropped."""
        self.closing = True
        if self._transport is None:
            return
        self._transport.close()
        try:
            await asyncio.wait_for(self.ended.wait(), within_s)
        except asyncio.TimeoutError:
            self._transport.abort()
            await self.ended.wait()

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=4 << 20, low=1 << 20)

    def pause_writing(self) -> None:
        """Hold back `writable`."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let `writable` go on."""
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Lend the one buffer."""
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """Take the engine's frames apart and pass the guest's on."""
        if self.error is not None:
            return
        try:
            self._demultiplex(self._view[:nbytes])
        except Exception as error:  # noqa: BLE001 - whatever a frame breaks, here or in a request, ends the session
            self.lose("protocol_broken", f"The container broke the protocol ({error}). Nothing it said is trusted.")

    def eof_received(self) -> bool:
        """Let the transport close."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who waits."""
        if self.error is None and self.obituary is not None and not self.closing:
            self._mourning = asyncio.ensure_future(self._mourn(self.obituary))
        elif self.error is None:
            self.lose("container_gone", GONE)
        self._writable.set()
        self.ended.set()

    async def _mourn(self, obituary: Callable[[], Awaitable[str]]) -> None:
        how = ""
        try:
            how = await obituary()
        finally:
            self.lose("container_gone", f"{GONE} {how}".strip())

    def drop_requests(self, error: SandboxLostError) -> None:
        """Give every request that waits this error for an answer."""
        requests = self._requests
        self._requests = {request_id: _Abandoned(self, request_id) for request_id in requests}
        for request in requests.values():
            request.lose(error)

    def lose(self, code: str, message: str) -> None:
        """End the session: every request that waits, and every later one, gets this error."""
        if self.error is None:
            said = bytes(self._stderr).decode("utf-8", "backslashreplace").strip()
            details = {"stderr": said} if said else {}
            if said:
                message = f"{message} Its last words: {said.splitlines()[-1][:200]}"
            self.error = SandboxLostError(code, message, details=details)
            self._writable.set()
            self.drop_requests(self.error)
        if self._transport is not None:
            self._transport.abort()  # a close would wait until a guest that is frozen has taken what is queued

    # -- taking apart

    def _demultiplex(self, data: memoryview) -> None:
        at, end = 0, len(data)
        while at < end:
            if not self._left:
                if self._header or end - at < ENGINE_HEADER.size:  # it comes in pieces
                    need = ENGINE_HEADER.size - len(self._header)
                    self._header += data[at : at + need]
                    at += need
                    if len(self._header) < ENGINE_HEADER.size:
                        return
                    stream, self._left = ENGINE_HEADER.unpack(self._header)
                    self._header.clear()
                else:
                    stream, self._left = ENGINE_HEADER.unpack_from(data, at)
                    at += ENGINE_HEADER.size
                if stream > ENGINE_STDERR:
                    raise wire.WireError("the engine's own framing is broken")
                self._from_stderr = stream == ENGINE_STDERR
                continue
            piece = data[at : at + self._left]
            at += len(piece)
            self._left -= len(piece)
            if self._from_stderr:
                self._stderr = (self._stderr + piece)[-MAX_STDERR_BYTES:]
            else:
                for kind, flags, request_id, payload in self._frames.feed(piece):
                    if self.error is not None:
                        return
                    self._pass_on(kind, flags, request_id, payload)

    def _pass_on(self, kind: int, flags: int, request_id: int, payload: bytes) -> None:
        request = self._requests.get(request_id)
        if request is not None:
            request.receive(kind, flags, payload)
        elif request_id == HEARTBEAT_ID and kind == wire.PONG and self._heartbeats:
            self._heartbeats -= 1
        else:
            raise wire.WireError(f"kind {kind} for request {request_id}, which waits for nothing")


class _Abandoned:
    """Stands in for a request that nobody waits for any more, until its answer has come."""

    def __init__(self, channel: Channel, request_id: int) -> None:
        self._channel = channel
        self._request_id = request_id

    def receive(self, kind: int, flags: int, payload: bytes) -> None:
        """Drop one frame."""
        if kind in FINAL:
            self._channel.end(self._request_id)

    def lose(self, error: SandboxLostError) -> None:
        """Nobody is there to hear it."""


class Answer:
    """A request with one answer of the kind `final`, or FAILED.

    Before it come payloads of the kind `piece` (0: none), at most `max_bytes` of them, gathered in `pieces` or handed
    to `on_piece`.
    """

    def __init__(
        self,
        channel: Channel,
        path: str,
        on_piece: Callable[[bytes], None] | None = None,
        *,
        final: int = wire.DONE,
        piece: int = 0,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._channel = channel
        self._path = path
        self._final = final
        self._piece = piece
        self._left = max_bytes
        self.pieces: list[bytes] = []
        self._on_piece = on_piece or self.pieces.append
        self.request_id = channel.begin(self)

    @property
    def failed(self) -> bool:
        """True when the answer is there already: only a failure comes before the last byte was sent."""
        return self._done.done()

    def receive(self, kind: int, flags: int, payload: bytes) -> None:
        """Take one frame."""
        if kind == self._piece:
            self._left -= len(payload)
            if self._left < 0:
                raise wire.WireError("more was sent than was asked for")
            self._on_piece(payload)
        elif kind == self._final:
            self._channel.end(self.request_id)
            if not self._done.done():
                self._done.set_result(payload)
        elif kind == wire.FAILED:
            error = file_error(payload, self._path)
            self._channel.end(self.request_id)
            if not self._done.done():
                self._done.set_exception(error)
        else:
            raise wire.WireError(f"kind {kind} in answer to a request")

    def when_done(self, call: Callable[[], None]) -> None:
        """Call once the answer is there, or the session is lost."""
        self._done.add_done_callback(lambda _: call())

    def lose(self, error: SandboxLostError) -> None:
        """Pass the error on."""
        if not self._done.done():
            self._done.set_exception(error)

    async def result(self) -> bytes:
        """Return the payload of the answer. Raises FileError, SandboxLostError."""
        try:
            return await self._done
        finally:
            self.drop()

    def drop(self) -> None:
        """Let go: a request that has no answer yet is abandoned. May be called twice."""
        self._channel.abandon(self.request_id)
        if not self._done.done():
            self._done.cancel()
        elif not self._done.cancelled():
            self._done.exception()  # it was raised already, or nobody is there to hear it


def file_error(payload: bytes, path: str) -> FileError:
    """Return the error of a FAILED frame, on `path` unless the frame names another."""
    number, text, named = wire.unpack_failure(payload)
    where = os.fsdecode(named) if named else path
    said = text[:200].decode("utf-8", "backslashreplace") or os.strerror(number)
    return FileError("file_failed", f"{where}: {said}", errno=number, path=where)


def bridge(secure: ssl.SSLSocket) -> socket.socket:
    """Return a plain socket that two threads join to a TLS one, which asyncio cannot take over.

    The threads end when either side does.
    """
    ours, theirs = socket.socketpair()
    secure.settimeout(None)

    def pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    for source, sink in ((secure, theirs), (theirs, secure)):
        threading.Thread(target=pump, args=(source, sink), name="mindx-tls", daemon=True).start()
    return ours
