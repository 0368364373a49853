"""Attestation: each control that is missing refuses the session, naming both values."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from mindx.errors import SandboxError
from mindx.policy.model import Limits
from mindx.sandbox import attest, container
from mindx.sandbox.attest import Asked, Attestation
from mindx.sandbox.comparison import Difference
from mindx.sandbox.container import ContainerSettings, EngineControls, Ids
from mindx.sandbox.docker import DockerSandbox

from .conftest import attested, start_refused

Change = Callable[[dict[str, Any]], None]
Sabotage = Callable[[Change], None]


def put(key: str, value: Any) -> Change:
    def change(host: dict[str, Any]) -> None:
        host[key] = value

    return change


def drop_no_new_privileges(host: dict[str, Any]) -> None:
    host["SecurityOpt"] = [option for option in host["SecurityOpt"] if option.startswith("seccomp")]


def no_seccomp(host: dict[str, Any]) -> None:
    host["SecurityOpt"] = ["no-new-privileges:true", "seccomp=unconfined"]


def no_profile_of_ours(host: dict[str, Any]) -> None:
    host["SecurityOpt"] = [option for option in host["SecurityOpt"] if not option.startswith("seccomp")]


def more_capabilities(host: dict[str, Any]) -> None:
    host["CapAdd"] = [*host["CapAdd"], "NET_RAW"]


def bigger(point: str) -> Change:
    def change(host: dict[str, Any]) -> None:
        host["Tmpfs"] = {**host["Tmpfs"], point: host["Tmpfs"][point].replace("size=", "size=1")}

    return change


def no_inode_limit(host: dict[str, Any]) -> None:
    host["Tmpfs"] = {**host["Tmpfs"], "/tmp": re.sub(",nr_inodes=[0-9]+", "", host["Tmpfs"]["/tmp"])}


def setuid_tmp(host: dict[str, Any]) -> None:
    host["Tmpfs"] = {**host["Tmpfs"], "/tmp": host["Tmpfs"]["/tmp"].replace("nosuid,", "suid,")}


def no_memory(host: dict[str, Any]) -> None:
    host["Memory"] = host["MemorySwap"] = 0


# what is done to the request: the controls of which one must be named
SABOTAGES: dict[str, tuple[Change, set[str]]] = {
    "memory": (no_memory, {"memory"}),
    "swap": (put("MemorySwap", -1), {"swap"}),
    "pids": (put("PidsLimit", 0), {"pids"}),
    "read-only root": (put("ReadonlyRootfs", False), {"root"}),
    "no-new-privileges": (drop_no_new_privileges, {"no_new_privileges"}),
    "seccomp": (no_seccomp, {"seccomp"}),
    "capability": (more_capabilities, {"capabilities"}),
    "network": (put("NetworkMode", "bridge"), {"network"}),
    "tmpfs size": (bigger("/tmp"), {"mounts"}),
    "tmpfs nosuid": (setuid_tmp, {"mounts"}),
    "shm size": (bigger("/dev/shm"), {"mounts"}),
    "tmpfs inodes": (no_inode_limit, {"inodes"}),
    "cpuset": (put("CpusetCpus", "0"), {"cpuset"}),
    "oom score": (put("OomScoreAdj", 500), {"oom_score"}),
    "shared memory": (put("Sysctls", {}), {"sysctl"}),
    "hidden paths": (put("MaskedPaths", []), {"kernel_files"}),
    "read-only paths": (put("ReadonlyPaths", []), {"kernel_files"}),
    "the engine's own profile": (no_profile_of_ours, {"seccomp"}),
}


@pytest.mark.parametrize("name", sorted(SABOTAGES))
def test_what_the_kernel_shows_refuses_the_session(name: str, sabotage: Sabotage) -> None:
    change, controls = SABOTAGES[name]
    if name == "cpuset" and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this machine has one CPU: there is no smaller set")
    sabotage(change)
    error = asyncio.run(start_refused())
    assert error.code == "not_as_asked"
    named = {control for control, *_ in error.details["differences"]}
    assert controls & named, error.message
    for _, _what, asked, effective in error.details["differences"]:
        assert asked != effective
        assert asked in error.message
        assert effective in error.message


def inspected(request: dict[str, Any]) -> dict[str, Any]:
    """Return what an honest engine says of a request."""
    return {
        "HostConfig": {**request["HostConfig"], "Binds": None, "Devices": [], "PidMode": "", "Runtime": "runc"},
        "Config": {"User": "0:0"},
        "Mounts": [],
        "AppArmorProfile": "",
    }


def request(settings: ContainerSettings | None = None, controls: EngineControls | None = None) -> dict[str, Any]:
    host = container.host_config(
        settings or ContainerSettings(), Ids(10_000, 10_000), "0-1", controls or EngineControls(2)
    )
    return container.create_request("sha256:0", "/usr/bin/python3", {}, host)


def test_an_honest_engine_differs_in_nothing() -> None:
    assert attest.compare_engine(request(), inspected(request())) == []


ENGINE_LIES: dict[str, dict[str, Any]] = {
    "NetworkMode": {"NetworkMode": "host"},
    "ReadonlyRootfs": {"ReadonlyRootfs": False},
    "CapAdd": {"CapAdd": ["KILL", "SETGID", "SETUID", "SYS_ADMIN"]},
    "SecurityOpt": {"SecurityOpt": ["no-new-privileges:true"]},
    "Privileged": {"Privileged": True},
    "Binds": {"Binds": ["/:/host"]},
    "Mounts": {"Mounts": [{"Type": "bind", "Source": "/", "Target": "/host"}]},
    "PidMode": {"PidMode": "host"},
    "IpcMode": {"IpcMode": "shareable"},
    "UTSMode": {"UTSMode": "host"},
    "UsernsMode": {"UsernsMode": "host"},
    "CgroupnsMode": {"CgroupnsMode": "host"},
    "Devices": {"Devices": [{"PathOnHost": "/dev/kvm"}]},
    "DeviceRequests": {"DeviceRequests": [{"Count": -1}]},
    "Tmpfs": {"Tmpfs": {"/workspace": "rw"}},
    "LogConfig": {"LogConfig": {"Type": "json-file", "Config": {}}},
    "AutoRemove": {"AutoRemove": False},
    "MaskedPaths": {"MaskedPaths": []},
    "ReadonlyPaths": {"ReadonlyPaths": []},
    "PidsLimit": {"PidsLimit": None},
    "Ulimits": {"Ulimits": []},
    "Sysctls": {"Sysctls": None},
    "RestartPolicy": {"RestartPolicy": {"Name": "always", "MaximumRetryCount": 0}},
    "PortBindings": {"PortBindings": {"80/tcp": [{"HostPort": "80"}]}},
    "PublishAllPorts": {"PublishAllPorts": True},
    "VolumesFrom": {"VolumesFrom": ["other"]},
}


@pytest.mark.parametrize("key", sorted(ENGINE_LIES))
def test_what_the_engine_applied_differently_is_found(key: str) -> None:
    asked = request()
    said = inspected(asked)
    said["HostConfig"].update(ENGINE_LIES[key])
    found = attest.compare_engine(asked, said)
    assert [difference.what for difference in found] == [f"HostConfig.{key}"]
    assert found[0].asked != found[0].effective


def test_a_volume_of_the_image_is_found() -> None:
    said = {**inspected(request()), "Mounts": [{"Type": "volume", "Destination": "/data"}]}
    assert [d.effective for d in attest.compare_engine(request(), said)] == ["/data"]


def test_apparmor_is_asked_for_where_the_engine_has_it_and_must_be_in_force() -> None:
    asked = request(controls=EngineControls(2, apparmor=True))
    assert "apparmor=docker-default" in asked["HostConfig"]["SecurityOpt"]
    assert [d.control for d in attest.compare_engine(asked, inspected(asked))] == ["apparmor"]
    said = {**inspected(asked), "AppArmorProfile": "docker-default"}
    assert attest.compare_engine(asked, said) == []


def test_another_runtime_than_the_one_asked_for_is_found() -> None:
    settings = ContainerSettings(runtime="runsc")
    asked = request(settings)
    found = attest.compare_engine(asked, inspected({**asked, "HostConfig": {**asked["HostConfig"]}}))
    assert [(d.control, d.asked, d.effective) for d in found] == [("runtime", "runsc", "runc")]


def test_what_an_engine_has_is_read_from_its_own_word() -> None:
    info = {"NCPU": 4, "SecurityOptions": ["name=apparmor", "name=seccomp,profile=default", "name=rootless"]}
    assert EngineControls.of(info) == EngineControls(4, seccomp=True, apparmor=True)
    assert EngineControls.of({"NCPU": 1, "SecurityOptions": None}) == EngineControls(1, seccomp=False, apparmor=False)


def test_an_engine_without_seccomp_is_refused_by_name_unless_that_is_accepted() -> None:
    bare = EngineControls(2, seccomp=False)
    with pytest.raises(SandboxError, match="accept_gaps") as caught:
        request(controls=bare)
    assert caught.value.code == "not_as_asked"
    accepted = request(ContainerSettings(accept_gaps=("seccomp",)), bare)
    assert accepted["HostConfig"]["SecurityOpt"] == ["no-new-privileges:true"]
    # The gap is the engine's: where there is seccomp, the profile is asked for whatever the policy accepts.
    assert request(ContainerSettings(accept_gaps=("seccomp",))) == request()


WARNINGS = {
    "Your kernel does not support swap limit capabilities. Memory limited without swap.": "swap",
    "Your kernel does not support PIDs limit capabilities or the cgroup is not mounted. PIDs limit discarded.": "pids",
    "Your kernel does not support cpuset or the cgroup is not mounted. Cpuset discarded.": "cpuset",
    "Something new was discarded.": "engine",
}


def of_warning(text: str, accept: tuple[str, ...] = ()) -> Attestation:
    facts = asyncio.run(attested()).facts
    asked = request()
    settings = ContainerSettings(accept_gaps=accept)
    return attest.attest(settings, Asked(asked, facts["cpuset"], (text,)), inspected(asked), facts)


@pytest.mark.parametrize("text", sorted(WARNINGS))
def test_a_warning_of_the_engine_is_a_difference(text: str, ready: None) -> None:
    attestation = of_warning(text)
    assert [(d.control, d.effective) for d in attestation.differences] == [(WARNINGS[text], text)]


def test_a_named_gap_is_accepted_and_shown_and_no_other(ready: None) -> None:
    texts = sorted(WARNINGS)
    accepted = of_warning(next(text for text in texts if WARNINGS[text] == "swap"), ("swap",))
    accepted.require()
    assert accepted.gaps == ("swap",)
    assert len(accepted.to_dict()["accepted_gaps"]) == 1
    refused = of_warning(next(text for text in texts if WARNINGS[text] == "pids"), ("swap",))
    assert refused.gaps == ()
    assert [d.control for d in refused.differences] == ["pids"]


def test_a_real_session_starts_with_an_accepted_gap_and_says_so(sabotage: Sabotage) -> None:
    sabotage(lambda host: host.update(MemorySwap=-1))
    error = asyncio.run(start_refused())
    assert "accept_gaps: [swap]" in error.message
    # The engine's own word differs as well: it was altered on its way.
    assert {control for control, *_ in error.details["differences"]} == {"swap"}
    attestation = asyncio.run(attested(ContainerSettings(accept_gaps=("swap",))))
    assert attestation.gaps == ("swap",)


def test_a_fact_that_is_missing_is_a_difference(ready: None) -> None:
    attestation = asyncio.run(attested())
    asked = request()
    for key in attestation.facts:
        if key in ("apparmor", "cpu_quota", "uid", "gid", "groups", "agent_capbnd", "agent_groups", "routes"):
            continue  # not compared, or empty when all is well
        if key == "cgroup_version":
            continue  # without it the stricter reading holds
        facts = {name: value for name, value in attestation.facts.items() if name != key}
        found = attest.attest(ContainerSettings(), Asked(asked, "0-1"), inspected(asked), facts)
        assert found.differences, key
    for key in ("agent_groups", "routes"):
        facts = {name: value for name, value in attestation.facts.items() if name != key}
        assert attest.attest(ContainerSettings(), Asked(asked, "0-1"), inspected(asked), facts).differences, key


def test_a_place_that_the_agent_may_write_and_should_not_is_found(ready: None) -> None:
    attestation = asyncio.run(attested())
    asked = request()
    facts = {**attestation.facts, "writable": attestation.facts["writable"] + " /etc"}
    found = attest.attest(ContainerSettings(), Asked(asked, "0-1"), inspected(asked), facts)
    assert Difference("writable", "the agent at /etc", "may not write", "may write") in found.differences


@pytest.mark.parametrize(
    ("line", "harmless"),
    [
        ("/dev/null rw,nosuid rw devtmpfs", True),
        ("/proc/keys rw,nosuid rw devtmpfs", True),
        ("/dev/null rw,nosuid rw ext4", False),
        ("/dev/sda rw,nosuid rw devtmpfs", False),
        ("/dev/kvm rw,nosuid rw devtmpfs", False),
        ("/etc/keys rw,nosuid rw devtmpfs", False),
    ],
)
def test_the_hosts_harmless_devices_are_no_door_and_others_are(line: str, harmless: bool, ready: None) -> None:
    """A rootless engine binds the devices that all may use, as it can make none."""
    attestation = asyncio.run(attested())
    asked, point = request(), line.split()[0]
    writable = attestation.facts["writable"] + ("" if point.startswith("/proc/") else f" {point}")
    facts = {**attestation.facts, "mounts": f"{attestation.facts['mounts']}\n{line}", "writable": writable}
    found = attest.attest(ContainerSettings(), Asked(asked, "0-1"), inspected(asked), facts)
    about = [difference for difference in found.differences if point in difference.what]
    assert (about == []) is harmless, about


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("/opt/secret ro,relatime rw ext4", False),
        ("/etc/localtime ro rw ext4", False),
        ("/workspace/.git ro rw ext4", False),
        ("/procs ro rw ext4", False),
        ("/etc/hosts ro rw ext4", True),
        ("/run/.containerenv ro rw tmpfs", True),
    ],
)
def test_a_read_only_mount_that_nobody_asked_for_is_named(line: str, known: bool, ready: None) -> None:
    """Podman's containers.conf can name volumes, and its `inspect` does not tell of them."""
    attestation = asyncio.run(attested())
    asked, point = request(), line.split()[0]
    facts = {**attestation.facts, "mounts": f"{attestation.facts['mounts']}\n{line}"}
    found = attest.attest(ContainerSettings(), Asked(asked, "0-1"), inspected(asked), facts)
    about = {one.control for one in found.differences if one.what == f"mount {point}"}
    assert about == (set() if known else {"mounts"})


def test_it_is_data_on_the_sandbox_and_costs_little(ready: None) -> None:
    async def measure() -> float:
        async with DockerSandbox() as sandbox:
            attestation = sandbox.attestation
            assert attestation is not None
            assert attestation.runtime
            assert attestation.to_dict()["facts"]["agent_capeff"] == "0" * 16
            asked = request()
            began = time.perf_counter()
            for _ in range(20):
                attest.attest(ContainerSettings(), Asked(asked, "0-1"), inspected(asked), attestation.facts)
            return (time.perf_counter() - began) / 20

    assert asyncio.run(measure()) < 0.010


def test_fewer_limits_are_attested_too(ready: None) -> None:
    limits = Limits(
        memory_bytes=256 << 20,
        pids=64,
        workspace_bytes=32 << 20,
        workspace_inodes=4096,
        tmp_bytes=8 << 20,
        tmp_inodes=1024,
    )
    attestation = asyncio.run(attested(ContainerSettings(limits)))
    assert attestation.facts["pids_limit"] == "64"
    assert attestation.facts["memory_limit"] == str(256 << 20)


def test_a_runtime_with_its_own_kernel_is_taken_at_the_engine_s_word_and_no_further(ready: None) -> None:
    settings = ContainerSettings(runtime="runsc")
    facts = dict(asyncio.run(attested()).facts)
    asked = request(settings)
    said = inspected(asked)
    said["HostConfig"]["Runtime"] = "runsc"
    for key in (
        "nonewprivs",
        "agent_nonewprivs",
        "memory_limit",
        "memory_swap_limit",
        "pids_limit",
        "cpuset",
        "capamb",
        "kernel_names",
        "shm_rmid_forced",
    ):
        facts[key] = ""
    facts["seccomp"] = facts["agent_seccomp"] = facts["oom_score_adj"] = "0"
    facts["setuid_answer"] = "ENOENT"
    found = attest.attest(settings, Asked(asked, "0-1"), said, facts)
    assert found.differences == ()
    assert {one.control for one in found.unseen} == attest.UNSEEN_INSIDE - {"inodes"} | {"capabilities"}
    assert len(found.to_dict()["unseen"]) == len(found.unseen)
    # What it does show, what the engine says and what the engine warns of count as ever.
    for worse in ({"capeff": "ffffffffffffffff"}, {"interfaces": "lo eth0"}, {"agent_uid": "0 0 0 0"}):
        assert attest.attest(settings, Asked(asked, "0-1"), said, {**facts, **worse}).differences, worse
    assert attest.attest(settings, Asked(asked, "0-1", ("PIDs limit discarded.",)), said, facts).differences
    lied = {**said, "HostConfig": {**said["HostConfig"], "PidsLimit": None}}
    assert attest.attest(settings, Asked(asked, "0-1"), lied, facts).differences
    # The default runtime is never taken at its word.
    assert attest.attest(ContainerSettings(), Asked(request(), "0-1"), inspected(request()), facts).differences
