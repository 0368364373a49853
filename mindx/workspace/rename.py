"""Renaming onto a name that must be free: a file that appears there in the last moment is not lost."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable

from mindx.workspace.handle import look

_NOREPLACE = 1  # RENAME_NOREPLACE of renameat2(2), linux/fs.h
# What a kernel or a file system without it answers.
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


def _find_renameat2() -> Callable[[int, bytes, int, bytes], None] | None:
    """Return renameat2(2) with RENAME_NOREPLACE, which Python does not have; None where the system has none."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)

    def call(source: int, name: bytes, target: int, new_name: bytes) -> None:
        if function(source, name, target, new_name, _NOREPLACE) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return call


renameat2 = _find_renameat2()


def rename_new(name: str, source: int, new_name: str, target: int) -> None:
    """Move `name` of the directory `source` to `new_name` of `target`, which must be free.

    Without renameat2(2) a file gets its new name beside the old, which then goes; a file system without hard links
    too leaves the moment between a look and the move. Raises FileExistsError when something stands there, OSError.
    """
    if renameat2 is not None:
        try:
            renameat2(source, os.fsencode(name), target, os.fsencode(new_name))
            return
        except OSError as error:
            if error.errno not in _UNKNOWN:
                raise
    try:
        os.link(name, new_name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
    else:
        os.unlink(name, dir_fd=source)
        return
    if look(target, new_name) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_name)
    os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
