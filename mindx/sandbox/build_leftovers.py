"""What a killed build of an image leaves: containers, whose name tells the owner, and temporary folders, with a file.

Labels would go over into the image that is made of the container, so the owner stands in the name.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mindx.sandbox.owner import Owner

CONTAINER_PREFIX = "mindx-image-build-"
FOLDER_PREFIX = "mindx-image-"
# The whole programs of such containers, as the engine lists them: the seal, and one that is never started.
PROGRAMS = ("python3 -I -S /mindx/seal.py", "true")
_OWNER_FILE = "mindx-owner.json"
_MAX_OWNER_BYTES = 4096
_SPACE = "pid:["


def container_name(owner: Owner) -> str:
    """Return a new name for a container that builds an image for `owner`."""
    space = owner.pid_namespace.removeprefix(_SPACE).removesuffix("]")
    parts = (secrets.token_hex(6), owner.machine_id, owner.boot_id, space, str(owner.pid), owner.pid_start)
    return CONTAINER_PREFIX + ".".join(parts)


def owner_in_name(name: str) -> Owner | None:
    """Return the owner that a container's name tells, None when it tells none."""
    parts = name.removeprefix(CONTAINER_PREFIX).split(".")
    if not name.startswith(CONTAINER_PREFIX) or len(parts) != 6 or not parts[4].isdecimal():
        return None
    _, machine_id, boot_id, space, pid, pid_start = parts
    return Owner(machine_id, boot_id, f"{_SPACE}{space}]" if space else "", int(pid), pid_start)


@contextmanager
def build_folder() -> Iterator[Path]:
    """Make a temporary folder that says whose it is, and remove it at the end. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX) as name:
        folder = Path(name)
        (folder / _OWNER_FILE).write_text(json.dumps(Owner.me().labels()))
        yield folder


def dead_folders(parent: Path | None = None) -> list[Path]:
    """Return the folders in `parent` (the system's temporary folder when None) of builds whose owner is dead."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    try:
        names = sorted(name for name in os.listdir(parent) if name.startswith(FOLDER_PREFIX))
    except OSError:
        return []
    return [parent / name for name in names if _is_dead(parent / name)]


def _is_dead(folder: Path) -> bool:
    """Look at one folder. Anybody may make one of this name: only our user's own counts, and only its own file."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(_OWNER_FILE, flags, dir_fd=handle)
        with os.fdopen(file, "rb") as stream:
            for found in (os.fstat(handle), os.fstat(file)):
                if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                    return False
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return False
            document = json.loads(stream.read(_MAX_OWNER_BYTES))
        owner = Owner.from_labels(document) if isinstance(document, dict) else None
        return owner is not None and owner.is_dead(local_engine=True)
    except (OSError, ValueError, TypeError):
        return False
    finally:
        os.close(handle)


def remove_folder(folder: Path) -> bool:
    """Remove a folder that dead_folders has found; False when it, or some of it, could not be removed.

    Nothing is touched while something is mounted in it, which could be the host's own.
    """
    if not shutil.rmtree.avoids_symlink_attacks or _has_mount(folder):
        return False
    # The owner's file goes last: what could not be removed now is found again.
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            elif entry.name != _OWNER_FILE:
                os.unlink(entry.path)
        shutil.rmtree(folder)
    return not os.path.lexists(folder)


def _has_mount(folder: Path) -> bool:
    inside = os.fsencode(os.path.realpath(folder)) + b"/"
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return True
    return any((line.split()[4] + b"/").startswith(inside) for line in lines)
