"""The container's settings: what is asked of the engine, all of it, in one place.

Each value has its reason in docs/decisions or SECURITY.md; `attest.py` compares what is in force with what is here.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from mindx.core.frozen import dataclass
from mindx.errors import SandboxError
from mindx.guest.identity import SLOTS
from mindx.policy.load import LoadedPolicy
from mindx.policy.model import Limits
from mindx.sandbox import seccomp
from mindx.sandbox.owner import Owner

FIRST_UID, LAST_UID = 10_000, 59_999  # rootless engines map 65,536 ids only
RUN_BYTES = 256 * 1024
RUN_INODES = 64
CAPABILITIES = ("SETUID", "SETGID", "KILL")

# What the engine hides by itself, and what else of the host a container can read there.
MASKED_PATHS = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/kallsyms",
    "/proc/kmsg",
    "/proc/modules",
    "/proc/diskstats",
    "/proc/partitions",
    "/proc/interrupts",
    "/proc/zoneinfo",
    "/proc/pagetypeinfo",
    "/proc/slabinfo",
    "/proc/vmallocinfo",
    "/proc/sysvipc",
    "/proc/mdstat",
    "/sys/firmware",
    "/sys/block",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/module",
    "/sys/kernel",
    "/sys/devices/virtual/powercap",
)
READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


@dataclass(frozen=True, slots=True)
class ContainerSettings:
    """What one container gets. Sizes in bytes; `cpus` whole CPUs, at most the host's.

    `runtime` is a name that the engine knows, None its default. `accept_gaps` names the controls that the policy lets
    the engine lack.
    """

    limits: Limits = field(default_factory=Limits)
    image: str = "python"
    policy_sha256: str = ""
    runtime: str | None = None
    accept_gaps: tuple[str, ...] = ()

    @classmethod
    def of(cls, loaded: LoadedPolicy, image: str | None = None) -> ContainerSettings:
        """Return what the policy asks of one container; `image` takes the place of the policy's."""
        policy = loaded.policy
        return cls(policy.limits, image or policy.image, loaded.sha256, policy.runtime, policy.accept_gaps)


@dataclass(frozen=True, slots=True)
class EngineControls:
    """Which of the kernel's controls the engine says it has, and how many CPUs."""

    cpus: int
    seccomp: bool = True
    apparmor: bool = False

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> EngineControls:
        """Return what the engine's `info` says."""
        names = {option.split(",")[0] for option in info.get("SecurityOptions") or ()}
        return cls(int(info["NCPU"]), "name=seccomp" in names, "name=apparmor" in names)


@dataclass(frozen=True, slots=True)
class Ids:
    """The uid block and the gid of one session."""

    uid: int
    gid: int

    @classmethod
    def draw(cls) -> Ids:
        """Return a block drawn at random: sessions of one host share kernel limits that count by uid."""
        uid = FIRST_UID + secrets.randbelow((LAST_UID + 1 - FIRST_UID) // SLOTS) * SLOTS
        return cls(uid, uid)


def pick_cpus(wanted: int, host_cpus: int) -> str:
    """Return a cpuset of `wanted` CPUs, at most the host's, spread over sessions at random: `3`, `0,5`."""
    count = max(1, min(wanted, host_cpus))
    if count == host_cpus:
        return f"0-{host_cpus - 1}" if host_cpus > 1 else "0"
    return ",".join(str(cpu) for cpu in sorted(secrets.SystemRandom().sample(range(host_cpus), count)))


def labels(session_id: str, owner: Owner, settings: ContainerSettings) -> dict[str, str]:
    """Return the labels that say whose the container is, so that the owner's death can be proved later."""
    return {
        "mindx.session": session_id,
        "mindx.kind": "session",  # an engine may know a filter for a label with its value only
        "mindx.policy_sha256": settings.policy_sha256,
        "mindx.seccomp_sha256": seccomp.profile_sha256(),
        **owner.labels(),
    }


def tmpfs_options(size_bytes: int, inodes: int, ids: Ids, mode: str) -> str:
    """Return the mount options of a size-limited tmpfs that belongs to the agent and may hold programs that run."""
    return f"rw,exec,nosuid,nodev,size={size_bytes},nr_inodes={inodes},uid={ids.uid},gid={ids.gid},mode={mode}"


def security_options(settings: ContainerSettings, controls: EngineControls) -> list[str]:
    """Return the engine's SecurityOpt.

    The profile is left out only where the engine has no seccomp and the policy accepts that; attestation records it.
    Raises SandboxError (not_as_asked) where the policy does not accept it: such an engine starts no container that
    asks for a profile, and does not say what to do.
    """
    options = ["no-new-privileges:true"]
    if controls.seccomp:
        options.append(f"seccomp={seccomp.profile()}")
    elif "seccomp" not in settings.accept_gaps:
        raise SandboxError(
            "not_as_asked",
            "This engine has no seccomp: the kernel's dangerous calls would not be refused. Nothing was run. Use an "
            "engine and a kernel with seccomp, or write accept_gaps: [seccomp] into the policy.",
            details={"differences": [["seccomp", "seccomp", "our profile", "not there"]]},
        )
    if controls.apparmor:
        options.append("apparmor=docker-default")
    return options


def host_config(settings: ContainerSettings, ids: Ids, cpuset: str, controls: EngineControls) -> dict[str, Any]:
    """Return the engine's HostConfig."""
    limits = settings.limits
    return {
        **({"Runtime": settings.runtime} if settings.runtime else {}),
        "NetworkMode": "none",
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "CapDrop": ["ALL"],
        "CapAdd": list(CAPABILITIES),
        "Privileged": False,
        "SecurityOpt": security_options(settings, controls),
        "ReadonlyRootfs": True,
        "Tmpfs": {
            "/workspace": tmpfs_options(limits.workspace_bytes, limits.workspace_inodes, ids, "0770"),
            "/tmp": tmpfs_options(limits.tmp_bytes, limits.tmp_inodes, ids, "1777"),
            "/run/mindx": f"rw,noexec,nosuid,nodev,size={RUN_BYTES},nr_inodes={RUN_INODES},mode=0755",
            # The engine's own /dev/shm has no limit of inodes, and each takes 1.3 KiB of the container's memory.
            "/dev/shm": f"rw,noexec,nosuid,nodev,size={limits.shm_bytes},nr_inodes={limits.shm_inodes},mode=1777",
        },
        "ShmSize": limits.shm_bytes,
        "Sysctls": {"kernel.shm_rmid_forced": "1"},
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,
        "OomKillDisable": False,
        "OomScoreAdj": 300,
        "CpusetCpus": cpuset,
        "CpuShares": 1024,
        "PidsLimit": limits.pids,
        "Ulimits": [
            {"Name": "nofile", "Soft": limits.nofile, "Hard": limits.nofile},
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "memlock", "Soft": 65536, "Hard": 65536},
            {"Name": "msgqueue", "Soft": 0, "Hard": 0},
        ],
        "LogConfig": {"Type": "none", "Config": {}},
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": True,
        "Init": False,
        "MaskedPaths": list(MASKED_PATHS),
        "ReadonlyPaths": list(READONLY_PATHS),
    }


def create_request(
    image_id: str, python: str, name_labels: Mapping[str, str], host: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body of the engine's create call. Nothing of the caller's environment goes in."""
    return {
        "Image": image_id,
        "Entrypoint": [python, "-I", "-S", "-E", "-B", "/mindx/guest/__main__.py"],
        "Cmd": [],
        "User": "0:0",
        "WorkingDir": "/",
        "Hostname": "mindx",
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "Labels": dict(name_labels),
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "NetworkDisabled": True,
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGKILL",
        "HostConfig": dict(host),
    }
