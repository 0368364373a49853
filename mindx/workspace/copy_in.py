"""Copy in: a folder of the host becomes the workspace, through the stream."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from mindx.core.count import counted
from mindx.errors import WorkspaceError
from mindx.sandbox.base import ManifestEntry, PutItem, Sandbox
from mindx.workspace.baseline import Baseline
from mindx.workspace.folder import identity, open_folder
from mindx.workspace.handle import open_directory, open_regular, read_chunks
from mindx.workspace.ignore import IgnoreRules, outer_rules
from mindx.workspace.select import Selected, Selection, select


@dataclass
class CopyIn:
    """A folder that was looked through and may go in. It holds handles: use it with `with`, or close it."""

    folder: Path
    selection: Selection
    root: int
    device: int
    inode: int
    _digests: dict[str, str] = field(default_factory=dict)
    _directory: tuple[str, int] | None = None

    @property
    def items(self) -> Iterator[PutItem]:
        """Yield what to put, parents first; each file is read when its turn comes."""
        for entry in self.selection.entries:
            content = self._content(entry) if entry.kind == "file" else None
            yield PutItem(entry.path, entry.kind, entry.mode, entry.size, content, entry.target)

    @property
    def baseline(self) -> Baseline:
        """Return what went in. Raises WorkspaceError if a file was not copied."""
        entries: dict[str, ManifestEntry] = {}
        for item in self.selection.entries:
            if item.kind == "file" and item.path not in self._digests:
                raise WorkspaceError("workspace_incomplete", f"{item.path!a} was not copied in; try again")
            digest = self._digests.get(item.path, "")
            entries[item.path] = ManifestEntry(item.path, item.kind, item.mode, item.size, digest, item.target)
        omitted = tuple(self.selection.omitted)
        return Baseline(
            entries, os.path.realpath(self.folder), self.device, self.inode, omitted, self.selection.omitted_count
        )

    def close(self) -> None:
        """Let go of the folder; may be called twice."""
        if self._directory is not None:
            os.close(self._directory[1])
            self._directory = None
        if self.root >= 0:
            os.close(self.root)
            self.root = -1

    def __enter__(self) -> CopyIn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _content(self, entry: Selected) -> Callable[[], Iterator[bytes]]:
        return lambda: self._read(entry)

    def _read(self, entry: Selected) -> Iterator[bytes]:
        """Yield a file's bytes, exactly as many as were announced, and keep their digest."""
        folder, _, name = entry.path.rpartition("/")
        try:
            handle = open_regular(self._enter(folder), name)
        except (OSError, ValueError) as error:
            raise _changed(entry.path, str(error)) from None
        digest, left = hashlib.sha256(), entry.size
        try:
            for chunk in read_chunks(handle):
                left -= len(chunk)
                if left < 0:
                    raise _changed(entry.path, "it grew")
                digest.update(chunk)
                yield chunk
        except OSError as error:
            raise _changed(entry.path, error.strerror or "it cannot be read") from None
        finally:
            os.close(handle)
        if left:
            raise _changed(entry.path, "it shrank")
        self._digests[entry.path] = digest.hexdigest()

    def _enter(self, folder: str) -> int:
        """Return a handle on a folder, kept for the next file of the same folder."""
        if self._directory is None or self._directory[0] != folder:
            fresh = open_directory(self.root, folder)
            if self._directory is not None:
                os.close(self._directory[1])
            self._directory = (folder, fresh)
        return self._directory[1]


def plan_copy(folder: Path, *, max_bytes: int, max_entries: int = 200_000, patterns: Sequence[str] = ()) -> CopyIn:
    """Look through `folder` and return what of it will go in; nothing is sent yet.

    `max_bytes` and `max_entries` are the workspace's limits; `patterns` are the policy's, as in .gitignore, and win
    over the folder's own. Raises WorkspaceError: a folder that may not be a workspace, or one that is too big.
    """
    root = open_folder(folder)
    try:
        device, inode = identity(root)
        selection = select(root, patterns, max_entries, _outer_rules(folder))
        if selection.page_bytes > max_bytes:
            files = sum(entry.kind == "file" for entry in selection.entries)
            raise WorkspaceError(
                "workspace_too_big",
                f"{ascii(str(folder))[1:-1]} holds {format_bytes(selection.page_bytes)} in {files} files, the "
                f"workspace takes {format_bytes(max_bytes)}; raise limits.workspace in the policy, or leave files "
                "out with .gitignore or workspace.exclude",
                details={"folder_bytes": selection.page_bytes, "limit_bytes": max_bytes, "files": files},
            )
    except BaseException:
        os.close(root)
        raise
    return CopyIn(folder, selection, root, device, inode)


def _outer_rules(folder: Path) -> tuple[IgnoreRules, ...]:
    try:
        return outer_rules(os.path.realpath(folder))
    except OSError as error:
        text = f"a .gitignore above {str(folder)!a} cannot be read: {error.strerror}"
        raise WorkspaceError("workspace_ignore", text) from None


async def copy_in(sandbox: Sandbox, copy: CopyIn) -> Baseline:
    """Put a planned copy into a sandbox and return its Baseline.

    Raises WorkspaceError if a file changed since it was planned, FileError (ENOSPC, ...) from inside.
    """
    await sandbox.put(copy.items)
    return copy.baseline


def format_bytes(count: int) -> str:
    """Return a number of bytes as people write it: `5 bytes`, `1.5 KiB`, `200.0 MiB`."""
    if count < 1024:
        return counted(count, "byte")
    size = count / 1024
    for unit in ("KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _changed(path: str, reason: str) -> WorkspaceError:
    return WorkspaceError(
        "workspace_changed",
        f"{path!a} changed while it was copied in ({reason}); try again",
        recoverable=True,
        details={"path": ascii(path)},
    )
