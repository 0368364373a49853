"""Finding and killing what belongs to one uid, so that nothing of it is left.

A signal to a process group misses whatever called setsid; kill(-1) as the uid itself misses nothing of it and touches
nothing else, and needs no fork where a fork bomb has taken every slot.
"""

from __future__ import annotations

import os
import time

from .identity import Identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SIGKILL = 9
PATIENCE_S = 2.0


def of_uid(uid: int, ours: set[int]) -> list[tuple[int, bytes, bool]]:
    """Return (pid, name, is a zombie) of each process whose real uid is `uid`; the pids in `ours` are passed over."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        pid = int(name)
        if pid in ours:
            continue
        try:
            handle = os.open("/proc/%d/status" % pid, os.O_RDONLY)
        except OSError:
            continue
        try:
            text = os.read(handle, 1024)
        except OSError:
            continue
        finally:
            os.close(handle)
        mark = text.find(b"\nUid:\t")
        if mark >= 0 and int(text[mark + 6 :].split(b"\t", 1)[0]) == uid:
            found.append((pid, text[6 : text.index(b"\n")].strip(), b"\nState:\tZ" in text))
    return found


def kill_all(identity: Identity, uid: int) -> None:
    """Send SIGKILL to every process of `uid`, without a fork."""
    identity.become(uid)
    try:
        os.kill(-1, SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        identity.come_back()


class Unkillable(Exception):
    """Processes of a uid outlived every SIGKILL; only the end of the container can end them."""


def sweep(identity: Identity, uid: int, ours: set[int], reap: Callable[[], None]) -> list[tuple[int, bytes]]:
    """Kill and reap until no process of `uid` is left; return those that were found alive at first.

    `reap` is a callable that collects every ended child. Raises Unkillable after PATIENCE_S seconds.
    """
    found = [(pid, name) for pid, name, dead in of_uid(uid, ours) if not dead]
    kill_all(identity, uid)
    until = time.monotonic() + PATIENCE_S
    while True:
        reap()
        if not of_uid(uid, ours):
            return found
        if time.monotonic() > until:
            raise Unkillable(uid)
        kill_all(identity, uid)
        time.sleep(0.0005)
