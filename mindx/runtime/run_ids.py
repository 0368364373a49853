"""Ids that become names of files: checked, never trusted."""

from __future__ import annotations

import re
import secrets

from mindx.core.quote import quoted
from mindx.errors import InputError

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def new_id(prefix: str) -> str:
    """Return a fresh id: `run_` and 12 random digits."""
    return f"{prefix}_{secrets.token_hex(6)}"


def checked_id(value: str, what: str) -> str:
    """Return the id. Raises InputError (id_invalid) for what is no plain name."""
    if not isinstance(value, str) or _ID.fullmatch(value) is None or ".." in value:
        raise InputError("id_invalid", f"the {what} {quoted(str(value))} is not a plain name of letters, digits, _ . -")
    return value
