"""What a person does when the state folder cannot be written."""

from __future__ import annotations

import errno


def remedy(error: OSError) -> str:
    """Return the next thing to do, by the cause: rights that are missing, or room."""
    denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    return f"{'get the right to write there' if denied else 'free space'} or set MINDX_STATE_DIR to another folder"
