"""The stream to one guest: the engine's attached stdin and stdout, frames within, requests and their answers.

Nothing that arrives is trusted: the engine's own framing, the sequence, the kinds, the sizes and the digests are
checked here or by the request that waits, and any break of the protocol ends the session.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Protocol

from mindx.errors import FileError, SandboxLostError
from mindx.guest import wire

ENGINE_HEADER = 8
ENGINE_STDERR = 2
MAX_STDERR_BYTES = 16 * 1024


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
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.error: SandboxLostError | None = None
        self.closing = False
        self.ended = asyncio.Event()

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
        self._transport.write(wire.frame(kind, self._sequence, request_id, payload, flags))
        self._sequence += 1

    def begin(self, request: Request) -> int:
        """Return a fresh id under which `request` gets its frames. Raises SandboxLostError."""
        if self.error is not None:
            raise self.error
        request_id = self._next_id
        self._next_id += 1
        self._requests[request_id] = request
        return request_id

    def end(self, request_id: int) -> None:
        """Forget a request."""
        self._requests.pop(request_id, None)

    async def writable(self) -> None:
        """Wait until the engine takes more. Raises SandboxLostError."""
        await self._writable.wait()
        if self.error is not None:
            raise self.error

    def pause_reading(self) -> None:
        """Stop reading until resume_reading: a slow consumer must not fill this process's memory."""
        if self._transport is not None and self.error is None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self._transport is not None and self.error is None:
            self._transport.resume_reading()

    def close(self) -> None:
        """Close the connection; the guest then ends by itself."""
        self.closing = True
        if self._transport is not None:
            self._transport.close()

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
        except wire.WireError as error:
            self.lose("protocol_broken", f"The container broke the protocol ({error}). Nothing it said is trusted.")

    def eof_received(self) -> bool:
        """Let the transport close."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who waits."""
        if self.error is None:
            self.lose("container_gone", "The container ended while the session was open.")
        self.ended.set()

    def drop_requests(self, error: SandboxLostError) -> None:
        """Give every request that waits this error for an answer."""
        requests, self._requests = self._requests, {}
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
            self._transport.close()

    # -- taking apart

    def _demultiplex(self, data: memoryview) -> None:
        at, end = 0, len(data)
        while at < end:
            if not self._left:
                need = ENGINE_HEADER - len(self._header)
                self._header += data[at : at + need]
                at += need
                if len(self._header) < ENGINE_HEADER:
                    return
                if self._header[0] > ENGINE_STDERR:
                    raise wire.WireError("the engine's own framing is broken")
                self._from_stderr = self._header[0] == ENGINE_STDERR
                self._left = int.from_bytes(self._header[4:], "big")
                self._header.clear()
                continue
            piece = data[at : at + self._left]
            at += len(piece)
            self._left -= len(piece)
            if self._from_stderr:
                self._stderr = (self._stderr + piece)[-MAX_STDERR_BYTES:]
            else:
                for kind, flags, request_id, payload in self._frames.feed(piece):
                    request = self._requests.get(request_id)
                    if request is not None:
                        request.receive(kind, flags, payload)


class Answer:
    """A request with one answer: DATA and ENTRIES payloads are gathered or handed to `on_piece` until DONE."""

    def __init__(self, channel: Channel, path: str, on_piece: Callable[[bytes], None] | None = None) -> None:
        self._done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._channel = channel
        self._path = path
        self.pieces: list[bytes] = []
        self._on_piece = on_piece or self.pieces.append
        self.request_id = channel.begin(self)

    @property
    def failed(self) -> bool:
        """True when the answer is there already: only a failure comes before the last byte was sent."""
        return self._done.done()

    def receive(self, kind: int, flags: int, payload: bytes) -> None:
        """Take one frame."""
        if self._done.done():
            return
        if kind in (wire.DATA, wire.ENTRIES):
            self._on_piece(payload)
        elif kind in (wire.DONE, wire.READY, wire.BYE, wire.PONG):
            self._done.set_result(payload)
        elif kind == wire.FAILED:
            self._done.set_exception(file_error(payload, self._path))
        else:
            raise wire.WireError(f"kind {kind} in answer to a request")

    def lose(self, error: SandboxLostError) -> None:
        """Pass the error on."""
        if not self._done.done():
            self._done.set_exception(error)

    async def result(self) -> bytes:
        """Return the payload of DONE. Raises FileError, SandboxLostError."""
        try:
            return await self._done
        finally:
            self._channel.end(self.request_id)
            if self._done.done() and not self._done.cancelled():
                self._done.exception()  # it was raised above, or nobody is there to hear it


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
