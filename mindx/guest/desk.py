"""The desk that answers file requests: small ones at once, long ones in slices between turns of the loop."""

from __future__ import annotations

import errno
import os
import time

from . import bulk, files, streams, tree, wire
from .connection import HIGH_WATER, Connection
from .identity import Identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Desk:
    """Every file operation passes here, under the agent's effective ids."""

    def __init__(self, identity: Identity, root: files.Root, connection: Connection) -> None:
        self._identity = identity
        self._root = root
        self._connection = connection
        self._jobs: list[tuple[int, Iterator[None]]] = []
        self._writes: dict[int, files.NewFile] = {}
        self._copies: dict[int, bulk.Bulk] = {}

    def has_work(self) -> bool:
        """Return whether a job waits for its next slice."""
        return bool(self._jobs)

    def take(self, kind: int, request_id: int, payload: bytes) -> None:
        """Take one frame of a file request. Raises WireError for a kind that is none."""
        self._identity.enter()
        try:
            self._dispatch(kind, request_id, payload)
        except OSError as error:
            self._fail(request_id, error)
        finally:
            self._identity.leave()

    def work(self, until_s: float) -> None:
        """Advance the jobs in turn until the time is up, none is left or the host must catch up."""
        self._identity.enter()
        try:
            while self._jobs and self._connection.waiting < HIGH_WATER:
                request_id, job = self._jobs.pop(0)
                try:
                    next(job)
                    self._jobs.append((request_id, job))
                except StopIteration:
                    pass
                except OSError as error:
                    self._fail(request_id, error)
                if time.monotonic() > until_s:
                    break
        finally:
            self._identity.leave()

    def _fail(self, request_id: int, error: OSError) -> None:
        number = error.errno or errno.EIO
        text = os.fsencode(error.strerror or os.strerror(number))
        self._connection.send(wire.FAILED, request_id, wire.pack_failure(number, text))

    def _dispatch(self, kind: int, request_id: int, payload: bytes) -> None:
        if kind == wire.WRITE:
            self._write(request_id, payload)
        elif kind == wire.READ:
            (max_bytes,) = wire.READ_REQUEST.unpack_from(payload)
            self._begin(request_id, self._read(request_id, payload[wire.READ_REQUEST.size :], max_bytes))
        elif kind == wire.DATA:
            self._data(request_id, payload)
        elif kind == wire.LIST:
            self._begin(request_id, self._entries(request_id, tree.list_directory(self._root, payload)))
        elif kind == wire.STAT:
            self._connection.send(wire.DONE, request_id, self._root.look(payload))
        elif kind == wire.MKDIR:
            self._root.make_directory(payload)
            self._connection.send(wire.DONE, request_id)
        elif kind == wire.REMOVE:
            self._root.remove(payload)
            self._connection.send(wire.DONE, request_id)
        elif kind == wire.PUT:
            self._copies[request_id] = bulk.Bulk(self._root)
        elif kind == wire.MANIFEST:
            (max_entries,) = wire.MANIFEST_REQUEST.unpack(payload)
            self._begin(request_id, self._entries(request_id, tree.Manifest(self._root, max_entries).walk()))
        else:
            raise wire.WireError("kind %d" % kind)

    def _begin(self, request_id: int, job: Iterator[None]) -> None:
        """Do the first slice at once: most jobs are small, and then this is all."""
        try:
            next(job)
        except StopIteration:
            return
        self._jobs.append((request_id, job))

    def _entries(self, request_id: int, records: Iterator[bytes]) -> Iterator[None]:
        for payload in records:
            if payload:
                self._connection.send(wire.ENTRIES, request_id, payload)
            yield
        self._connection.send(wire.DONE, request_id)

    def _read(self, request_id: int, path: bytes, max_bytes: int) -> Iterator[None]:
        handle, size = self._root.open_file(path, max_bytes)
        digest = streams.new_sha256()
        sent = 0
        for data in tree.read_file(handle, size):
            digest.update(data)  # type: ignore[attr-defined]
            sent += len(data)
            self._connection.send(wire.DATA, request_id, data)
            if sent < size:
                yield
        self._connection.send(wire.DONE, request_id, wire.FILE_END.pack(sent, digest.digest()))  # type: ignore[attr-defined]

    def _write(self, request_id: int, payload: bytes) -> None:
        size, mode, path_length = wire.WRITE_REQUEST.unpack_from(payload)
        start = wire.WRITE_REQUEST.size
        new = files.NewFile(self._root, payload[start : start + path_length], mode, size)
        self._writes[request_id] = new
        self._append(request_id, new, payload[start + path_length :])

    def _append(self, request_id: int, new: files.NewFile, data: bytes) -> None:
        try:
            new.write(data)
            if new.left:
                return
            new.finish()
        except OSError:
            new.abandon()
            del self._writes[request_id]
            raise
        del self._writes[request_id]
        self._connection.send(wire.DONE, request_id)

    def _data(self, request_id: int, payload: bytes) -> None:
        """Take a piece of a write or a copy; pieces of one that has failed already fall on the floor."""
        new = self._writes.get(request_id)
        if new is not None:
            self._append(request_id, new, payload)
            return
        copy = self._copies.get(request_id)
        if copy is None:
            return
        if payload:
            copy.feed(payload)
            return
        del self._copies[request_id]
        try:
            copy.finish()
        except OSError as error:
            text = (error.strerror or "").encode()
            where = files.WORKSPACE + b"/" + copy.path
            self._connection.send(wire.FAILED, request_id, wire.pack_failure(error.errno or errno.EIO, text, where))
        else:
            self._connection.send(wire.DONE, request_id)
