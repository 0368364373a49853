"""Workspace paths: one pure check on the host, before a path crosses the wall.

It says what was meant, early and clearly. It is no boundary: the guest walks every path by directory handle.
"""

from __future__ import annotations

from mindx.core.command import WORKSPACE
from mindx.errors import InputError

MAX_PATH_BYTES = 4096  # Linux PATH_MAX
MAX_NAME_BYTES = 255  # Linux NAME_MAX
_ROOT = WORKSPACE.strip("/")


class PathRefused(InputError):
    """A path cannot be used. Codes: path_empty, path_invalid, path_too_long, path_outside."""


def resolve(path: str, cwd: str = WORKSPACE) -> str:
    """Return `path` as a normalised absolute path under the workspace.

    `path` is relative to `cwd`, or absolute under /workspace; `..` is resolved by name, as no link is ever followed.
    Nothing is looked up. Raises PathRefused.
    """
    size = _check_text(path)
    base = [] if path.startswith("/") else _climb(_below_root(cwd, cwd), [], cwd)
    parts = _below_root(path, path) if path.startswith("/") else path.split("/")
    names = _climb(parts, base, path)
    resolved = "/".join([WORKSPACE, *names])
    if max(size, len(_encode(resolved))) > MAX_PATH_BYTES:
        raise PathRefused("path_too_long", f"{_shown(path)} is longer than {MAX_PATH_BYTES} bytes")
    return resolved


def inside(path: str) -> bool:
    """Return True when `path` is a normalised absolute path under the workspace, or the workspace itself."""
    try:
        return resolve(path) == path
    except PathRefused:
        return False


def _check_text(path: str) -> int:
    if not path:
        raise PathRefused("path_empty", "a path is empty; write . for the current directory")
    if "\0" in path:
        raise PathRefused("path_invalid", f"{_shown(path)} holds a NUL byte; no file can have that name")
    size = len(_encode(path))
    if size > MAX_PATH_BYTES:
        raise PathRefused("path_too_long", f"{_shown(path)} is longer than {MAX_PATH_BYTES} bytes")
    return size


def _below_root(path: str, shown: str) -> list[str]:
    """Return the parts of an absolute path below /workspace."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not path.startswith("/") or parts[:1] != [_ROOT]:
        raise _outside(shown)
    return parts[1:]


def _climb(parts: list[str], base: list[str], shown: str) -> list[str]:
    names = list(base)
    for part in parts:
        if part in ("", "."):
            continue
        if part == "..":
            if not names:
                raise _outside(shown)
            names.pop()
            continue
        if len(_encode(part)) > MAX_NAME_BYTES:
            raise PathRefused("path_too_long", f"{_shown(shown)} holds a name longer than {MAX_NAME_BYTES} bytes")
        names.append(part)
    return names


def _outside(path: str) -> PathRefused:
    return PathRefused(
        "path_outside",
        f"{_shown(path)} is outside the workspace; write a path relative to {WORKSPACE}, or one that begins with it",
    )


def _encode(path: str) -> bytes:
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise PathRefused("path_invalid", f"{_shown(path)} is not a file name: it holds half a character") from None


def _shown(path: str) -> str:
    return ascii(path if len(path) <= 80 else path[:77] + "...")
