"""Patches: a diff in the unified format of git, exact to the byte, for tools and for terminals that escape it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from mindx.core.count import counted
from mindx.workspace.changes import Change, State, executable
from mindx.workspace.diff import FileDiff, TextDiff

NO_NEWLINE = b"\\ No newline at end of file\n"
_PLAIN_NAME = re.compile(rb"[^\x00-\x1f\x7f\"\\]+")
_ESCAPES = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}


def patch(diffs: Iterable[FileDiff]) -> Iterator[bytes]:
    """Yield the lines of a patch, each with its line feed.

    What a patch cannot say (binary contents, links, special files, caches) is a line that starts with `# `, which
    `git apply` and `patch` pass over.
    """
    for diff in diffs:
        yield from file_patch(diff)


def file_patch(diff: FileDiff) -> Iterator[bytes]:
    """Yield the lines of one file's patch."""
    change = diff.change
    if diff.marks:
        yield _remark(f"runs on your machine ({', '.join(diff.marks)})", change.path)
    if change.collapsed:
        files, size = counted(change.files, "file"), counted(change.size, "byte")
        yield _remark(f"{change.collapsed} added, {files}, {size}, not applicable", change.path)
        return
    if change.blocked:
        yield _remark(f"{_kind(change)} {change.kind}, not applicable: {change.blocked}", change.path)
    elif change.entry != "file":
        yield _remark(f"{_kind(change)} {change.kind}", change.path)
    if change.entry != "file" or (change.before is not None and change.before.entry != "file"):
        return
    if diff.text is None and diff.remark:
        yield _remark(f"file {change.kind}, {diff.remark}: {sizes(change)}", change.path)
        return
    if change.blocked:
        return
    yield from _header(diff)
    if diff.text is not None:
        yield from _body(diff, diff.text)


def sizes(change: Change) -> str:
    """Return the old and new size and digest of a file, in words."""
    before, after = _size(change.before), _size(change.after)
    return before + (" -> " if before and after else "") + after


def _size(state: State | None) -> str:
    return "" if state is None else f"{counted(state.size, 'byte')}, sha256 {state.sha256[:16] or 'unknown'}"


def _kind(change: Change) -> str:
    state = change.state
    if state.entry == "link":
        return f"link to {quoted(os.fsencode(state.target)).decode('ascii', 'backslashreplace')}"
    return "special file" if state.entry == "other" else state.entry


def _header(diff: FileDiff) -> Iterator[bytes]:
    change = diff.change
    before, after = (change.before, change.after) if diff.source is None else (diff.source.before, change.after)
    old_path = change.path if diff.source is None else diff.source.path
    yield b"diff --git %s %s\n" % (_name("a/", old_path), _name("b/", change.path))
    if before is None:
        yield b"new file mode %s\n" % _mode(after)
    elif after is None:
        yield b"deleted file mode %s\n" % _mode(before)
    elif _mode(before) != _mode(after):
        yield b"old mode %s\nnew mode %s\n" % (_mode(before), _mode(after))
    if diff.source is not None:
        yield b"similarity index 100%%\nrename from %s\nrename to %s\n" % (_name("", old_path), _name("", change.path))


def _body(diff: FileDiff, text: TextDiff) -> Iterator[bytes]:
    hunks = text.hunks()
    if not hunks:
        return
    change = diff.change
    # A name with a blank needs a tab behind it, else `patch` takes what follows the blank for a date.
    tab = b"\t" if " " in change.path else b""
    yield b"--- " + (b"/dev/null" if change.before is None else _name("a/", change.path) + tab) + b"\n"
    yield b"+++ " + (b"/dev/null" if change.after is None else _name("b/", change.path) + tab) + b"\n"
    for hunk in hunks:
        yield hunk.heading.encode() + b"\n"
        for sign, _, line in text.lines(hunk):
            yield from signed(sign, line)


def signed(sign: str, line: bytes) -> Iterator[bytes]:
    """Yield a line of a hunk, and the remark that follows the last line of a text without a line feed."""
    if line.endswith(b"\n"):
        yield sign.encode() + line
    else:
        yield sign.encode() + line + b"\n"
        yield NO_NEWLINE


def _mode(state: State | None) -> bytes:
    return b"100755" if state is not None and executable(state) else b"100644"


def _name(prefix: str, path: str) -> bytes:
    return quoted(os.fsencode(prefix + path))


def quoted(name: bytes) -> bytes:
    """Return a name as git writes it: between quotes, with octal escapes, if it has bytes that would mislead."""
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if _PLAIN_NAME.fullmatch(name) and text.isprintable() and text:
        return name
    body = b"".join(_ESCAPES.get(byte) or (bytes([byte]) if 32 <= byte < 127 else b"\\%03o" % byte) for byte in name)
    return b'"' + body + b'"'


def _remark(text: str, path: str) -> bytes:
    return b"# " + _name("", path) + b": " + text.replace("\n", " ").encode("utf-8", "backslashreplace") + b"\n"
