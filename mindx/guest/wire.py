"""The framed protocol between host and guest, both sides.

A frame is a 16-byte header (kind, flags, sequence number, request id, payload length; little-endian) and a payload.
Each side counts its own frames from 0; a gap, a repeat, an unknown kind or a payload over MAX_PAYLOAD ends the session.
Texts are bytes in the container's own encoding (`os.fsencode`), lists of texts are joined by NUL, which none may hold.

This module is copied into the container: standard library only, Python 3.8 or newer, quick to import.
"""

from __future__ import annotations

import struct

PROTOCOL = 1
HEADER = struct.Struct("<BBxxIII")
MAX_PAYLOAD = 1 << 20
CHUNK = 256 * 1024

# host to guest
HELLO = 1  # Settings as texts `key=value`; the guest says nothing before it
EXEC = 2
STDIN = 3  # a piece of the command's input; an empty one ends it (of a terminal: nothing does); sent only after WANT
CANCEL = 4  # ends a command, or gives up any other request; what has been answered already is left alone
PING = 5
READ = 6  # ReadRequest
WRITE = 7  # WriteRequest, its first data behind it; the rest follows as DATA
LIST = 8
MKDIR = 9
REMOVE = 10
STAT = 11
PUT = 12  # opens a bulk copy; DATA carries PutRecords, an empty DATA ends it
MANIFEST = 13
GOODBYE = 14
FAREWELL = 15  # the host has all it was owed; the guest may exit
HOLD = 16  # the engine has paused the container: no deadline counts until RESUME, or HOLD_S after the pause
RESUME = 17  # PAUSED_FOR: how long it stood still, by which every deadline moves
RESIZE = 18  # SIZE: rows and columns of a command's terminal; one that has ended, or has none, is left alone

# both ways
DATA = 20

# guest to host
READY = 30  # facts as texts `key=value`, for the comparison of asked and effective
OUT = 31  # flags: STDOUT or STDERR; the stream's head, as it arrives
TAIL = 32  # flags as OUT; the kept end of a stream that went over its cap, before EXITED
EXITED = 33  # ExitRecord; the one answer to EXEC
WANT = 34  # the command can take more input; from the host: WANTED more bytes of a READ with a window
DONE = 35  # a file request succeeded; payload by request
FAILED = 36  # errno and text; the one answer to a request that could not be done
ENTRIES = 37  # EntryRecords
PONG = 38
BYE = 39

FLOWING = frozenset((DATA, OUT, TAIL))
STDOUT = 1
STDERR = 2

KIND_FILE = 0
KIND_DIRECTORY = 1
KIND_LINK = 2
KIND_OTHER = 3


class WireError(Exception):
    """The other side broke the protocol."""


def frame(kind: int, sequence: int, request_id: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """Return one frame as bytes; `sequence` wraps at 2**32."""
    return HEADER.pack(kind, flags, sequence & 0xFFFFFFFF, request_id, len(payload)) + payload


class FrameReader:
    """Cuts a byte stream into frames and checks their sequence."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._expected = 0
        self._flowing: tuple[int, int, int] | None = None  # kind, flags and id of a payload that passes in pieces
        self._left = 0

    def feed(self, data: bytes | memoryview) -> list[tuple[int, int, int, bytes]]:
        """Return what is complete now, as (kind, flags, request id, payload).

        The payload of a kind in FLOWING comes in as many pieces as it arrives in, so that bulk is copied once.
        Raises WireError on a gap in the sequence or a payload over MAX_PAYLOAD.
        """
        if not self._buffer and not self._left:
            whole = self._lone_frame(data)
            if whole is not None:
                return [whole]
        frames = []
        view = memoryview(data)
        while view or self._buffer:
            if self._left:
                piece = bytes(view[: self._left])
                if not piece:
                    break
                view = view[len(piece) :]
                self._left -= len(piece)
                kind, flags, request_id = self._flowing  # type: ignore[misc]
                frames.append((kind, flags, request_id, piece))
                continue
            view = self._fill(view, HEADER.size)
            if len(self._buffer) < HEADER.size:
                break
            kind, flags, sequence, request_id, length = HEADER.unpack_from(self._buffer)
            if length > MAX_PAYLOAD:
                raise WireError("frame of %d bytes" % length)
            flows = kind in FLOWING and length
            view = self._fill(view, HEADER.size if flows else HEADER.size + length)
            if not flows and len(self._buffer) < HEADER.size + length:
                break
            if sequence != self._expected:
                raise WireError("frame %d where %d was due" % (sequence, self._expected))
            self._expected = (sequence + 1) & 0xFFFFFFFF
            if flows:
                self._flowing, self._left = (kind, flags, request_id), length
            else:
                frames.append((kind, flags, request_id, bytes(memoryview(self._buffer)[HEADER.size :])))
            self._buffer = bytearray()
        return frames

    def _lone_frame(self, data: bytes | memoryview) -> tuple[int, int, int, bytes] | None:
        """Return the one frame that the data is, as most of it comes, or None when it is anything else."""
        size = len(data) - HEADER.size
        if size < 0:
            return None
        kind, flags, sequence, request_id, length = HEADER.unpack_from(data)
        if length != size or sequence != self._expected or size > MAX_PAYLOAD:
            return None
        self._expected = (sequence + 1) & 0xFFFFFFFF
        return kind, flags, request_id, bytes(data[HEADER.size :])

    def _fill(self, view: memoryview, size: int) -> memoryview:
        """Bring the buffer up to `size` bytes, as far as there are any, and return the rest."""
        need = size - len(self._buffer)
        if need <= 0:
            return view
        self._buffer += view[:need]
        return view[need:]


def join_texts(texts: list[bytes]) -> bytes:
    """Return texts as one payload. Raises ValueError if one holds a NUL."""
    joined = b"\0".join(texts)
    if joined.count(b"\0") >= max(1, len(texts)):
        raise ValueError("a NUL byte in %r" % [text for text in texts if b"\0" in text][0][:40])
    return joined


def split_texts(payload: bytes) -> list[bytes]:
    """Return the texts of a payload; an empty payload is no text."""
    return payload.split(b"\0") if payload else []


# kind, mode, size, mtime ns, digest, length of path, length of link target
_ENTRY = struct.Struct("<BxHQq32sHH")


def pack_entry(
    path: bytes, kind: int, mode: int, size: int, mtime_ns: int = 0, sha256: bytes = b"", target: bytes = b""
) -> bytes:
    """Return one EntryRecord; `sha256` is the raw digest or empty."""
    return _ENTRY.pack(kind, mode, size, mtime_ns, sha256, len(path), len(target)) + path + target


def unpack_entries(payload: bytes) -> list[tuple[bytes, int, int, int, int, bytes, bytes]]:
    """Return (path, kind, mode, size, mtime ns, sha256, target) of each record. Raises WireError on a torn one."""
    entries = []
    at, end = 0, len(payload)
    while at < end:
        if end - at < _ENTRY.size:
            raise WireError("a torn entry")
        kind, mode, size, mtime_ns, sha256, path_length, target_length = _ENTRY.unpack_from(payload, at)
        at += _ENTRY.size
        stop = at + path_length + target_length
        if stop > end or kind > KIND_OTHER:
            raise WireError("a torn entry")
        entries.append(
            (payload[at : at + path_length], kind, mode, size, mtime_ns, sha256, payload[at + path_length : stop])
        )
        at = stop
    return entries


READ_REQUEST = struct.Struct("<QI")  # the most bytes to read, and to send ahead of WANT (0: all); the path follows
WANTED = struct.Struct("<I")
PAUSED_FOR = struct.Struct("<Q")  # ns
SIZE = struct.Struct("<HH")  # rows, columns
WRITE_REQUEST = struct.Struct("<QiH")  # size, mode (-1: keep), length of path; path and first data follow
PUT_RECORD = struct.Struct("<BxHQHH")  # kind, mode, size, length of path and of target; both and the data follow
MANIFEST_REQUEST = struct.Struct("<I")  # the most entries
FILE_END = struct.Struct("<Q32s")  # size and sha256: DONE of READ
FAILURE = struct.Struct("<i")  # errno; the text and the path follow


def pack_failure(errno: int, text: bytes, path: bytes = b"") -> bytes:
    """Return the payload of FAILED; `path` is empty when it is the one that was asked for."""
    return FAILURE.pack(errno) + text[:4096] + b"\0" + path


def unpack_failure(payload: bytes) -> tuple[int, bytes, bytes]:
    """Return errno, text and path of FAILED. Raises WireError when it is too short."""
    if len(payload) < 5 or payload.count(b"\0", 4) != 1:
        raise WireError("a failure of %d bytes" % len(payload))
    text, _, path = payload[4:].partition(b"\0")
    return FAILURE.unpack_from(payload)[0], text, path
