"""Who started a container: enough to prove later that the owner is dead."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from mindx.core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: the machine, its boot, the pid namespace, the pid and the pid's start time in clock ticks."""

    machine_id: str
    boot_id: str
    pid_namespace: str
    pid: int
    pid_start: str

    @classmethod
    def me(cls) -> Owner:
        """Return this process."""
        return cls(machine_id(), boot_id(), pid_namespace(), os.getpid(), start_time(os.getpid()))

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Owner | None:
        """Return the owner that a container's labels name, or None when they name none."""
        try:
            return cls(
                labels["mindx.machine_id"],
                labels["mindx.boot_id"],
                labels["mindx.pid_namespace"],
                int(labels["mindx.pid"]),
                labels["mindx.pid_start"],
            )
        except (KeyError, ValueError):
            return None

    def labels(self) -> dict[str, str]:
        """Return the labels that name this owner."""
        return {
            "mindx.machine_id": self.machine_id,
            "mindx.boot_id": self.boot_id,
            "mindx.pid_namespace": self.pid_namespace,
            "mindx.pid": str(self.pid),
            "mindx.pid_start": self.pid_start,
        }

    def is_dead(self, *, local_engine: bool = False) -> bool:
        """Return True only when it is certain: an earlier boot of this machine, no such pid, or a pid used anew.

        Cloned machines share a machine id, so another boot is this machine's earlier one only where no other machine
        can have put its word: `local_engine`, an engine of this machine. Elsewhere only the same boot proves anything.
        Another machine's owner (a shared engine), one of another pid namespace (a client in a container), and one
        that could not say who it is, are never called dead.
        """
        if not all((self.machine_id, self.boot_id, self.pid_namespace, self.pid_start)):
            return False
        if self.machine_id != machine_id():
            return False
        if self.boot_id != boot_id():
            return local_engine and bool(boot_id())
        return self.pid_namespace == pid_namespace() and start_time(self.pid) != self.pid_start


def machine_id() -> str:
    """Return a digest of the system's machine id, or "" where there is none. The id itself is nobody's business."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text and text != "uninitialized":
            return hashlib.sha256(f"mindx {text}".encode()).hexdigest()[:32]
    return ""


def pid_namespace() -> str:
    """Return the name of this process's pid namespace, or "" where there is none."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def boot_id() -> str:
    """Return the kernel's id of this boot, or "" where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def start_time(pid: int) -> str:
    """Return when a process started, in clock ticks since boot, or "" when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()  # a name in it may be any bytes
    except OSError:
        return ""
    fields = text[text.rindex(b")") + 2 :].decode("ascii").split()
    return "" if fields[0] in "ZX" else fields[19]
