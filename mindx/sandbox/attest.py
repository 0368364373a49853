"""Asked and effective: what the guest sees from inside is compared with what was asked of the engine.

Any difference refuses the session. An engine can ignore a limit with a warning that nobody reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mindx.sandbox.container import CAPABILITIES, RUN_BYTES, ContainerSettings

CAPABILITY_BITS = {"KILL": 5, "SETGID": 6, "SETUID": 7}
WRITABLE_TYPES = {"/workspace": "tmpfs", "/tmp": "tmpfs", "/run/mindx": "tmpfs", "/dev/shm": "tmpfs"}
# Mounted writable by the engine, but only root may write there, and no program of the agent is root.
SYSTEM_WRITABLE = {"/", "/dev", "/dev/pts", "/dev/mqueue", "/proc", "/sys/fs/cgroup"}


@dataclass(frozen=True, slots=True)
class Difference:
    """One control that is not as it was asked for."""

    control: str
    asked: str
    effective: str


def compare(settings: ContainerSettings, cpuset: str, facts: Mapping[str, str]) -> list[Difference]:
    """Return what differs; an empty list means that everything asked for is in force. Pure."""
    limits = settings.limits
    bits = sum(1 << CAPABILITY_BITS[name] for name in CAPABILITIES)
    asked = {
        "no_new_privileges": ("1", facts.get("nonewprivs", "")),
        "seccomp": ("2", facts.get("seccomp", "")),
        "capability bounding set": (f"{bits:016x}", facts.get("capbnd", "")),
        "permitted capabilities": (f"{bits:016x}", facts.get("capprm", "")),
        "inheritable capabilities": (f"{0:016x}", facts.get("capinh", "")),
        "ambient capabilities": (f"{0:016x}", facts.get("capamb", "")),
        "memory": (str(limits.memory_bytes), facts.get("memory_limit", "")),
        "pids": (str(limits.pids), facts.get("pids_limit", "")),
        "cpuset": (_cpus(cpuset), _cpus(facts.get("cpuset", ""))),
        "interfaces": ("lo", " ".join(name for name in facts.get("interfaces", "").split() if not _inert(name))),
        "routes": ("0", facts.get("routes", "")),
        "hostname": ("mindx", facts.get("hostname", "")),
        "oom_score_adj": ("300", facts.get("oom_score_adj", "")),
    }
    found = [Difference(name, want, have or "not known") for name, (want, have) in asked.items() if want != have]
    swap = facts.get("memory_swap_limit", "")
    if swap not in (str(limits.memory_bytes), "0"):  # version 1 counts memory and swap together, version 2 swap alone
        found.append(Difference("memory and swap", str(limits.memory_bytes), swap or "not known"))
    return found + _compare_mounts(settings, facts.get("mounts", ""))


def _inert(interface: str) -> bool:
    """Return whether an interface is one of the kernel's own tunnels, which exist in every namespace, down."""
    return interface in {"tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip_vti0", "ip6_vti0", "ip6tnl0", "ip6gre0"}


def _cpus(text: str) -> str:
    """Return a cpuset in one form: `0-1` and `0,1` are the same."""
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        if not low.isdigit() or (high and not high.isdigit()):
            return text
        numbers.update(range(int(low), int(high or low) + 1))
    return ",".join(map(str, sorted(numbers)))


def _compare_mounts(settings: ContainerSettings, text: str) -> list[Difference]:
    limits = settings.limits
    sizes = {
        "/workspace": limits.workspace_bytes,
        "/tmp": limits.tmp_bytes,
        "/run/mindx": RUN_BYTES,
        "/dev/shm": limits.shm_bytes,
    }
    mounts = {}
    found = []
    for line in text.splitlines():
        point, options, super_options, kind = line.split(" ")
        mounts[point] = (options.split(","), super_options.split(","), kind)
        writable = "rw" in options.split(",") and point not in SYSTEM_WRITABLE
        if writable and point not in sizes and not (kind == "tmpfs" and point.startswith("/proc/")):
            found.append(Difference(f"mount {point}", "absent or read-only", "writable"))
    if "ro" not in mounts.get("/", ([], [], ""))[0]:
        found.append(Difference("root file system", "read-only", "writable"))
    for point, size in sizes.items():
        flags, super_flags, kind = mounts.get(point, ([], [], "absent"))
        if kind != "tmpfs":
            found.append(Difference(f"mount {point}", "tmpfs", kind))
            continue
        if not {"nosuid", "nodev"} <= set(flags):
            found.append(Difference(f"mount {point}", "nosuid,nodev", ",".join(flags)))
        have = next((flag[5:] for flag in super_flags if flag.startswith("size=")), "")
        if _kib(have) != -(-size // 4096) * 4:
            found.append(Difference(f"size of {point}", f"{-(-size // 4096) * 4}k", have or "no limit"))
    return found


def _kib(text: str) -> int:
    digits = text.rstrip("kmg")
    scale = {"": 1 / 1024, "k": 1, "m": 1024, "g": 1 << 20}.get(text[len(digits) :], 0)
    return int(int(digits) * scale) if digits.isdigit() else -1
