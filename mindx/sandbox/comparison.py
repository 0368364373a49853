"""What is told from inside a container, compared with what was asked: ids and rights, limits, network, mounts.

The engine's word stands in attest.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mindx.core.frozen import dataclass
from mindx.sandbox.container import (
    CAPABILITIES,
    MASKED_PATHS,
    READONLY_PATHS,
    RUN_BYTES,
    RUN_INODES,
    ContainerSettings,
)

CAPABILITY_BITS = {"KILL": 5, "SETGID": 6, "SETUID": 7}
NOT_KNOWN = "not known"
MOUNT_FLAGS = "nosuid,nodev"
MASK_KINDS = {"tmpfs", "devtmpfs"}
NO_CAPABILITIES = f"{0:016x}"
# Mounted writable by the engine; `writable` says where the agent itself may write.
SYSTEM_WRITABLE = {"/", "/dev", "/dev/pts", "/dev/mqueue", "/proc", "/sys/fs/cgroup"}
# /dev/mqueue is open to all, but the message queue limit is 0. Terminals' /dev/pts is a list, not a place for files.
AGENT_WRITABLE = {"/workspace", "/tmp", "/dev/shm", "/dev/mqueue"}
# A rootless engine may make no device nodes: it binds the host's own, and /dev/null over the files that it masks.
HARMLESS_DEVICES = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
# What engines mount by themselves. Anything else may be the host's, also read-only: Podman's `inspect` does not tell of
# the volumes that its containers.conf names.
OWN_FILES = {"/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/run/.containerenv"}
OWN_MOUNTS = SYSTEM_WRITABLE | HARMLESS_DEVICES | OWN_FILES | {"/sys"}


@dataclass(frozen=True, slots=True)
class Difference:
    """One control that is not as it was asked for. `control` is its short name, `what` the detail."""

    control: str
    what: str
    asked: str
    effective: str

    def __str__(self) -> str:
        return f"{self.what}: asked {self.asked}, in force {self.effective}"


def compare_inside(settings: ContainerSettings, cpuset: str, facts: Mapping[str, str]) -> list[Difference]:
    """Return each control that is not as the settings ask, by the facts of READY. Pure."""
    return [
        *_compare_status(facts),
        *_compare_limits(settings, cpuset, facts),
        *_compare_network(facts),
        *_compare_mounts(settings, facts.get("mounts", "")),
        *_compare_kernel_files(facts),
        *_compare_writable(facts.get("writable", "")),
    ]


def _differing(rows: Iterable[tuple[str, str, str, str]]) -> list[Difference]:
    return [Difference(control, what, want, have or NOT_KNOWN) for control, what, want, have in rows if want != have]


def _compare_status(facts: Mapping[str, str]) -> list[Difference]:
    """Compare what the kernel says of PID 1 and of a program of the agent."""
    bits = f"{sum(1 << CAPABILITY_BITS[name] for name in CAPABILITIES):016x}"
    uid, _, gid = facts.get("agent_ids", "").partition(" ")
    get = facts.get
    return _differing(
        [
            ("no_new_privileges", "no-new-privileges of PID 1", "1", get("nonewprivs", "")),
            ("no_new_privileges", "no-new-privileges of the agent", "1", get("agent_nonewprivs", "")),
            ("seccomp", "seccomp mode of PID 1", "2", get("seccomp", "")),
            ("seccomp", "seccomp mode of the agent", "2", get("agent_seccomp", "")),
            ("capabilities", "bounding set", bits, get("capbnd", "")),
            ("capabilities", "permitted to PID 1", bits, get("capprm", "")),
            ("capabilities", "effective in PID 1", bits, get("capeff", "")),
            ("capabilities", "inheritable of PID 1", NO_CAPABILITIES, get("capinh", "")),
            ("capabilities", "ambient of PID 1", NO_CAPABILITIES, get("capamb", "")),
            ("capabilities", "permitted to the agent", NO_CAPABILITIES, get("agent_capprm", "")),
            ("capabilities", "effective in the agent", NO_CAPABILITIES, get("agent_capeff", "")),
            ("capabilities", "inheritable of the agent", NO_CAPABILITIES, get("agent_capinh", "")),
            ("capabilities", "ambient of the agent", NO_CAPABILITIES, get("agent_capamb", "")),
            ("user", "uids of the agent", " ".join([uid or "its own"] * 4), get("agent_uid", "")),
            ("user", "gids of the agent", " ".join([gid or "its own"] * 4), get("agent_gid", "")),
            ("user", "supplementary groups of the agent", "none", get("agent_groups", "?") or "none"),
            ("oom_score", "oom_score_adj of PID 1", "300", get("oom_score_adj", "")),
            ("oom_score", "oom_score_adj of the agent", "1000", get("agent_oom_score_adj", "")),
            ("seccomp", "answer of our profile to a setuid bit", "EPERM", get("setuid_answer", "")),
            ("sysctl", "kernel.shm_rmid_forced", "1", get("shm_rmid_forced", "")),
            ("hostname", "host name", "mindx", get("hostname", "")),
        ]
    )


def _compare_limits(settings: ContainerSettings, cpuset: str, facts: Mapping[str, str]) -> list[Difference]:
    limits = settings.limits
    memory = str(limits.memory_bytes)
    # Version 1 counts memory and swap together, version 2 swap alone.
    swap = "0" if facts.get("cgroup_version") == "2" else memory
    return _differing(
        [
            ("memory", "memory limit", memory, facts.get("memory_limit", "")),
            ("swap", "limit of swap", swap, facts.get("memory_swap_limit", "")),
            ("pids", "pids limit", str(limits.pids), facts.get("pids_limit", "")),
            ("cpuset", "cpuset", _cpus(cpuset), _cpus(facts.get("cpuset", ""))),
        ]
    )


def _compare_network(facts: Mapping[str, str]) -> list[Difference]:
    interfaces = " ".join(name for name in facts.get("interfaces", "").split() if not _inert(name))
    return _differing(
        [
            ("network", "interfaces", "lo", interfaces),
            ("network", "routes", "none", facts.get("routes", "?") or "none"),
        ]
    )


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
        "/workspace": (limits.workspace_bytes, limits.workspace_inodes),
        "/tmp": (limits.tmp_bytes, limits.tmp_inodes),
        "/run/mindx": (RUN_BYTES, RUN_INODES),
        "/dev/shm": (limits.shm_bytes, limits.shm_inodes),
    }
    found = []
    for point, options, _, kind in _mounts(text):
        writable = "rw" in options and point not in SYSTEM_WRITABLE
        if writable and point not in sizes and not _is_mask(point, kind):
            found.append(Difference("mounts", f"mount {point}", "absent or read-only", "writable"))
        elif not (writable or point in sizes or _is_known(point)):
            found.append(Difference("mounts", f"mount {point}", "absent", f"a read-only {kind}"))
    mounts = {point: (options, more, kind) for point, options, more, kind in _mounts(text)}
    if "ro" not in mounts.get("/", ([], [], ""))[0]:
        found.append(Difference("root", "root file system", "read-only", "writable"))
    for point, (size, inodes) in sizes.items():
        flags, super_flags, kind = mounts.get(point, ([], [], "absent"))
        if kind != "tmpfs":
            found.append(Difference("mounts", f"mount {point}", "tmpfs", kind))
            continue
        if not set(MOUNT_FLAGS.split(",")) <= set(flags):
            found.append(Difference("mounts", f"mount {point}", MOUNT_FLAGS, ",".join(flags)))
        values = dict(flag.partition("=")[::2] for flag in super_flags)
        have, files = values.get("size", ""), values.get("nr_inodes", "")
        if _kib(have) != -(-size // 4096) * 4:
            found.append(Difference("mounts", f"size of {point}", f"{-(-size // 4096) * 4}k", have or "no limit"))
        if files != str(inodes):
            found.append(Difference("inodes", f"number of files in {point}", str(inodes), files or "no limit"))
    return found


def _mounts(text: str) -> Iterator[tuple[str, list[str], list[str], str]]:
    """Yield place, options, the file system's options and its kind; of several at one place the uppermost last."""
    for line in text.splitlines():
        point, options, more, kind = line.split(" ")
        yield point, options.split(","), more.split(","), kind


def _compare_kernel_files(facts: Mapping[str, str]) -> list[Difference]:
    """Compare what the kernel has in its folders with what must be covered there, or be read-only."""
    names = set(facts.get("kernel_names", "").split())
    if not names:
        return [Difference("kernel_files", "names in /proc", "a list", NOT_KNOWN)]
    hidden: set[str] = set()
    readonly: set[str] = set()
    for point, options, _, kind in _mounts(facts.get("mounts", "")):
        # An empty folder, or /dev/null: of the container's own, or of a rootless engine's host.
        (hidden.add if kind in MASK_KINDS else hidden.discard)(point)
        (readonly.add if "ro" in options else readonly.discard)(point)
    rows = [("kernel_files", path, "hidden", "in sight") for path in MASKED_PATHS if path in names - hidden]
    rows += [("kernel_files", path, "read-only", "writable") for path in READONLY_PATHS if path in names - readonly]
    return _differing(rows)


def _is_known(point: str) -> bool:
    """Return whether engines have something at that place by themselves, or it lies in the kernel's own folders."""
    return point in OWN_MOUNTS or point.startswith(("/proc/", "/sys/"))


def _is_mask(point: str, kind: str) -> bool:
    """Return True for what hides a file of /proc, and for a device that all may write and nobody can keep data in."""
    if kind == "devtmpfs":
        return point in HARMLESS_DEVICES or point.startswith("/proc/")
    return kind == "tmpfs" and point.startswith("/proc/")


def _kib(text: str) -> int:
    digits = text.rstrip("kmg")
    scale = {"": 1 / 1024, "k": 1, "m": 1024, "g": 1 << 20}.get(text[len(digits) :], 0)
    return int(int(digits) * scale) if digits.isdigit() else -1


def _compare_writable(text: str) -> list[Difference]:
    # Devices that all may write, such as /dev/null behind a masked file, are mounts of one file and no place.
    points = {point for point in text.split() if not point.startswith(("/proc/", "/sys/"))} - HARMLESS_DEVICES
    more, fewer = points - AGENT_WRITABLE, {"/workspace", "/tmp"} - points
    found = [Difference("writable", f"the agent at {point}", "may not write", "may write") for point in sorted(more)]
    return found + [
        Difference("writable", f"the agent at {point}", "may write", "may not write") for point in sorted(fewer)
    ]
