"""What is in force, as seen from inside, read once for the host to compare; and what the kernel counts."""

from __future__ import annotations

import errno
import os
import sys
import time

from . import cgroup
from .cgroup import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .identity import Identity
    from .spawn import Spawner

_STATUS = ("NoNewPrivs", "Seccomp", "CapBnd", "CapPrm", "CapEff", "CapInh", "CapAmb", "Uid", "Gid", "Groups")
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
# Where the kernel tells of its host. Which of the names must be hidden is the host's business.
_KERNEL_FOLDERS = ("/proc", "/sys", "/sys/devices/virtual")
LAG_KIB = 1024  # the kernel counts pages on each CPU and adds them up later
_counters: cgroup.Counters | None = None


def gather() -> list[bytes]:
    """Return facts as texts `key=value`; what cannot be read is an empty value, never a guess."""
    facts = _status("self", "")
    facts.update(cgroup.limits())
    devices = read("/proc/net/dev").decode().splitlines()[2:]
    facts["interfaces"] = " ".join(line.split(":", 1)[0].strip() for line in devices)
    facts["routes"] = " ".join(_routes())
    facts["mounts"] = "\n".join(_mounts())
    facts["kernel_names"] = " ".join(_kernel_names())
    facts["shm_rmid_forced"] = read("/proc/sys/kernel/shm_rmid_forced").decode().strip()
    facts["setuid_answer"] = _setuid_answer()
    facts["hostname"] = os.uname()[1]
    facts["oom_score_adj"] = read("/proc/self/oom_score_adj").decode().strip()
    facts["apparmor"] = read("/proc/self/attr/current").decode("utf-8", "replace").strip("\0\n")
    return [("%s=%s" % item).encode() for item in facts.items()]


def of_agent(spawner: Spawner, identity: Identity, end: Callable[[int], object]) -> list[bytes]:
    """Return what is in force for a program of the agent, and where it may write.

    A program is started as every later one is, looked at from outside while it waits for its input, and ended by
    `end`, which gets its slot.
    """
    facts = {}
    argv = [os.fsencode(sys.executable), b"-I", b"-S", b"-c", b"import sys; sys.stdin.read()"]
    spawned = spawner.spawn(0, argv, b"/workspace", [], argv[0], True)
    try:
        facts.update(_settled_status(spawned.pid))
        facts["agent_oom_score_adj"] = read("/proc/%d/oom_score_adj" % spawned.pid).decode().strip()
        # The filters of PID 1 are the agent's, who can add one and never take one away.
        facts["agent_ids"] = "%d %d" % (identity.uid_of(0), identity.gid)
    finally:
        for handle in (spawned.stdin, spawned.stdout, spawned.stderr):
            if handle is not None:
                os.close(handle)
        end(0)
    points = [line.split(" ", 2)[:2] for line in _mounts()]
    identity.become(identity.uid_of(0))
    try:
        writable = [point for point, options in points if os.access(point, os.W_OK)]
    finally:
        identity.come_back()
    facts["writable"] = " ".join(sorted(set(writable)))
    return [("%s=%s" % item).encode() for item in facts.items()]


def _settled_status(pid: int) -> dict[str, str]:
    """Return the status of a program of the agent, once its exec is over.

    vfork's parent goes on when the child has its new memory; the saved ids, which the way back to root needs, are
    dropped a moment later. What is still there after a second is there to stay.
    """
    until = time.monotonic() + 1.0
    while True:
        found = _status(str(pid), "agent_")
        if time.monotonic() > until or (found.get("agent_uid", "0").split() or ["0"])[2:3] != ["0"]:
            return found
        time.sleep(0.0005)


def _status(pid: str, prefix: str) -> dict[str, str]:
    found = {}
    for line in read("/proc/%s/status" % pid).decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key in _STATUS:
            found[prefix + key.lower()] = " ".join(value.split())
    return found


def _routes() -> list[str]:
    """Return the devices that routes of IPv4 and IPv6 lead to, but for the loopback interface."""
    four = [line.split()[0] for line in read("/proc/net/route").decode().splitlines()[1:] if line.strip()]
    six = [line.split()[-1] for line in read("/proc/net/ipv6_route").decode().splitlines() if line.strip()]
    return sorted(set(four + six) - {"lo"})


def _mounts() -> list[str]:
    """Return `mountpoint options super-options type` a line."""
    lines = []
    for line in read("/proc/self/mountinfo").decode("utf-8", "replace").splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) > 5 and len(tail) > 2:
            lines.append("%s %s %s %s" % (fields[4], fields[5], tail[2], tail[0]))
    return lines


def _kernel_names() -> list[str]:
    """Return what there is in the kernel's folders, hidden or not, but for processes."""
    found = []
    for folder in _KERNEL_FOLDERS:
        try:
            names = os.listdir(folder)
        except OSError:
            continue  # it is hidden as a whole, or not there
        found += ["%s/%s" % (folder, name) for name in names if not name.isdigit()]
    return found


def _setuid_answer() -> str:
    """Return what is answered to a setuid bit for a file that is not there.

    EPERM comes from our own seccomp profile, which looks at the bit. Engines' profiles do not, and the kernel says
    ENOENT: so it is told whose profile it is, which the mode in /proc/self/status does not tell.
    """
    try:
        os.chmod("/mindx/not there", 0o4000)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "?")
    return "done"


def count() -> cgroup.Count:
    """Return what the kernel has counted in this container until now."""
    global _counters
    if _counters is None:
        _counters = cgroup.Counters()
    return _counters.look()


class Before:
    """How things stand when a command is about to start: the kernel's counts, and the size of PID 1 in KiB."""

    __slots__ = ("count", "own_kib")

    def __init__(self, counted: cgroup.Count, own_kib: int) -> None:
        self.count = counted
        self.own_kib = own_kib


def before(counted: cgroup.Count | None) -> Before:
    """Look, right before a spawn; `counted` are counts that still hold, since nothing has run after them."""
    return Before(counted or count(), _own_size.look())


class _OwnSize:
    """The size of PID 1, of which the kernel remembers the highest until it is told to forget it."""

    def __init__(self) -> None:
        self._forget = -1
        self._size = -1

    def look(self) -> int:
        """Forget the highest size and return today's in KiB, with what the kernel's count may lag behind."""
        try:
            if self._size < 0:
                self._forget = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
                self._size = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
            os.write(self._forget, b"5")
            pages = int(os.pread(self._size, 128, 0).split()[1])
        except OSError:
            return 1 << 20  # not known: whatever is below 1 GiB is not told
        return pages * PAGE_KIB + LAG_KIB


_own_size = _OwnSize()
