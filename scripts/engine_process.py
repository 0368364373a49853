"""The processes of an engine, and the record of the one that scripts/engine.py has started."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import time
from pathlib import Path

STOP_TIMEOUT_S = 30


class Fault(Exception):
    """What failed and what to do next, in words for the user."""


def live_process(pid_file: Path, name: str) -> int | None:
    """Return the pid that a file names, when that process lives and is called `name`."""
    try:
        pid = int(pid_file.read_text().strip())
        called = Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, ValueError):
        return None
    return pid if called == name and is_alive(pid) else None


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, [] when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def is_alive(pid: int) -> bool:
    fields = stat_fields(pid)
    return bool(fields) and fields[0] not in ("Z", "X")


def start_time(pid: int) -> str:
    fields = stat_fields(pid)
    return fields[19] if fields else ""


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def state_dir() -> Path:
    """The same folder as mindx.core.folders.state_dir()."""
    chosen = os.environ.get("MINDX_STATE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".local/state") / "mindx"


def engine_dir() -> Path:
    return state_dir() / "engine"


def read_record() -> dict:
    try:
        return json.loads((engine_dir() / "started.json").read_text())
    except (OSError, ValueError):
        return {}


def write_record(record: dict) -> None:
    path = engine_dir() / "started.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record) + "\n")
    hand_to_caller(path.parent)
    hand_to_caller(path)


def remove_record() -> None:
    with contextlib.suppress(FileNotFoundError):
        (engine_dir() / "started.json").unlink()


def hand_to_caller(path: Path) -> None:
    """Under sudo, what lies in the caller's folder is the caller's."""
    user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if os.geteuid() == 0 and user and group:
        try:
            os.chown(path, int(user), int(group), follow_symlinks=False)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EPERM):
                raise


def tail(path: Path) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-8:])
    except OSError:
        return "(it said nothing)"


def end_process(pid: int, reap: subprocess.Popen | None = None) -> None:
    """Ask, wait 30 s, then kill; `reap` is the process when it is a child of ours."""
    for number, patience_s in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, 5)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if reap is not None:
                reap.poll()
            if not is_alive(pid):
                return
            time.sleep(0.05)
    raise Fault(f"process {pid} does not end")
