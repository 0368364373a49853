"""Asked and effective: what the engine says and what the guest sees is compared with what was asked.

Any difference refuses the session, unless the policy accepts that very gap. An engine can ignore a limit with a warning
that nobody reads, and an engine's word is not the kernel's: each control is checked where it can be seen best.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mindx.core.frozen import dataclass
from mindx.errors import SandboxError
from mindx.sandbox import seccomp
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
WARNING = "the engine's warning"
MOUNT_FLAGS = "nosuid,nodev"
MASK_KINDS = {"tmpfs", "devtmpfs"}
NO_CAPABILITIES = f"{0:016x}"
LONG_FACTS = {"mounts", "kernel_names"}
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
# What the engine puts into HostConfig by itself must mean nothing.
EMPTY_IN_ENGINE = (
    "Binds",
    "Mounts",
    "VolumesFrom",
    "Devices",
    "DeviceRequests",
    "DeviceCgroupRules",
    "PortBindings",
    "PublishAllPorts",
    "Links",
    "GroupAdd",
    "ExtraHosts",
    "PidMode",
    "UTSMode",
    "UsernsMode",
    "CgroupParent",
    "VolumeDriver",
)
# The kernel's own account of these is read inside; the engine stores them in forms of its own.
SEEN_INSIDE = {"CapDrop", "Runtime", "OomKillDisable"}
# Runtimes that put a kernel of their own between: it does not tell what the host's kernel holds the whole of it to, so
# for these controls the engine's word (HostConfig, compared below) is the best that there is.
OWN_KERNEL = {"runsc", "kata"}
UNSEEN_INSIDE = {
    "no_new_privileges",
    "seccomp",
    "oom_score",
    "memory",
    "swap",
    "pids",
    "cpuset",
    "inodes",
    "kernel_files",
    "sysctl",
}
# The names that a policy's accept_gaps may use, and what to do instead of accepting.
REMEDIES = {
    "seccomp": "use an engine and a kernel with seccomp",
    "swap": "boot with swapaccount=1, or switch swap off",
    "memory": "let the engine use the memory controller of control groups",
    "pids": "let the engine use the pids controller of control groups",
    "cpuset": "let the engine use the cpuset controller of control groups",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One control that is not as it was asked for. `control` is its short name, `what` the detail."""

    control: str
    what: str
    asked: str
    effective: str

    def __str__(self) -> str:
        return f"{self.what}: asked {self.asked}, in force {self.effective}"


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of the engine: the whole request, the cpuset, and what the engine warned of when it took it.

    `untold` are keys of HostConfig that this engine's `inspect` has no word for; they are seen inside.
    """

    request: Mapping[str, Any]
    cpuset: str
    warnings: tuple[str, ...] = ()
    untold: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Attestation:
    """What was found at the start: what differs, which of it the policy accepts, and the facts themselves.

    `unseen` is what the kernel of a runtime such as runsc does not tell; there the engine's word alone is checked.
    """

    differences: tuple[Difference, ...]
    accepted: tuple[Difference, ...]
    unseen: tuple[Difference, ...]
    facts: Mapping[str, str]
    runtime: str
    seccomp_sha256: str

    @property
    def gaps(self) -> tuple[str, ...]:
        """The names of the accepted gaps that are really there, sorted."""
        return tuple(sorted({difference.control for difference in self.accepted}))

    def require(self) -> None:
        """Raise SandboxError (not_as_asked) when anything differs that the policy does not accept."""
        if not self.differences:
            return
        listed = "; ".join(map(str, self.differences))
        ways = {difference.control: REMEDIES.get(difference.control) for difference in self.differences}
        advice = [f"for {name}: {way}, or accept_gaps: [{name}] in the policy" for name, way in ways.items() if way]
        raise SandboxError(
            "not_as_asked",
            f"The engine did not give the container what was asked: {listed}. Nothing was run."
            + (f" What to do, {'; '.join(advice)}." if advice else ""),
            details={"differences": [[d.control, d.what, d.asked, d.effective] for d in self.differences]},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for the trace."""
        return {
            "runtime": self.runtime,
            "seccomp_sha256": self.seccomp_sha256,
            "accepted_gaps": [str(difference) for difference in self.accepted],
            "unseen": [str(difference) for difference in self.unseen],
            "facts": {key: value for key, value in self.facts.items() if key not in LONG_FACTS},
            "mounts": self.facts.get("mounts", "").splitlines(),
        }


def attest(
    settings: ContainerSettings, asked: Asked, inspected: Mapping[str, Any], facts: Mapping[str, str]
) -> Attestation:
    """Compare what was asked with the engine's `inspect` and with what the guest saw. Pure."""
    found = [
        *_compare_status(facts),
        *_compare_limits(settings, asked.cpuset, facts),
        *_compare_network(facts),
        *_compare_mounts(settings, facts.get("mounts", "")),
        *_compare_kernel_files(facts),
        *_compare_writable(facts.get("writable", "")),
        *compare_engine(asked.request, inspected, asked.untold),
        *(_warned(text) for text in asked.warnings),
    ]
    unseen = [one for one in found if settings.runtime in OWN_KERNEL and _unseen(one)]
    seen = [one for one in found if one not in unseen]
    accepts = set(settings.accept_gaps)
    return Attestation(
        differences=tuple(one for one in seen if one.control not in accepts),
        accepted=tuple(one for one in seen if one.control in accepts),
        unseen=tuple(unseen),
        facts=dict(facts),
        runtime=str(inspected.get("HostConfig", {}).get("Runtime", "")),
        seccomp_sha256=seccomp.profile_sha256(),
    )


def _unseen(difference: Difference) -> bool:
    """Return whether a kernel between could not show it, and does not show the contrary of it."""
    if difference.control == "mounts":
        return difference.asked == MOUNT_FLAGS
    if difference.control == "capabilities":
        return difference.effective == NOT_KNOWN
    return difference.control in UNSEEN_INSIDE and difference.what != WARNING


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


def compare_engine(
    request: Mapping[str, Any], inspected: Mapping[str, Any], untold: Collection[str] = ()
) -> list[Difference]:
    """Compare the request with what the engine says it applied; what was not asked for must be empty.

    `untold` are keys of HostConfig that the engine has no word for.
    """
    asked, applied = request["HostConfig"], inspected.get("HostConfig") or {}
    rows = [
        ("engine", f"HostConfig.{key}", _plain(key, value), _plain(key, applied.get(key)))
        for key, value in asked.items()
        if key not in SEEN_INSIDE and key not in untold
    ]
    rows += [("engine", f"HostConfig.{key}", "", _plain(key, applied.get(key) or "")) for key in EMPTY_IN_ENGINE]
    if asked.get("Runtime"):
        rows.append(("runtime", "runtime", asked["Runtime"], str(applied.get("Runtime", ""))))
    profile = next((option[9:] for option in asked["SecurityOpt"] if option.startswith("apparmor=")), "")
    if profile:
        rows.append(("apparmor", "AppArmor profile", profile, str(inspected.get("AppArmorProfile", ""))))
    mounts = [str(mount.get("Destination")) for mount in inspected.get("Mounts") or ()]
    rows.append(("mounts", "volumes and binds", "none", " ".join(mounts) or "none"))
    config = inspected.get("Config") or {}
    rows.append(("user", "Config.User", request["User"], str(config.get("User", ""))))
    return [
        Difference(control, what, want or "nothing", have or "nothing")
        for control, what, want, have in rows
        if want != have
    ]


def _plain(key: str, value: Any) -> str:
    """Return a value as text in one form: order does not count in lists, a long profile shows as its digest."""
    if key == "CapAdd":
        return " ".join(sorted(name.upper().removeprefix("CAP_") for name in value or ()))
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_plain(name, inner)}" for name, inner in sorted(value.items()) if inner)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(sorted(_short(_plain("", inner)) for inner in value))
    return "" if value is None else str(value)


def _short(text: str) -> str:
    return text if len(text) < 200 else f"{text[:20]}...sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _warned(text: str) -> Difference:
    """Return what a warning of the engine means: it has taken the request and will not do all of it."""
    low = text.lower()
    names = ("swap", "pids", "cpuset", "seccomp", "memory")
    control = next((name for name in names if name in low), "engine")
    return Difference(control, WARNING, "none", text)
