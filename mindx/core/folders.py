"""Where mindx keeps what outlives a command, and where the user's own settings stand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from platformdirs import user_config_path, user_state_path

STATE_VARIABLE = "MINDX_STATE_DIR"
CONFIG_VARIABLE = "MINDX_CONFIG_DIR"


def state_dir() -> Path:
    """Return the folder of runs, image records and what was trusted; it need not exist yet.

    MINDX_STATE_DIR, when set and not empty, names it; else it is the user's own state folder: under sudo that of the
    user who called it.
    """
    chosen = os.environ.get(STATE_VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else _of_caller(user_state_path("mindx"))


def mind_dir() -> Path:
    """Return the folder of the society's state (beliefs, coordinator, tools, campaigns, missions)."""
    return state_dir() / "mind"


def config_dir() -> Path:
    """Return the folder of the user's own policy and settings; it need not exist. As state_dir, with MINDX_CONFIG_DIR.

    Under sudo it is the calling user's: `sudo mindx` obeys the same policy as `mindx`.
    """
    chosen = os.environ.get(CONFIG_VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else _of_caller(user_config_path("mindx"))


def calling_user(environ: Mapping[str, str] | None = None) -> tuple[int, int] | None:
    """Return the uid and gid of who called sudo; None when this is no sudo, or root called it."""
    environ = os.environ if environ is None else environ
    if "SUDO_UID" not in environ or os.geteuid() != 0:
        return None
    try:
        uid, gid = int(environ["SUDO_UID"]), int(environ["SUDO_GID"])
    except (KeyError, ValueError):
        return None
    return (uid, gid) if uid > 0 else None


def calling_home() -> Path | None:
    """Return the home of who called sudo; None when this is no sudo, or the user has no home that exists."""
    ids = calling_user()
    if ids is None:
        return None
    import pwd  # only here: other systems than Unix have none

    try:
        home = Path(pwd.getpwuid(ids[0]).pw_dir)
    except KeyError:
        return None
    return home if home.is_absolute() and home != Path("/") and home.is_dir() else None


def _of_caller(folder: Path) -> Path:
    """Return the folder at the same place in the calling user's home; a folder outside of root's home stays."""
    home = calling_home()
    if home is None or not folder.is_relative_to(Path.home()):
        return folder
    return home / folder.relative_to(Path.home())
