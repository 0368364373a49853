"""What is in force, as seen from inside: read once for the host to compare, and the kernel's count of OOM kills."""

from __future__ import annotations

import os

CGROUP = "/sys/fs/cgroup"
_STATUS = ("NoNewPrivs", "Seccomp", "CapBnd", "CapPrm", "CapInh", "CapAmb")
_LIMITS = {
    "memory_limit": (CGROUP + "/memory/memory.limit_in_bytes", CGROUP + "/memory.max"),
    "memory_swap_limit": (CGROUP + "/memory/memory.memsw.limit_in_bytes", CGROUP + "/memory.swap.max"),
    "pids_limit": (CGROUP + "/pids/pids.max", CGROUP + "/pids.max"),
    "cpuset": (CGROUP + "/cpuset/cpuset.effective_cpus", CGROUP + "/cpuset.cpus.effective"),
    "cpuset_asked": (CGROUP + "/cpuset/cpuset.cpus", CGROUP + "/cpuset.cpus"),
}
_oom_handle = -1


def read(path: str) -> bytes:
    """Return up to 64 KiB of a file of the kernel's, or b"" when it is not there."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        parts: list[bytes] = []
        while True:
            data = os.read(handle, 65536)
            if not data or len(parts) > 16:
                return b"".join(parts)
            parts.append(data)
    except OSError:
        return b""
    finally:
        os.close(handle)


def gather() -> list[bytes]:
    """Return facts as texts `key=value`; what cannot be read is an empty value, never a guess."""
    facts = {}
    for line in read("/proc/self/status").decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":\t")
        if key in _STATUS:
            facts[key.lower()] = value.strip()
    for key, paths in _LIMITS.items():
        facts[key] = next((text.strip().decode() for text in map(read, paths) if text), "")
    devices = read("/proc/net/dev").decode().splitlines()[2:]
    facts["interfaces"] = " ".join(line.split(":", 1)[0].strip() for line in devices)
    facts["routes"] = str(max(0, len(read("/proc/net/route").splitlines()) - 1))
    facts["mounts"] = "\n".join(_mounts())
    facts["hostname"] = os.uname().nodename
    facts["oom_score_adj"] = read("/proc/self/oom_score_adj").decode().strip()
    return [("%s=%s" % item).encode() for item in facts.items()]


def _mounts() -> list[str]:
    """Return `mountpoint options super-options type` a line."""
    lines = []
    for line in read("/proc/self/mountinfo").decode("utf-8", "replace").splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) > 5 and len(tail) > 2:
            lines.append("%s %s %s %s" % (fields[4], fields[5], tail[2], tail[0]))
    return lines


def oom_kills() -> int:
    """Return how many processes of this container the kernel has killed for memory; 0 where it does not say."""
    global _oom_handle
    if _oom_handle < 0:
        for path in (CGROUP + "/memory/memory.oom_control", CGROUP + "/memory.events"):
            try:
                _oom_handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                break
            except OSError:
                continue
        else:
            return 0
    for line in os.pread(_oom_handle, 512, 0).splitlines():
        if line.startswith(b"oom_kill "):
            return int(line[9:])
    return 0
