"""Bulk copy into the workspace: PutRecords in a stream of DATA frames that may cut them anywhere."""

from __future__ import annotations

import errno
import os

from . import files, wire


class Bulk:
    """Takes the pieces of one PUT. A first failure is kept; what follows is taken and thrown away."""

    def __init__(self, root: files.Root) -> None:
        self._root = root
        self._buffer = bytearray()
        self._handle = -1
        self._left = 0
        self._mode = 0
        self._folder = b""
        self._folder_handle = root.open_directory(files.WORKSPACE)
        self.failure: OSError | None = None
        self.path = b""

    def feed(self, data: bytes) -> None:
        """Take one piece."""
        if self.failure is not None:
            return
        try:
            self._feed(data)
        except OSError as error:
            self.failure = error
        except ValueError as error:  # a NUL in a name
            self.failure = files.fail(errno.EINVAL, str(error))

    def _feed(self, data: bytes) -> None:
        if self._left and not self._buffer:
            if len(data) <= self._left:
                self._write(data)
                return
            head, data = data[: self._left], data[self._left :]
            self._write(head)
        self._buffer += data
        buffer, at = self._buffer, 0
        try:
            while True:
                if self._left:
                    piece = bytes(buffer[at : at + self._left])
                    if not piece:
                        return
                    at += len(piece)
                    self._write(piece)
                    continue
                after = self._record(buffer, at)
                if after == at:
                    return
                at = after
        finally:
            del buffer[:at]

    def _record(self, buffer: bytearray, at: int) -> int:
        """Begin the record at `at` and return where its data begins, or `at` when it is not whole yet."""
        start = at + wire.PUT_RECORD.size
        if len(buffer) < start:
            return at
        kind, mode, size, path_length, target_length = wire.PUT_RECORD.unpack_from(buffer, at)
        stop: int = start + path_length + target_length
        if len(buffer) < stop:
            return at
        self.path = bytes(buffer[start : start + path_length])
        self._make(kind, mode & 0o777, size, bytes(buffer[start + path_length : stop]))
        return stop

    def _make(self, kind: int, mode: int, size: int, target: bytes) -> None:
        folder, _, name = self.path.rpartition(b"/")
        if folder != self._folder:
            handle = self._root.open_directory(files.WORKSPACE + b"/" + folder if folder else files.WORKSPACE)
            os.close(self._folder_handle)
            self._folder, self._folder_handle = folder, handle
        if name in (b"", b".", b".."):
            raise files.fail(errno.EINVAL, "not a name")
        if kind == wire.KIND_DIRECTORY:
            try:
                os.mkdir(name, 0o700, dir_fd=self._folder_handle)
            except FileExistsError:
                pass
            os.chmod(name, mode | 0o700, dir_fd=self._folder_handle)
        elif kind == wire.KIND_LINK:
            os.symlink(target, name, dir_fd=self._folder_handle)
        elif kind == wire.KIND_FILE:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._handle = os.open(name, flags, 0o600, dir_fd=self._folder_handle)
            self._left, self._mode = size, mode
            if not size:
                self._end_file()
        else:
            raise files.fail(errno.EINVAL, "not a kind that can be copied in")

    def _write(self, data: bytes) -> None:
        files.write_all(self._handle, data)
        self._left -= len(data)
        if not self._left:
            self._end_file()

    def _end_file(self) -> None:
        os.fchmod(self._handle, self._mode)
        os.close(self._handle)
        self._handle = -1

    def close(self) -> None:
        """Close what is open."""
        for handle in (self._handle, self._folder_handle):
            if handle >= 0:
                os.close(handle)
        self._handle = self._folder_handle = -1

    def finish(self) -> None:
        """Close what is open. Raises OSError: the first failure, or EPROTO when the stream was cut."""
        self.close()
        if self.failure is None and (self._left or self._buffer):
            self.failure = files.fail(errno.EPROTO, "the copy was cut short")
        if self.failure is not None:
            raise self.failure
