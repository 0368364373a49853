"""The container's control group, version 1 or 2: its limits, and what the kernel counts in it.

A limit is the kernel's own text ("max" or a huge number where there is none), an empty one where there is no such file.
"""

from __future__ import annotations

import os

ROOT = "/sys/fs/cgroup"
# name: (version 1, version 2)
LIMITS = {
    "memory_limit": ("memory/memory.limit_in_bytes", "memory.max"),
    "memory_swap_limit": ("memory/memory.memsw.limit_in_bytes", "memory.swap.max"),
    "pids_limit": ("pids/pids.max", "pids.max"),
    "cpuset": ("cpuset/cpuset.effective_cpus", "cpuset.cpus.effective"),
    "cpu_quota": ("cpu/cpu.cfs_quota_us", "cpu.max"),
}
# file (version 1, version 2): the words before each number that is wanted
_COUNTED = (
    (("memory/memory.oom_control", "memory.events"), (b"oom_kill ",)),
    (("pids/pids.events", "pids.events"), (b"max ",)),
    (("cpu/cpu.stat", "cpu.stat"), (b"nr_throttled ", b"throttled_time ", b"throttled_usec ")),
    (("memory/memory.max_usage_in_bytes", "memory.peak"), (b"",)),
)


def read(path: str) -> bytes:
    """Return up to 1 MiB of a file of the kernel's, or b"" when it is not there."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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


def version(root: str = ROOT) -> str:
    """Return `2` for the unified hierarchy, else `1`."""
    return "2" if os.path.exists(root + "/cgroup.controllers") else "1"


def limits(root: str = ROOT) -> dict[str, str]:
    """Return the limits in force, by name."""
    which = 1 if version(root) == "2" else 0
    found = {name: read("%s/%s" % (root, paths[which])).strip().decode() for name, paths in LIMITS.items()}
    found["cgroup_version"] = version(root)
    return found


class Counters:
    """What the kernel has counted since the container's start.

    The files stay open, and are read anew only where their text is another: a look costs microseconds.
    """

    def __init__(self, root: str = ROOT) -> None:
        which = 1 if version(root) == "2" else 0
        self._handles = []
        for paths, words in _COUNTED:
            try:
                handle = os.open("%s/%s" % (root, paths[which]), os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                handle = -1
            self._handles.append((handle, words))
        self._texts: list[bytes] = []
        self._count = Count()

    def look(self) -> Count:
        """Return the numbers of now; 0 for what this kernel does not count."""
        texts = [os.pread(handle, 1024, 0) if handle >= 0 else b"" for handle, _ in self._handles]
        if texts != self._texts:
            self._texts, self._count = texts, self._read(texts)
        return self._count

    def _read(self, texts: list[bytes]) -> Count:
        values = []
        for number, (_, words) in enumerate(self._handles):
            values += [_number(b"\n" + texts[number], word) for word in words]
        oom_kills, pids_refused, throttled, throttled_ns, throttled_us, peak = values
        return Count(oom_kills, pids_refused, throttled, throttled_us or throttled_ns // 1000, peak)


class Tasks:
    """How many tasks (processes, zombies and threads) the kernel counts in this container."""

    def __init__(self, root: str = ROOT) -> None:
        self._handle = -1
        for path in ("pids/pids.current", "pids.current"):
            try:
                self._handle = os.open("%s/%s" % (root, path), os.O_RDONLY | os.O_CLOEXEC)
                return
            except OSError:
                continue

    def look(self) -> int:
        """Return the number of now, or -1 where the kernel does not say."""
        try:
            return int(os.pread(self._handle, 32, 0))
        except (OSError, ValueError):
            return -1


class Count:
    """One look at the counters. `memory_peak` is the most bytes that the container ever used; 0 when not known."""

    __slots__ = ("memory_peak", "oom_kills", "pids_refused", "throttled", "throttled_us")

    def __init__(
        self, oom_kills: int = 0, pids_refused: int = 0, throttled: int = 0, throttled_us: int = 0, memory_peak: int = 0
    ) -> None:
        self.oom_kills = oom_kills
        self.pids_refused = pids_refused
        self.throttled = throttled
        self.throttled_us = throttled_us
        self.memory_peak = memory_peak


def _number(text: bytes, word: bytes) -> int:
    """Return the number behind a word at the start of a line, 0 when there is none."""
    start = text.find(b"\n" + word) + 1
    if not start:
        return 0
    end = text.find(b"\n", start)
    digits = text[start + len(word) : end if end >= 0 else None]
    return int(digits) if digits.isdigit() else 0
