"""Folders: which folder of the host may be a workspace at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mindx.core.folders import calling_home
from mindx.errors import Phase, WorkspaceError
from mindx.workspace.handle import open_root

# At these or anywhere below them: system state and devices.
_SYSTEM_TREES = (
    "/proc",
    "/sys",
    "/dev",
    "/etc",
    "/boot",
    "/run",
    "/var/run",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/libexec",
    "/System",
    "/Library",
    "/private/etc",
)
# Only these themselves: projects lie below them.
_SYSTEM_FOLDERS = (
    "/",
    "/usr",
    "/usr/local",
    "/usr/share",
    "/var",
    "/var/lib",
    "/var/tmp",
    "/var/log",
    "/opt",
    "/srv",
    "/home",
    "/root",
    "/mnt",
    "/media",
    "/tmp",
    "/Users",
    "/Volumes",
    "/private",
    "/private/tmp",
    "/private/var",
)
_ALLOWED_TREES = ("/dev/shm",)  # memory that users may use
_ENGINE_SOCKETS = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
)
ENGINE_SOCKET_NAMES = frozenset(("docker.sock", "podman.sock", "containerd.sock", "crio.sock", "buildkitd.sock"))


@contextmanager
def opened(folder: Path, phase: Phase = Phase.COPY_IN, environ: Mapping[str, str] | None = None) -> Iterator[int]:
    """Give a handle on a folder that may be a workspace. Raises WorkspaceError: missing, a link, or too broad."""
    handle = open_folder(folder, phase, environ)
    try:
        yield handle
    finally:
        os.close(handle)


def open_folder(folder: Path, phase: Phase = Phase.COPY_IN, environ: Mapping[str, str] | None = None) -> int:
    """Return a handle on a folder that may be a workspace; the caller closes it. Raises WorkspaceError."""
    shown = ascii(str(folder))[1:-1]
    if folder.is_symlink():
        raise _refused("workspace_link", f"{shown} is a link; name the folder itself", phase)
    try:
        handle = open_root(str(folder))
    except FileNotFoundError:
        raise _refused("workspace_missing", f"{shown} does not exist; name an existing folder", phase) from None
    except NotADirectoryError:
        raise _refused("workspace_no_folder", f"{shown} is not a folder; name a folder", phase) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _refused("workspace_unreadable", f"{shown} cannot be opened: {reason}", phase) from None
    try:
        _check(handle, folder, shown, phase, os.environ if environ is None else environ)
    except BaseException:
        os.close(handle)
        raise
    return handle


def identity(handle: int) -> tuple[int, int]:
    """Return what tells a folder from every other one: its device and inode."""
    found = os.fstat(handle)
    return found.st_dev, found.st_ino


def _check(handle: int, folder: Path, shown: str, phase: Phase, environ: Mapping[str, str]) -> None:
    real = os.path.realpath(folder)
    at_path = os.stat(real, follow_symlinks=False)
    if (at_path.st_dev, at_path.st_ino) != identity(handle):
        raise _refused("workspace_moved", f"{shown} was moved while it was opened; try again", phase, retry=True)
    if real in _real(_SYSTEM_FOLDERS) or any(
        _is_at_or_below(real, tree)
        for tree in _real(_SYSTEM_TREES)
        if not any(_is_below(real, allowed) for allowed in _ALLOWED_TREES)
    ):
        raise _refused("workspace_system", f"{shown} is a system folder; name a project folder", phase)
    homes = [os.path.realpath(home) for home in (environ.get("HOME") or Path.home(), calling_home()) if home]
    if any(real == home or _is_below(home, real) for home in homes):
        raise _refused("workspace_home", f"{shown} holds your whole home; name a project folder in it", phase)
    for socket in _engine_sockets(environ):
        if os.path.exists(socket) and _is_below(os.path.realpath(socket), real):
            raise engine_socket_refused(shown, socket, phase)


def engine_socket_refused(shown: str, socket: str, phase: Phase = Phase.COPY_IN) -> WorkspaceError:
    """Return the refusal of a folder that holds the socket of a container engine."""
    text = f"{shown} holds the socket of a container engine ({ascii(socket)[1:-1]}); name a folder without it"
    return _refused("workspace_engine_socket", text, phase)


def _engine_sockets(environ: Mapping[str, str]) -> tuple[str, ...]:
    host = environ.get("DOCKER_HOST", "")
    return (*_ENGINE_SOCKETS, host[len("unix://") :]) if host.startswith("unix://") else _ENGINE_SOCKETS


def _real(paths: tuple[str, ...]) -> set[str]:
    return {os.path.realpath(path) for path in paths} | set(paths)


def _is_below(path: str, tree: str) -> bool:
    return path.startswith(tree.rstrip("/") + "/") and path != tree


def _is_at_or_below(path: str, tree: str) -> bool:
    return path == tree or _is_below(path, tree)


def _refused(code: str, message: str, phase: Phase, retry: bool = False) -> WorkspaceError:
    return WorkspaceError(code, message, phase=phase, recoverable=retry)
