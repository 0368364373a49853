"""The fake's files: a small tree in memory with the errors of a POSIX system, seen as the agent's own user."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from mindx.core.command import WORKSPACE
from mindx.errors import FileError
from mindx.sandbox.base import EntryKind

PAGE_BYTES = 4096  # a tmpfs gives whole pages
NAME_MAX_BYTES = 255
PATH_MAX_BYTES = 4096
MAX_LINKS = 40  # Linux follows no more of them
READ, WRITE, ENTER = 0o400, 0o200, 0o100


def file_error(number: int, path: str) -> FileError:
    """Return the FileError for a system error number."""
    name = errno.errorcode[number]
    return FileError(f"file_{name.lower()}", f"{path!r}: {os.strerror(number)}", errno=number, path=path)


@dataclass
class Node:
    """One thing in the tree: `data` is a file's content, `children` a directory's names, `target` a link's text."""

    kind: EntryKind
    mode: int
    data: bytes = b""
    target: str = ""
    children: dict[str, Node] = field(default_factory=dict)
    mtime_s: float = field(default_factory=time.time)

    @property
    def size(self) -> int:
        """Bytes of a file or of a link's target; 0 for a directory."""
        return len(os.fsencode(self.target)) if self.kind == "link" else len(self.data)

    @property
    def pages_bytes(self) -> int:
        """The room it takes, in bytes."""
        return -(-len(self.data) // PAGE_BYTES) * PAGE_BYTES


class Tree:
    """Directories, files and links below `/`; the workspace holds at most `workspace_bytes` and `workspace_inodes`.

    Every method takes absolute paths and raises FileError. None follows a link, unless `follow` says so:
    file commands never do, programs (`cat`) do.
    """

    def __init__(self, workspace_bytes: int, workspace_inodes: int) -> None:
        self.root = Node("directory", 0o755)
        self.root.children["tmp"] = Node("directory", 0o777)
        self.root.children[WORKSPACE[1:]] = Node("directory", 0o770)
        self._free_bytes = workspace_bytes
        self._free_inodes = workspace_inodes - 1  # the workspace itself is one

    def look(self, path: str, follow: bool = False) -> Node:
        """Return what stands at `path`; a link at its end is returned as a link unless `follow`."""
        return self._walk(path, follow, MAX_LINKS)

    def read(self, path: str, max_bytes: int | None = None, follow: bool = False) -> bytes:
        """Return a regular file's content: EISDIR, ELOOP, EINVAL, EACCES, EFBIG."""
        node = self.look(path, follow)
        numbers = {"directory": errno.EISDIR, "link": errno.ELOOP, "other": errno.EINVAL}
        if node.kind in numbers:
            raise file_error(numbers[node.kind], path)
        if not node.mode & READ:
            raise file_error(errno.EACCES, path)
        if max_bytes is not None and node.size > max_bytes:
            raise file_error(errno.EFBIG, path)
        return node.data

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Create or replace a regular file, as a temporary file and a rename do."""
        parent, name = self._parent(path)
        old = parent.children.get(name)
        if old is not None and old.kind != "file":
            numbers = {"directory": errno.EISDIR, "link": errno.ELOOP}
            raise file_error(numbers.get(old.kind, errno.EINVAL), path)
        kept_mode = old.mode if old else 0o664
        self._add(parent, path, Node("file", kept_mode if mode is None else mode, data))

    def make_dir(self, path: str) -> None:
        """Make a directory and its missing parents: EEXIST where a file stands, ENOTDIR below one, ELOOP at a link."""
        parts = _split(path)
        node = self.root
        for index, name in enumerate(parts):
            below = node.children.get(name)
            if below is None:
                below = Node("directory", 0o775)
                self._add(node, path, below, name)
            elif below.kind == "link":
                raise file_error(errno.ELOOP, path)
            elif below.kind != "directory":
                raise file_error(errno.EEXIST if index == len(parts) - 1 else errno.ENOTDIR, path)
            node = below

    def link(self, path: str, target: str) -> None:
        """Make a link; what stands there already is an error (EEXIST)."""
        parent, name = self._parent(path)
        if name in parent.children:
            raise file_error(errno.EEXIST, path)
        self._add(parent, path, Node("link", 0o777, target=target))

    def remove(self, path: str) -> None:
        """Remove a file or link; a directory is an error (EISDIR)."""
        parent, name = self._parent(path)
        node = parent.children.get(name)
        if node is None:
            raise file_error(errno.ENOENT, path)
        if node.kind == "directory":
            raise file_error(errno.EISDIR, path)
        if not parent.mode & WRITE:
            raise file_error(errno.EACCES, path)
        del parent.children[name]
        if _in_workspace(path):
            self._free_bytes += node.pages_bytes
            self._free_inodes += 1

    def children(self, path: str) -> list[tuple[str, Node]]:
        """Return a directory's names, sorted: ENOTDIR, ELOOP at a link, EACCES."""
        node = self.look(path)
        if node.kind != "directory":
            raise file_error(errno.ELOOP if node.kind == "link" else errno.ENOTDIR, path)
        if not node.mode & READ:
            raise file_error(errno.EACCES, path)
        return sorted(node.children.items())

    def walk(self, visit: Callable[[str, Node], None]) -> None:
        """Call `visit` with the path (relative to the workspace) and node of all that the workspace holds.

        Modes hide nothing: who owns a file can always give itself the right back.
        """
        pending = [("", self.look(WORKSPACE))]
        while pending:
            prefix, directory = pending.pop()
            for name, node in directory.children.items():
                visit(prefix + name, node)
                if node.kind == "directory":
                    pending.append((f"{prefix}{name}/", node))

    def _add(self, parent: Node, path: str, node: Node, name: str = "") -> None:
        name = name or path.rpartition("/")[2]
        if not parent.mode & WRITE:
            raise file_error(errno.EACCES, path)
        if _in_workspace(path):
            # Old and new content exist side by side until the rename.
            if node.pages_bytes > self._free_bytes or not self._free_inodes:
                raise file_error(errno.ENOSPC, path)
            old = parent.children.get(name)
            self._free_bytes += (old.pages_bytes if old else 0) - node.pages_bytes
            self._free_inodes -= 0 if old else 1
        parent.children[name] = node
        parent.mtime_s = node.mtime_s

    def _parent(self, path: str) -> tuple[Node, str]:
        parts = _split(path)
        if not parts:
            raise file_error(errno.EISDIR, path)
        parent = self._walk_parts(parts[:-1], path, False, MAX_LINKS)
        if parent.kind != "directory":
            raise file_error(errno.ELOOP if parent.kind == "link" else errno.ENOTDIR, path)
        if not parent.mode & ENTER:
            raise file_error(errno.EACCES, path)
        return parent, parts[-1]

    def _walk(self, path: str, follow: bool, links_left: int) -> Node:
        return self._walk_parts(_split(path), path, follow, links_left)

    def _walk_parts(self, parts: list[str], path: str, follow: bool, links_left: int) -> Node:
        node, here = self.root, ""
        for index, name in enumerate(parts):
            if node.kind != "directory":
                raise file_error(errno.ELOOP if node.kind == "link" else errno.ENOTDIR, path)
            if not node.mode & ENTER:
                raise file_error(errno.EACCES, path)
            if name not in node.children:
                raise file_error(errno.ENOENT, path)
            node = node.children[name]
            if node.kind == "link" and follow:
                if links_left == 0:
                    raise file_error(errno.ELOOP, path)
                rest = os.path.join(here or "/", node.target, *parts[index + 1 :])
                return self._walk(os.path.normpath(rest), follow, links_left - 1)
            here = f"{here}/{name}"
        return node


def _in_workspace(path: str) -> bool:
    return path == WORKSPACE or path.startswith(WORKSPACE + "/")


def _split(path: str) -> list[str]:
    if not path.startswith("/") or "\0" in path:
        raise file_error(errno.EINVAL, path)
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise file_error(errno.EINVAL, path)
    too_long = any(len(os.fsencode(part)) > NAME_MAX_BYTES for part in parts)
    if too_long or len(os.fsencode(path)) >= PATH_MAX_BYTES:
        raise file_error(errno.ENAMETOOLONG, path)
    return parts
