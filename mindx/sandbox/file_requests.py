"""File requests of the host to one guest: each a question on the stream, each answer checked."""

from __future__ import annotations

import asyncio
import errno
import os
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from hashlib import sha256

from mindx.core.command import WORKSPACE, ListDir, MakeDir, ReadFile, Remove, Stat, WriteFile
from mindx.errors import FileError
from mindx.guest import wire
from mindx.sandbox import entries
from mindx.sandbox.base import Entry, ManifestEntry, PutItem, Sandbox
from mindx.sandbox.channel import MAX_ANSWER_BYTES, Answer, Channel

WINDOW_BYTES = 8 << 20  # how far the guest reads ahead of a consumer
MAX_PATH_BYTES = 65_535


class FileRequests(Sandbox):
    """The file half of a sandbox that has a channel."""

    @abstractmethod
    def _open_channel(self) -> Channel:
        """Return the channel. Raises SandboxLostError when there is none, or none any more."""

    def _ask(
        self,
        kind: int,
        path: str,
        head: bytes = b"",
        on_piece: Callable[[bytes], None] | None = None,
        *,
        piece: int = 0,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Answer:
        """Send a request whose payload ends in a path. Raises FileError for what is no path, SandboxLostError."""
        channel = self._open_channel()
        payload = head + path_bytes(path)
        answer = Answer(channel, path, on_piece, piece=piece, max_bytes=max_bytes)
        channel.send(kind, answer.request_id, payload)
        return answer

    async def read_file(self, command: ReadFile) -> bytes:
        """Return a file's bytes, checked against the guest's digest."""
        most = bounded(command.max_bytes)
        head = wire.READ_REQUEST.pack(most, 0)
        answer = self._ask(wire.READ, command.path, head, piece=wire.DATA, max_bytes=most)
        end = await answer.result()
        data = answer.pieces[0] if len(answer.pieces) == 1 else b"".join(answer.pieces)
        self._check_digest(command.path, end, len(data), sha256(data).digest())
        return data

    def _check_digest(self, path: str, end: bytes, size: int, digest: bytes) -> None:
        if len(end) != wire.FILE_END.size or wire.FILE_END.unpack(end) != (size, digest):
            channel = self._open_channel()
            channel.lose("file_torn", f"{path}: what arrived is not what the container says it sent.")
            assert channel.error is not None
            raise channel.error

    async def fetch(self, path: str, max_bytes: int) -> AsyncIterator[bytes]:
        """Yield a file's bytes as they arrive; the last check comes after the last piece."""
        channel = self._open_channel()
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        held = 0  # bytes in the queue
        used = 0  # bytes that the consumer has had and the guest does not know of yet

        def take(piece: bytes) -> None:
            nonlocal held
            held += len(piece)
            if held > WINDOW_BYTES + wire.MAX_PAYLOAD:
                raise wire.WireError("more was sent than the window allows")
            pieces.put_nowait(piece)

        most = bounded(max_bytes)
        head = wire.READ_REQUEST.pack(most, WINDOW_BYTES)
        answer = self._ask(wire.READ, path, head, take, piece=wire.DATA, max_bytes=most)
        answer.when_done(lambda: pieces.put_nowait(None))
        digest, size = sha256(), 0
        try:
            while (piece := await pieces.get()) is not None:
                held -= len(piece)
                used += len(piece)
                if used >= WINDOW_BYTES // 4 and not answer.failed:
                    channel.send(wire.WANT, answer.request_id, wire.WANTED.pack(used))
                    used = 0
                digest.update(piece)
                size += len(piece)
                yield piece
            self._check_digest(path, await answer.result(), size, digest.digest())
        finally:
            answer.drop()

    async def write_file(self, command: WriteFile) -> None:
        """Write a file at once."""
        channel = self._open_channel()
        path = path_bytes(command.path)
        mode = -1 if command.mode is None else command.mode & 0o777
        first = command.data[: wire.CHUNK]
        head = wire.WRITE_REQUEST.pack(len(command.data), mode, len(path))
        answer = Answer(channel, command.path)
        try:
            channel.send(wire.WRITE, answer.request_id, head + path + first)
            rest = memoryview(command.data)
            for at in range(wire.CHUNK, len(rest), wire.CHUNK):
                if answer.failed:
                    break
                channel.send(wire.DATA, answer.request_id, bytes(rest[at : at + wire.CHUNK]))
                await channel.writable()
            await answer.result()
        finally:
            answer.drop()

    async def list_dir(self, command: ListDir) -> list[Entry]:
        """Return the entries of a directory, sorted by name."""
        answer = self._ask(wire.LIST, command.path, piece=wire.ENTRIES)
        await answer.result()
        return entries.listing(command.path, answer.pieces)

    async def make_dir(self, command: MakeDir) -> None:
        """Make a directory and its missing parents."""
        await self._ask(wire.MKDIR, command.path).result()

    async def remove(self, command: Remove) -> None:
        """Remove a file or link."""
        await self._ask(wire.REMOVE, command.path).result()

    async def stat(self, command: Stat) -> Entry:
        """Return what is there."""
        return entries.entry(await self._ask(wire.STAT, command.path).result())

    async def put(self, items: Iterable[PutItem]) -> None:
        """Copy things in, in one stream."""
        channel = self._open_channel()
        answer = Answer(channel, WORKSPACE)
        try:
            channel.send(wire.PUT, answer.request_id)
            for piece in entries.put_stream(items):
                channel.send(wire.DATA, answer.request_id, piece)
                await channel.writable()
            channel.send(wire.DATA, answer.request_id)
            await answer.result()
        finally:
            answer.drop()

    async def manifest(self, max_entries: int = 200_000) -> list[ManifestEntry]:
        """Return every name of the workspace with its digest."""
        channel = self._open_channel()
        answer = Answer(channel, WORKSPACE, piece=wire.ENTRIES)
        channel.send(wire.MANIFEST, answer.request_id, wire.MANIFEST_REQUEST.pack(max_entries))
        await answer.result()
        return entries.manifest(answer.pieces, max_entries)


def path_bytes(path: str) -> bytes:
    """Return a path as it crosses the wall. Raises FileError: ENAMETOOLONG, EINVAL for what no path can hold."""
    try:
        data = os.fsencode(path)
    except UnicodeEncodeError:
        data = b"\0"
    number = errno.ENAMETOOLONG if len(data) > MAX_PATH_BYTES else errno.EINVAL if b"\0" in data else 0
    if number:
        shown = ascii(path[:200])
        raise FileError("file_failed", f"{shown}: {os.strerror(number)}", errno=number, path=shown)
    return data


def bounded(max_bytes: int) -> int:
    """Return a number of bytes that the wire can carry."""
    return max(0, min(max_bytes, (1 << 63) - 1))
