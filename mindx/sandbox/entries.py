"""Names as they cross the wall: records of the guest, checked and turned into entries, and the copy-in stream."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from mindx.errors import SandboxLostError, WorkspaceError
from mindx.guest import wire
from mindx.sandbox.base import Entry, EntryKind, ManifestEntry, PutItem

KINDS: tuple[EntryKind, ...] = ("file", "directory", "link", "other")
NUMBERS = {"file": wire.KIND_FILE, "directory": wire.KIND_DIRECTORY, "link": wire.KIND_LINK}
PIECE_BYTES = 256 * 1024


def entry(payload: bytes) -> Entry:
    """Return the one entry of a payload. Raises SandboxLostError."""
    records = _records([payload])
    if len(records) != 1:
        raise _broken("not one entry")
    path, kind, mode, size, mtime_ns, _, _ = records[0]
    return Entry(os.fsdecode(path), KINDS[kind], mode, size, mtime_ns / 1e9)


def listing(folder: str, payloads: list[bytes]) -> list[Entry]:
    """Return the entries of one directory, sorted by name, with whole paths. Raises SandboxLostError."""
    found = []
    for name, kind, mode, size, mtime_ns, _, _ in _records(payloads):
        if not name or b"/" in name or name in (b".", b".."):
            raise _broken("a listing holds a path")
        found.append(Entry(f"{folder}/{os.fsdecode(name)}", KINDS[kind], mode, size, mtime_ns / 1e9))
    return sorted(found, key=lambda one: one.path)


def manifest(payloads: list[bytes], max_entries: int) -> list[ManifestEntry]:
    """Return the entries of the whole workspace, sorted by path. Raises SandboxLostError."""
    records = _records(payloads)
    if len(records) > max_entries:
        raise _broken("more entries than were asked for")
    found = {}
    for path, kind, mode, size, _, digest, target in records:
        if path.startswith(b"/") or any(part in (b"", b".", b"..") for part in path.split(b"/")):
            raise _broken("a path that leaves the workspace")
        sha256 = "" if digest == bytes(32) else digest.hex()
        name = os.fsdecode(path)
        found[name] = ManifestEntry(name, KINDS[kind], mode, size, sha256, os.fsdecode(target))
    if len(found) != len(records):
        raise _broken("a path twice")
    return [found[name] for name in sorted(found)]


def _records(payloads: list[bytes]) -> list[tuple[bytes, int, int, int, int, bytes, bytes]]:
    try:
        return [record for payload in payloads for record in wire.unpack_entries(payload)]
    except wire.WireError as error:
        raise _broken(str(error)) from error


def _broken(what: str) -> SandboxLostError:
    return SandboxLostError(
        "protocol_broken", f"The container broke the protocol ({what}). Nothing it said is trusted."
    )


def put_stream(items: Iterable[PutItem]) -> Iterator[bytes]:
    """Yield the stream of a copy in pieces of about PIECE_BYTES. Raises WorkspaceError when a file changes size."""
    held: list[bytes] = []
    size = 0
    for item in items:
        for piece in _item(item):
            held.append(piece)
            size += len(piece)
            if size >= PIECE_BYTES:
                yield from _cut(b"".join(held))
                held, size = [], 0
    if held:
        yield from _cut(b"".join(held))


def _cut(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), wire.MAX_PAYLOAD):
        yield data[at : at + wire.MAX_PAYLOAD]


def _item(item: PutItem) -> Iterator[bytes]:
    path, target = os.fsencode(item.path), os.fsencode(item.target)
    size = item.size if item.kind == "file" else 0
    yield wire.PUT_RECORD.pack(NUMBERS[item.kind], item.mode & 0o777, size, len(path), len(target)) + path + target
    if item.kind != "file":
        return
    sent = 0
    for piece in item.content() if item.content is not None else ():
        sent += len(piece)
        if sent > size:
            break
        yield piece
    if sent != size:
        raise WorkspaceError(
            "changed_while_copied",
            f"{item.path} changed its size while it was copied in; try again when it is at rest.",
        )
