"""Under sudo: what root wrote into the calling user's state folder goes to that user."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path


def caller_ids(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the uid and gid of who called sudo; None when this is no sudo, or root called it."""
    if os.geteuid() != 0:
        return None
    try:
        uid, gid = int(environ["SUDO_UID"]), int(environ["SUDO_GID"])
    except (KeyError, ValueError):
        return None
    return (uid, gid) if uid > 0 else None


def hand_over(folder: Path, ids: tuple[int, int]) -> int:
    """Give root's own folders and files below `folder` to the caller; return how many. Never raises.

    Only when the folder that it stands in is the caller's already. The caller may change all of it meanwhile, so
    nothing is followed: every entry is taken by its directory's handle, links and files with several names stay.
    """
    uid, gid = ids
    count = 0
    try:
        if folder.parent.lstat().st_uid != uid and folder.lstat().st_uid != uid:
            return 0
        for _, directories, files, handle in os.fwalk(folder, follow_symlinks=False):
            if os.fstat(handle).st_uid == 0:
                os.fchown(handle, uid, gid)
                count += 1
            for name in (*directories, *files):
                found = os.stat(name, dir_fd=handle, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and found.st_uid == 0 and found.st_nlink == 1:
                    count += _give(name, handle, uid, gid)
    except OSError:
        return count  # it is not worth failing a run for
    return count


def _give(name: str, directory: int, uid: int, gid: int) -> int:
    """Give one regular file away by its own handle: what the name points to a moment later does not matter."""
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        found = os.fstat(handle)
        if not (stat.S_ISREG(found.st_mode) and found.st_uid == 0 and found.st_nlink == 1):
            return 0
        os.fchown(handle, uid, gid)
        return 1
    finally:
        os.close(handle)
