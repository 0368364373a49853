"""Ending a process with all that it started, also what left its group and its parent."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

MARK = "MINDX_IMPROVEMENT_CALL"  # in the environment of a call: whatever it starts inherits it
PROCESSES = Path("/proc")
_PASSES = 5


def kill_tree(group: int | None, mark: str) -> int:
    """Kill the process group (None: its leader has ended, and the number may be another's by now), and every process
    of ours whose environment carries the mark; return how many were hit.

    A process that forks while we look is found in the next pass. A process that cleared its environment and left the
    group is not found: ours do not.
    """
    count = 0
    if group is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
            count += 1
    for _ in range(_PASSES):
        found = marked(mark)
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        count += len(found)
        if not found:
            break
    return count


def marked(mark: str) -> list[int]:
    """Return the living processes of ours that carry the mark."""
    wanted = f"{MARK}={mark}".encode()
    found: list[int] = []
    if not PROCESSES.is_dir():
        return found  # a system without it has the process group alone
    for entry in PROCESSES.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found
