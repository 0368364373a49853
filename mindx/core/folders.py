"""Where mindx keeps what outlives a command."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_state_path

STATE_VARIABLE = "MINDX_STATE_DIR"


def state_dir() -> Path:
    """Return the folder of runs, image records and engine logs; it need not exist yet.

    MINDX_STATE_DIR, when set and not empty, names it; else it is the user's own state folder. scripts/engine.py
    computes the same path without this package.
    """
    chosen = os.environ.get(STATE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return user_state_path("mindx")


def mind_dir() -> Path:
    """Return the folder of the society's state (beliefs, coordinator, tools, campaigns, missions)."""
    return state_dir() / "mind"
