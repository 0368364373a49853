"""Locks among processes, by `flock`: one holder at a time, and none any more when its process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

_RETRY_S = 0.005
# Whoever looks whether a lock is free has it for a moment, which must not keep out who comes to work.
LOOKED_AT_S = 0.05


def hold_lock(path: Path, wait_s: float | None = LOOKED_AT_S) -> int | None:
    """Take a lock file, made with its folder if need be, and return its handle: closing that lets go of the lock.

    None when another still holds it after `wait_s` (None: as long as it takes); the thread is blocked meanwhile.
    Raises OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    taken = False
    try:
        taken = take_lock(handle, wait_s)
    finally:
        if not taken:
            os.close(handle)
    return handle if taken else None


def take_lock(handle: int, wait_s: float | None = 0.0) -> bool:
    """Take the lock of an open file or folder; return False when another still holds it after `wait_s`.

    Raises OSError, also where the file system has no locks.
    """
    if wait_s is None:
        fcntl.flock(handle, fcntl.LOCK_EX)
        return True
    until = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
        time.sleep(_RETRY_S)
