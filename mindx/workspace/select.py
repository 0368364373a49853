"""Selection: which files of a folder go into the container, and which are left out and why."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Literal

from mindx.core.frozen import dataclass
from mindx.errors import WorkspaceError
from mindx.workspace.folder import ENGINE_SOCKET_NAMES, engine_socket_refused
from mindx.workspace.handle import STAGING_PREFIX, kind_of, open_directory, open_regular, read_chunks
from mindx.workspace.ignore import MAX_IGNORE_BYTES, IgnoreRules, IgnoreStack, lines_in

MAX_DEPTH = 200
MAX_OMITTED = 1000
PAGE_BYTES = 4096  # the workspace is a tmpfs: it gives whole pages
HISTORY = ".git"


@dataclass(frozen=True, slots=True)
class Selected:
    """One thing that goes in. `path` is relative to the folder; `target` is the text of a link."""

    path: str
    kind: Literal["file", "directory", "link"]
    mode: int
    size: int = 0
    target: str = ""


@dataclass(frozen=True, slots=True)
class Omitted:
    """One thing that stays out, and why; a folder stands for all that it holds."""

    path: str
    reason: str


@dataclass
class Selection:
    """What goes in, parents first, and what does not. `omitted` keeps the first 1,000; `omitted_count` counts all."""

    entries: list[Selected] = field(default_factory=list)
    omitted: list[Omitted] = field(default_factory=list)
    omitted_count: int = 0
    content_bytes: int = 0
    page_bytes: int = 0

    def leave_out(self, path: str, reason: str) -> None:
        """Note one thing that stays out."""
        self.omitted_count += 1
        if len(self.omitted) < MAX_OMITTED:
            self.omitted.append(Omitted(path, reason))


def select(
    root: int, patterns: Sequence[str] = (), max_entries: int = 200_000, outer: tuple[IgnoreRules, ...] = ()
) -> Selection:
    """Return what of the folder behind the handle `root` goes in.

    `patterns` are the policy's, in .gitignore syntax; they win over the folder's .gitignore files, and these over
    `outer`, the rules from above the folder. The folder .git never goes in: the plan sees the files, not their
    history. Links that lead out of the folder, sockets, FIFOs and devices stay out. Raises WorkspaceError: too many
    entries, too deep, unreadable, an engine's socket.
    """
    selection = Selection()
    stack = IgnoreStack(IgnoreRules.parse("", patterns), outer)
    for directory in _walk(root, "", 0, stack, selection):
        if len(selection.entries) > max_entries:
            raise WorkspaceError(
                "workspace_entries",
                f"the folder holds more than {max_entries} files and folders (at {_shown(directory)}); "
                "leave some out with .gitignore or the policy's workspace.exclude, or raise limits.workspace_inodes",
            )
    return selection


def _walk(root: int, path: str, depth: int, stack: IgnoreStack, selection: Selection) -> Iterator[str]:
    if depth > MAX_DEPTH:
        raise WorkspaceError("workspace_depth", f"{_shown(path)} lies deeper than {MAX_DEPTH} folders; leave it out")
    try:
        handle = open_directory(root, path)
    except OSError as error:
        raise _unreadable(path, error) from None
    below: list[str] = []
    try:
        with os.scandir(handle) as found:
            entries = sorted(((entry.name, entry.stat(follow_symlinks=False)) for entry in found), key=_by_name)
        stack = _with_ignore_file(handle, path, entries, stack)
        for name, status in entries:
            inner = f"{path}/{name}" if path else name
            if _take(handle, inner, name, status, stack, selection):
                below.append(inner)
    except OSError as error:  # a name went away or changed between the listing and the look
        raise _unreadable(path, error) from None
    finally:
        os.close(handle)
    yield path
    for inner in below:  # no handle is held while going down, so depth costs none
        yield from _walk(root, inner, depth + 1, stack, selection)


def _by_name(entry: tuple[str, os.stat_result]) -> str:
    return entry[0]


def _take(handle: int, path: str, name: str, status: os.stat_result, stack: IgnoreStack, selection: Selection) -> bool:
    """Note one entry; True for a directory that goes in."""
    kind = kind_of(status.st_mode)
    if name == HISTORY:
        selection.leave_out(path, "git history is not copied in")
        return False
    if name.startswith(STAGING_PREFIX):
        selection.leave_out(path, "left by an apply that was interrupted")
        return False
    if reason := stack.reason(path, kind == "directory"):
        selection.leave_out(path, reason)
        return False
    mode = stat.S_IMODE(status.st_mode) & 0o777
    if kind == "directory":
        selection.entries.append(Selected(path, "directory", mode))
        return True
    if kind == "file":
        selection.entries.append(Selected(path, "file", mode, status.st_size))
        selection.content_bytes += status.st_size
        selection.page_bytes += -(-status.st_size // PAGE_BYTES) * PAGE_BYTES
    elif kind == "link":
        _take_link(handle, path, name, selection)
    else:
        if stat.S_ISSOCK(status.st_mode) and name in ENGINE_SOCKET_NAMES:
            raise engine_socket_refused("the folder", path)
        selection.leave_out(path, "a socket, FIFO or device")
    return False


def _take_link(handle: int, path: str, name: str, selection: Selection) -> None:
    target = os.readlink(name, dir_fd=handle)
    if leads_out(path, target):
        selection.leave_out(path, "a link that leads out of the folder")
    else:
        selection.entries.append(Selected(path, "link", 0o777, len(os.fsencode(target)), target))


def leads_out(path: str, target: str) -> bool:
    """Return True unless a link at `path` with this text stays inside the folder, read by names alone."""
    if target.startswith("/"):
        return True
    whole = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return whole == ".." or whole.startswith("../")


def _with_ignore_file(
    handle: int, path: str, entries: list[tuple[str, os.stat_result]], stack: IgnoreStack
) -> IgnoreStack:
    found = next((status for name, status in entries if name == ".gitignore"), None)
    if found is None or not stat.S_ISREG(found.st_mode):  # git does not follow a link here either
        return stack
    shown = _shown(f"{path}/.gitignore" if path else ".gitignore")
    if found.st_size > MAX_IGNORE_BYTES:
        raise WorkspaceError("workspace_ignore", f"{shown} is larger than {MAX_IGNORE_BYTES} bytes; make it smaller")
    try:
        file = open_regular(handle, ".gitignore")
    except (OSError, ValueError) as error:
        raise WorkspaceError("workspace_ignore", f"{shown} cannot be read: {error}") from None
    try:
        text = b"".join(read_chunks(file))[:MAX_IGNORE_BYTES]
    finally:
        os.close(file)
    try:
        lines = lines_in(text)
    except OSError as error:
        raise WorkspaceError("workspace_ignore", f"{shown} cannot be used: {error.strerror}; make it smaller") from None
    return stack.below(IgnoreRules.parse(path, lines))


def _unreadable(path: str, error: OSError) -> WorkspaceError:
    return WorkspaceError(
        "workspace_unreadable",
        f"{_shown(path)} cannot be read: {error.strerror}; it may have changed meanwhile: try again, or leave it out",
        recoverable=True,
    )


def _shown(path: str) -> str:
    return ascii(path or ".")
