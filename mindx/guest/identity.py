"""Who PID 1 is, whom it becomes for a moment, and what the agent is called.

PID 1 is root with SETUID, SETGID and KILL only. For file work it changes its effective ids, so that no signal of the
agent reaches it; for a spawn or a kill it changes real and effective ids and keeps 0 as the saved one to come back.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

HOME = b"/tmp/home"
SLOTS = 16


def home_of(slot: int) -> bytes:
    """Return the home of a slot's user."""
    return b"%s-%d" % (HOME, slot) if slot else HOME


class Identity:
    """The ids of one session: slot 0 is the writer, the others are for commands beside it."""

    def __init__(self, uid: int, gid: int) -> None:
        self.uid = uid
        self.gid = gid

    def uid_of(self, slot: int) -> int:
        """Return the uid of a slot. Raises ValueError for a slot that the session does not own."""
        if not 0 <= slot < SLOTS:
            raise ValueError("slot %d" % slot)
        return self.uid + slot

    def enter(self) -> None:
        """Do file work as the writer from here on."""
        os.setegid(self.gid)
        os.seteuid(self.uid)

    def leave(self) -> None:
        """Be root again after `enter`."""
        os.seteuid(0)
        os.setegid(0)

    def as_user(self, uid: int, work: Callable[..., T], *arguments: object) -> T:
        """Return what `work` does with the effective uid of another slot, and be who one was before in any case.

        A uid that the session does not own changes nothing. Only effective ids: no signal of that user reaches PID 1.
        """
        before = os.geteuid()
        if uid == before or not self.owns(uid):
            return work(*arguments)
        os.seteuid(0)  # only root may become somebody else
        try:
            os.seteuid(uid)
            return work(*arguments)
        finally:
            os.seteuid(0)
            os.seteuid(before)

    def owns(self, uid: int) -> bool:
        """Return whether a uid is one of the session's."""
        return self.uid <= uid < self.uid + SLOTS

    def become(self, uid: int) -> None:
        """Be `uid` wholly, but for the way back."""
        os.setresgid(self.gid, self.gid, 0)
        os.setresuid(uid, uid, 0)

    def come_back(self) -> None:
        """Be root again after `become`."""
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)

    def settle(self) -> None:
        """Write the account files and make the agent's home, once, before the first command."""
        users = ["root:x:0:0:root:/:/usr/sbin/nologin"]
        for slot in range(SLOTS):
            name = "agent" if slot == 0 else "agent%d" % slot
            users.append("%s:x:%d:%d::%s:/bin/sh" % (name, self.uid + slot, self.gid, home_of(slot).decode()))
        write_once("/run/mindx/passwd", "\n".join(users) + "\n")
        write_once("/run/mindx/group", "root:x:0:\nagent:x:%d:\n" % self.gid)
        self.enter()
        try:
            os.mkdir(HOME, 0o700)
        finally:
            self.leave()


def write_once(path: str, text: str) -> None:
    """Write a small root-owned file that must not exist yet."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        os.fchmod(handle, 0o644)
        os.write(handle, text.encode())
    finally:
        os.close(handle)
