"""The error for a place of the state folder that cannot be written, and what a person does then."""

from __future__ import annotations

import errno
from pathlib import Path

from mindx.errors import StateError


def state_unwritable(path: Path, error: OSError) -> StateError:
    """Return the error (state_unwritable) for a place that cannot be written."""
    message = f"{path} cannot be written: {error.strerror}; {remedy(error)}"
    return StateError("state_unwritable", message, details={"path": str(path), "errno": error.errno})


def remedy(error: OSError) -> str:
    """Return the next thing to do, by the cause: rights that are missing, or room."""
    denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    return f"{'get the right to write there' if denied else 'free space'} or set MINDX_STATE_DIR to another folder"
