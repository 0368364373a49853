"""The desk that answers file requests: small ones at once, long ones in slices between turns of the loop."""

from __future__ import annotations

import errno
import os
import time

from . import bulk, files, streams, tree, wire
from .connection import HIGH_WATER, Connection
from .identity import Identity

MAX_NAME_BYTES = 64 << 20  # of names in one answer: deep folders of long names would fill the host's memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Desk:
    """Every file operation passes here, under the agent's effective ids."""

    def __init__(self, identity: Identity, root: files.Root, connection: Connection) -> None:
        self._identity = identity
        self._root = root
        self._connection = connection
        self.jobs: list[tuple[int, Iterator[bool]]] = []  # each waits for its next slice
        self._parked: dict[int, Iterator[bool]] = {}  # reads whose window is used up
        self._windows: dict[int, int] = {}
        self._writes: dict[int, files.NewFile] = {}
        self._copies: dict[int, bulk.Bulk] = {}

    def take(self, kind: int, request_id: int, payload: bytes) -> None:
        """Take one frame of a file request. Raises WireError for a kind that is none."""
        self._identity.enter()
        try:
            self._dispatch(kind, request_id, payload)
        except OSError as error:
            self._fail(request_id, error)
        except ValueError as error:  # a NUL in a name
            self._fail(request_id, files.fail(errno.EINVAL, str(error)))
        finally:
            self._identity.leave()

    def cancel(self, request_id: int) -> None:
        """Give a request up and leave nothing of it; one that has been answered is none of ours any more."""
        self._identity.enter()
        try:
            if not self._drop(request_id):
                return
        finally:
            self._identity.leave()
        self._fail(request_id, files.fail(errno.ECANCELED))

    def _drop(self, request_id: int) -> bool:
        found = False
        if request_id in self._writes:
            self._writes.pop(request_id).abandon()
            found = True
        if request_id in self._copies:
            self._copies.pop(request_id).close()
            found = True
        jobs = [job for known, job in self.jobs if known == request_id]
        jobs += [job for known, job in self._parked.items() if known == request_id]
        for job in jobs:
            job.close()  # type: ignore[attr-defined]
            found = True
        self.jobs = [(known, job) for known, job in self.jobs if known != request_id]
        self._parked.pop(request_id, None)
        self._windows.pop(request_id, None)
        return found

    def work(self, until_s: float) -> None:
        """Advance the jobs in turn until the time is up, none is left or the host must catch up."""
        self._identity.enter()
        try:
            while self.jobs and self._connection.waiting < HIGH_WATER:
                request_id, job = self.jobs.pop(0)
                self._advance(request_id, job)
                if time.monotonic() > until_s:
                    break
        finally:
            self._identity.leave()

    def _advance(self, request_id: int, job: Iterator[bool]) -> None:
        try:
            waits = next(job)
        except StopIteration:
            self._windows.pop(request_id, None)
        except OSError as error:
            self._windows.pop(request_id, None)
            self._fail(request_id, error)
        else:
            if waits:
                self._parked[request_id] = job
            else:
                self.jobs.append((request_id, job))

    def _want(self, request_id: int, payload: bytes) -> None:
        if request_id in self._windows:
            self._windows[request_id] += wire.WANTED.unpack(payload)[0]
            job = self._parked.pop(request_id, None)
            if job is not None:
                self.jobs.append((request_id, job))

    def _fail(self, request_id: int, error: OSError) -> None:
        number = error.errno or errno.EIO
        text = os.fsencode(error.strerror or os.strerror(number))
        self._connection.send(wire.FAILED, request_id, wire.pack_failure(number, text))

    def _dispatch(self, kind: int, request_id: int, payload: bytes) -> None:
        if kind == wire.WRITE:
            self._write(request_id, payload)
        elif kind == wire.READ:
            max_bytes, window = wire.READ_REQUEST.unpack_from(payload)
            if window:
                self._windows[request_id] = window
            self._begin(request_id, self._read(request_id, payload[wire.READ_REQUEST.size :], max_bytes))
        elif kind == wire.WANT:
            self._want(request_id, payload)
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
            manifest = tree.Manifest(self._root, self._identity, max_entries)
            self._begin(request_id, self._entries(request_id, manifest.walk()))
        else:
            raise wire.WireError("kind %d" % kind)

    def _begin(self, request_id: int, job: Iterator[bool]) -> None:
        """Do the first slice at once: most jobs are small, and then this is all."""
        self._advance(request_id, job)

    def _entries(self, request_id: int, records: Iterator[bytes]) -> Iterator[bool]:
        left = MAX_NAME_BYTES
        for payload in records:
            if payload:
                left -= len(payload)
                if left < 0:
                    raise files.fail(errno.E2BIG, "names of more than %d MiB" % (MAX_NAME_BYTES >> 20))
                self._connection.send(wire.ENTRIES, request_id, payload)
            yield False
        self._connection.send(wire.DONE, request_id)

    def _read(self, request_id: int, path: bytes, max_bytes: int) -> Iterator[bool]:
        handle, size = self._root.open_file(path, max_bytes)
        digest = streams.new_sha256()
        sent = 0
        pieces = tree.read_file(handle, size)
        try:
            for data in pieces:
                digest.update(data)  # type: ignore[attr-defined]
                sent += len(data)
                self._connection.send(wire.DATA, request_id, data)
                if sent < size:
                    yield self._used_up(request_id, len(data))
        finally:
            pieces.close()  # type: ignore[attr-defined]
        self._connection.send(wire.DONE, request_id, wire.FILE_END.pack(sent, digest.digest()))  # type: ignore[attr-defined]

    def _used_up(self, request_id: int, sent: int) -> bool:
        if request_id not in self._windows:
            return False
        self._windows[request_id] -= sent
        return self._windows[request_id] <= 0

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
