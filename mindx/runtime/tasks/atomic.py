"""Files of the user's state that are whole or as they were, and locks; what cannot be is a StateError."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from mindx.core.atomic_file import write_whole
from mindx.core.lock_file import LOOKED_AT_S, hold_lock
from mindx.core.unwritable import state_unwritable
from mindx.errors import InputError, StateError

T = TypeVar("T")


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` in the place of a file; its folder is made if need be. Raises StateError, and then nothing changed."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, data)
    except OSError as error:
        raise state_unwritable(path, error) from error


def read_file(path: Path, max_bytes: int) -> bytes | None:
    """Return a file's bytes, None when there is none. Raises StateError, also for a larger file or a link."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error.strerror or "") from error
    try:
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)
    except OSError as error:  # a folder cannot even be wrapped
        raise _unreadable(path, error.strerror or "") from error
    finally:
        os.close(handle)
    if len(data) > max_bytes:
        raise _unreadable(path, f"it has more than {max_bytes:,} bytes")
    return data


def names_in(folder: Path) -> list[str]:
    """Return the names of the folders in `folder`, sorted; where there is none, none. Raises StateError."""
    try:
        return sorted(item.name for item in folder.iterdir() if item.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(folder, error.strerror or "") from error


def load_all(folder: Path, load: Callable[[str], T | None]) -> list[T]:
    """Return what `load` gives for the name of each folder in `folder`, by name; what is None or damaged is left out.

    Raises StateError when `folder` cannot be read; where there is none, there is nothing.
    """
    found = []
    for name in names_in(folder):
        try:
            one = load(name)
        except (InputError, StateError):
            continue
        if one is not None:
            found.append(one)
    return found


@contextmanager
def locked(path: Path, busy: InputError, wait_s: float = LOOKED_AT_S) -> Iterator[None]:
    """Hold a lock file against other processes and other users of it.

    Raises `busy` when it is still held after `wait_s`, during which the thread is blocked; and StateError.
    """
    try:
        handle = hold_lock(path, wait_s)
    except OSError as error:
        raise state_unwritable(path, error) from error
    if handle is None:
        raise busy
    try:
        yield
    finally:
        os.close(handle)


def is_free(path: Path) -> bool:
    """Return whether nobody holds this lock file now. Raises StateError."""
    if not path.exists():
        return True
    try:
        handle = hold_lock(path, 0.0)
    except OSError as error:
        raise state_unwritable(path, error) from error
    if handle is None:
        return False
    os.close(handle)
    return True


def _unreadable(path: Path, reason: str) -> StateError:
    return StateError("state_unreadable", f"{path} cannot be read: {reason}", details={"path": str(path)})
