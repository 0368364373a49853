"""What the kernel tells of a process. Imports next to nothing: the bare client of the memory probe loads this too."""

from __future__ import annotations

MIB_IN_KIB = 1024


def parent_of(pid: int) -> int:
    """Return a process's parent."""
    return int(_field(_read(f"/proc/{pid}/status"), "PPid"))


def pss_mib(pid: int) -> float:
    """Return a process's proportional set size in MiB."""
    return int(_field(_read(f"/proc/{pid}/smaps_rollup"), "Pss")) / MIB_IN_KIB


def rss_mib(pid: int | str = "self") -> float:
    """Return a process's resident set size in MiB."""
    return int(_field(_read(f"/proc/{pid}/status"), "VmRSS")) / MIB_IN_KIB


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def _field(text: str, name: str) -> str:
    for line in text.splitlines():
        label, _, value = line.partition(":")
        if label == name:
            return value.split()[0]
    raise ValueError(f"the kernel does not tell {name}")
