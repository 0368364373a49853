"""Under sudo: the state folder is the calling user's, and what root wrote into it goes to that user."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from mindx.core.folders import calling_home, calling_user, state_dir
from mindx.errors import StateError

T = TypeVar("T")

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS = 40


def for_caller(work: Callable[[], T]) -> Callable[[], T]:
    """Return `work` with the state folder made ready before it, if this is sudo."""
    ids = calling_user()
    if ids is None:
        return work

    def with_folder() -> T:
        folder, home = state_dir(), calling_home()
        if home is not None and folder.is_relative_to(home):
            try:
                make_folder(folder, home, ids)
            except OSError as error:
                raise StateError(
                    "state_folder_unusable",
                    f"cannot use {folder}, the state folder of who called sudo: {error.strerror}. No link may be on "
                    "the way there; or name another folder in MINDX_STATE_DIR.",
                ) from error
        return work()

    return with_folder


def hand_over_state() -> None:
    """Give what is in the state folder to the caller, if this is sudo; call it when nothing is written any more."""
    ids = calling_user()
    if ids is not None:
        hand_over(state_dir(), ids)


def make_folder(folder: Path, home: Path, ids: tuple[int, int]) -> None:
    """Make a folder below the caller's home, and what is missing above it, as the caller's own.

    Every name is taken by its directory's handle: root must not write where a link of the caller's leads. Raises
    OSError, also for such a link.
    """
    with _opened(home) as (_, top):
        handle = os.dup(top)
    try:
        for name in folder.relative_to(home).parts:
            try:
                os.mkdir(name, 0o755, dir_fd=handle)
                made = True
            except FileExistsError:
                made = False
            below = os.open(name, _DIRECTORY, dir_fd=handle)
            os.close(handle)
            handle = below
            if made and os.fstat(handle).st_uid == 0:
                os.fchown(handle, *ids)
    finally:
        os.close(handle)


def hand_over(folder: Path, ids: tuple[int, int]) -> int:
    """Give root's own folders and files below `folder` to the caller; return how many. Never raises.

    Only when the folder that it stands in is the caller's already. The caller may change all of it meanwhile, so
    nothing is followed but root's own links above: every entry is taken by its directory's handle, links and files with
    several names stay.
    """
    uid, gid = ids
    count = 0
    try:
        with _opened(folder) as (parent, top):
            if os.fstat(parent).st_uid != uid and os.fstat(top).st_uid != uid:
                return 0
            for _, directories, files, handle in os.fwalk(".", follow_symlinks=False, dir_fd=top):
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


@contextmanager
def _opened(folder: Path) -> Iterator[tuple[int, int]]:
    """Give handles on the folder's parent and on itself, walked name by name from the root. Raises OSError.

    A link on the way is followed only when nobody but root can have put it there (/home on some systems).
    """
    names = [name for name in os.path.abspath(folder).split("/") if name]
    links = 0
    parent, top = -1, os.open("/", _DIRECTORY)
    try:
        while names:
            name = names.pop(0)
            if name == "..":  # of root's own link
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
            found = os.stat(name, dir_fd=top, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                links += 1
                if links > _MAX_LINKS or found.st_uid != 0 or not _only_root_writes(os.fstat(top)):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
                target = os.readlink(name, dir_fd=top)
                names = [part for part in target.split("/") if part not in ("", ".")] + names
                if target.startswith("/"):
                    os.close(top)
                    top = os.open("/", _DIRECTORY)
                    if parent >= 0:
                        os.close(parent)
                    parent = -1  # the link's own surroundings say nothing of where it leads
                continue
            below = os.open(name, _DIRECTORY, dir_fd=top)
            if parent >= 0:
                os.close(parent)
            parent, top = top, below
        if parent < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(folder))
        yield parent, top
    finally:
        for handle in (parent, top):
            if handle >= 0:
                os.close(handle)


def _only_root_writes(folder: os.stat_result) -> bool:
    return folder.st_uid == 0 and not folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


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
