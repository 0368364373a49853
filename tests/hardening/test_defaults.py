"""Every recommended default, line by line: what a session asks of the engine when nothing else is said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mindx.policy.model import Limits
from mindx.sandbox import container
from mindx.sandbox.container import FIRST_UID, LAST_UID, SLOTS, ContainerSettings, EngineControls, Ids
from mindx.sandbox.owner import Owner

MIB = 1 << 20
IDS = Ids(20_000, 20_000)
HIDDEN = {
    *("cmdline", "config.gz", "kallsyms", "kmsg", "modules", "diskstats", "partitions", "interrupts", "zoneinfo"),
    *("pagetypeinfo", "slabinfo", "vmallocinfo", "sysvipc", "mdstat", "asound", "acpi", "kcore", "keys"),
    *("latency_stats", "timer_list", "timer_stats", "sched_debug", "scsi"),
}
HIDDEN_OF_SYS = {"block", "bus", "class", "dev", "module", "kernel", "firmware", "devices/virtual/powercap"}
Asked = Mapping[str, Any]


def asked() -> dict[str, Any]:
    settings = ContainerSettings(policy_sha256="0" * 64)
    host = container.host_config(settings, IDS, "0-1", EngineControls(2, apparmor=True))
    labels = container.labels("0123456789abcdef", Owner.me(), settings)
    return container.create_request("sha256:" + "1" * 64, "/usr/bin/python3", labels, host)


def options(point: str, of: Asked) -> dict[str, str]:
    pairs = (option.partition("=") for option in of["HostConfig"]["Tmpfs"][point].split(","))
    return {name: value for name, _, value in pairs}


def tmpfs(point: str, size: int, flag: str) -> Callable[[Asked], bool]:
    def check(of: Asked) -> bool:
        found = options(point, of)
        wanted = {"rw", "nosuid", "nodev", flag} <= set(found)
        return wanted and int(found["size"]) == size and int(found["nr_inodes"]) > 0

    return check


def host(key: str, value: Any) -> Callable[[Asked], bool]:
    return lambda of: of["HostConfig"].get(key) == value


def top(key: str, value: Any) -> Callable[[Asked], bool]:
    return lambda of: of.get(key) == value


def limit(name: str, value: int) -> Callable[[Asked], bool]:
    return lambda of: {"Name": name, "Soft": value, "Hard": value} in of["HostConfig"]["Ulimits"]


def files_fit_half_of_the_memory(of: Asked) -> bool:
    points = [options(point, of) for point in ("/workspace", "/tmp", "/dev/shm")]
    used = sum(int(found["size"]) + int(found["nr_inodes"]) * 1331 for found in points)
    return used * 2 <= of["HostConfig"]["Memory"]


DEFAULTS: dict[str, Callable[[Asked], bool]] = {
    "the image by its digest": lambda of: re.fullmatch(r"sha256:[0-9a-f]{64}", of["Image"]) is not None,
    "PID 1 as root": top("User", "0:0"),
    "our own first process, isolated from what is around it": lambda of: (
        of["Entrypoint"] == ["/usr/bin/python3", "-I", "-S", "-E", "-B", "/mindx/guest/__main__.py"] and not of["Cmd"]
    ),
    "a dead man's switch on standard input": lambda of: of["OpenStdin"] and of["StdinOnce"] and not of["Tty"],
    "nothing of the host in the environment": lambda of: [pair.partition("=")[0] for pair in of["Env"]] == ["PATH"],
    "a fixed host name": top("Hostname", "mindx"),
    "labels of the owner": lambda of: (
        {"mindx.session", "mindx.boot_id", "mindx.pid", "mindx.pid_start", "mindx.policy_sha256"} <= set(of["Labels"])
    ),
    "no health check": top("Healthcheck", {"Test": ["NONE"]}),
    "no network": lambda of: of["HostConfig"]["NetworkMode"] == "none" and of["NetworkDisabled"],
    "private shared memory": host("IpcMode", "private"),
    "private control groups": host("CgroupnsMode", "private"),
    "no namespace of the host": lambda of: not {"PidMode", "UTSMode", "UsernsMode"} & set(of["HostConfig"]),
    "three capabilities": lambda of: (
        of["HostConfig"]["CapDrop"] == ["ALL"] and sorted(of["HostConfig"]["CapAdd"]) == ["KILL", "SETGID", "SETUID"]
    ),
    "not privileged": host("Privileged", False),
    "no new privileges": lambda of: "no-new-privileges:true" in of["HostConfig"]["SecurityOpt"],
    "our own seccomp profile": lambda of: any(
        json.loads(text.removeprefix("seccomp="))["defaultAction"] == "SCMP_ACT_ERRNO"
        for text in of["HostConfig"]["SecurityOpt"]
        if text.startswith("seccomp=")
    ),
    "AppArmor where it is present": lambda of: "apparmor=docker-default" in of["HostConfig"]["SecurityOpt"],
    "a root file system that is read-only": host("ReadonlyRootfs", True),
    "a workspace in memory": tmpfs("/workspace", 256 * MIB, "exec"),
    "/tmp in memory": tmpfs("/tmp", 64 * MIB, "exec"),
    "/dev/shm in memory": tmpfs("/dev/shm", 32 * MIB, "noexec"),
    "the engine's own shm as large": host("ShmSize", 32 * MIB),
    "files fit half of the memory": files_fit_half_of_the_memory,
    "memory": host("Memory", 1024 * MIB),
    "no swap": host("MemorySwap", 1024 * MIB),
    "swappiness as it is": lambda of: "MemorySwappiness" not in of["HostConfig"],
    "the OOM killer on": host("OomKillDisable", False),
    "the container before the host": host("OomScoreAdj", 300),
    "whole CPUs": host("CpusetCpus", "0-1"),
    "CPU shares": host("CpuShares", 1024),
    "no CPU quota": lambda of: not {"CpuQuota", "CpuPeriod", "NanoCpus"} & set(of["HostConfig"]),
    "128 processes": host("PidsLimit", 128),
    "open files": limit("nofile", 1024),
    "no core files": limit("core", 0),
    "locked memory": limit("memlock", 65_536),
    "no message queues": limit("msgqueue", 0),
    "no limit that counts over all containers of the host": lambda of: all(
        found["Name"] != "nproc" for found in of["HostConfig"]["Ulimits"]
    ),
    "System V memory goes with its last user": host("Sysctls", {"kernel.shm_rmid_forced": "1"}),
    "no log": host("LogConfig", {"Type": "none", "Config": {}}),
    "no restart": host("RestartPolicy", {"Name": "no"}),
    "removed by the engine": host("AutoRemove", True),
    "no init of the engine's": host("Init", False),
    "what tells of the host is masked": lambda of: (
        {f"/proc/{name}" for name in HIDDEN} | {f"/sys/{name}" for name in HIDDEN_OF_SYS}
        <= set(of["HostConfig"]["MaskedPaths"])
    ),
    "what the engine keeps read-only": lambda of: (
        {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
        <= set(of["HostConfig"]["ReadonlyPaths"])
    ),
    "no device, mount or port": lambda of: (
        not {"Devices", "Binds", "Mounts", "PortBindings", "VolumesFrom", "ExtraHosts"} & set(of["HostConfig"])
    ),
}


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_a_session_asks_for(name: str) -> None:
    assert DEFAULTS[name](asked()), name


def test_nothing_is_asked_for_that_no_line_here_knows() -> None:
    known = {
        *("NetworkMode", "IpcMode", "CgroupnsMode", "CapDrop", "CapAdd", "Privileged", "SecurityOpt", "ReadonlyRootfs"),
        *("Tmpfs", "ShmSize", "Sysctls", "Memory", "MemorySwap", "OomKillDisable", "OomScoreAdj", "CpusetCpus"),
        *("CpuShares", "PidsLimit", "Ulimits", "LogConfig", "RestartPolicy", "AutoRemove", "Init", "MaskedPaths"),
        "ReadonlyPaths",
    }
    assert set(asked()["HostConfig"]) == known


def test_rule_6_a_session_owns_a_block_of_uids_that_a_rootless_engine_can_map() -> None:
    for _ in range(1000):
        ids = Ids.draw()
        assert 10_000 <= ids.uid <= 60_000 - SLOTS
        assert (ids.uid - FIRST_UID) % SLOTS == 0, "two blocks never overlap"
        assert ids.gid == ids.uid
    assert (FIRST_UID, LAST_UID) == (10_000, 59_999)


def test_rule_18_no_policy_s_files_take_more_than_half_of_the_memory() -> None:
    with pytest.raises(ValueError, match="more than half"):
        Limits(workspace_bytes=512 * MIB)
