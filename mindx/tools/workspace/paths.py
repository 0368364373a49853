"""Paths of a workspace: what a model wrote becomes a path of the container, or of the host's own copy of the folder.

On the container's side the check is a clear refusal; there the guest walks by directory handle and follows no link.
On the host's side this walk is the protection, so a checked path is read by handles and never opened by name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mindx.core.command import WORKSPACE
from mindx.core.quote import quoted
from mindx.errors import InputError
from mindx.policy.paths import PathRefused, resolve
from mindx.workspace.handle import is_relative, open_directory, open_regular, open_root, parent_of, read_chunks

_RELATIVE = "paths are relative to the workspace"


class WorkspacePathError(InputError):
    """A path leaves the workspace, or cannot be used in it.

    Codes: path_absolute, path_outside (`..`), path_link (it is a link, or leads through one), path_invalid,
    path_missing, path_too_large.
    """


def container_path(path: str) -> str:
    """Return a relative path as an absolute one of the container. Raises WorkspacePathError."""
    if path.startswith("/"):
        hint = f"; write {quoted(path[len(WORKSPACE) + 1 :] or '.')}" if path.startswith(f"{WORKSPACE}/") else ""
        raise WorkspacePathError(
            "path_absolute", f"{quoted(path)} is absolute; paths are relative to the workspace{hint}"
        )
    if ".." in path.split("/"):
        raise WorkspacePathError("path_outside", f"{quoted(path)} has `..` in it; name the way from the workspace down")
    try:
        return resolve(path)
    except PathRefused as error:
        raise WorkspacePathError("path_invalid", error.message) from None


def shown_path(path: str) -> str:
    """Return an absolute path of the container relative to the workspace, "." for itself."""
    return path[len(WORKSPACE) + 1 :] if path.startswith(f"{WORKSPACE}/") else "."


class WorkspacePathResolver:
    """Paths below one folder of the host. Raises WorkspacePathError (path_missing) when the folder is not there.

    `root` itself may be reached through links; below it none is followed, not even one that stays inside.
    """

    def __init__(self, root: str | Path) -> None:
        try:
            self.root = Path(root).resolve(strict=True)
        except (OSError, RuntimeError):
            raise WorkspacePathError("path_missing", f"there is no folder {quoted(str(root))}") from None
        if not self.root.is_dir():
            raise WorkspacePathError("path_missing", f"{quoted(str(root))} is no folder")

    def resolve(self, path: str) -> Path:
        """Return the path on the host; its last names may be missing. For reading use `read`, which cannot be raced.

        Raises WorkspacePathError for an absolute path, one with `..`, and one that is a link or leads through one.
        """
        parts = self._parts(path)
        found = self.root
        for index, name in enumerate(parts):
            found = found / name
            try:
                mode = os.lstat(found).st_mode
            except FileNotFoundError:
                return found.joinpath(*parts[index + 1 :])
            except OSError as error:
                raise WorkspacePathError("path_invalid", f"{quoted(path)}: {error.strerror}") from None
            if stat.S_ISLNK(mode):
                raise WorkspacePathError("path_link", f"{quoted(path)} is a link, or leads through one")
        return found

    def read(self, path: str, max_bytes: int) -> bytes:
        """Return a regular file's bytes. Raises WorkspacePathError, also for one larger than `max_bytes`."""
        parts = self._parts(path)
        with self._opened(path):
            root = open_root(str(self.root))
            try:
                with parent_of(root, "/".join(parts)) as (folder, name):
                    handle = open_regular(folder, name)
            finally:
                os.close(root)
        with os.fdopen(handle, "rb", buffering=0) as file:
            pieces: list[bytes] = []
            size = 0
            for piece in read_chunks(file.fileno()):
                size += len(piece)
                if size > max_bytes:
                    raise WorkspacePathError("path_too_large", f"{quoted(path)} has more than {max_bytes:,} bytes")
                pieces.append(piece)
        return b"".join(pieces)

    def listing(self, path: str = ".", limit: int = 200) -> tuple[list[str], bool]:
        """Return the names of a folder, sorted, `/` after a folder and `@` after a link, and whether there are more.

        At most `limit` names are kept, and ten times as many looked at. Raises WorkspacePathError.
        """
        parts = self._parts(path)
        names: list[str] = []
        with self._opened(path):
            root = open_root(str(self.root))
            try:
                handle = open_directory(root, "/".join(parts))
            finally:
                os.close(root)
            try:
                with os.scandir(handle) as entries:
                    for seen, entry in enumerate(entries):
                        if seen >= limit * 10:
                            return sorted(names)[:limit], True
                        mark = "@" if entry.is_symlink() else "/" if entry.is_dir(follow_symlinks=False) else ""
                        names.append(entry.name + mark)
            finally:
                os.close(handle)
        return sorted(names)[:limit], len(names) > limit

    def _parts(self, path: str) -> list[str]:
        if path.startswith("/"):
            raise WorkspacePathError(
                "path_absolute", f"{quoted(path)} is absolute; paths are relative to the workspace"
            )
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise WorkspacePathError("path_outside", f"{quoted(path)} has `..` in it")
        if parts and not is_relative("/".join(parts)):
            raise WorkspacePathError("path_invalid", f"{quoted(path)} is no path")
        return parts

    @contextmanager
    def _opened(self, path: str) -> Iterator[None]:
        """Turn the system's errors into ours."""
        try:
            yield
        except FileNotFoundError:
            raise WorkspacePathError("path_missing", f"there is no {quoted(path)}") from None
        except ValueError:
            raise WorkspacePathError("path_invalid", f"{quoted(path)} is no regular file") from None
        except OSError as error:
            link = error.errno in (errno.ELOOP, errno.ENOTDIR)
            code = "path_link" if link else "path_invalid"
            reason = "is or leads through a link, or something that is no folder" if link else str(error.strerror)
            raise WorkspacePathError(code, f"{quoted(path)} {reason}") from None
