"""Podman's words for our container and back: what it said in 4.3 is as asked, and each difference in it is found."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindx.sandbox import attest, container, podman_words, seccomp
from mindx.sandbox.container import MASKED_PATHS, ContainerSettings, EngineControls, Ids

SAID = json.loads((Path(__file__).parent / "data" / "podman-4.3-inspect.json").read_text())
Change = Callable[[dict[str, Any]], None]


def request(apparmor: bool = False) -> dict[str, Any]:
    """Return the request that Podman was sent when it said SAID."""
    controls = EngineControls(2, apparmor=apparmor)
    host = container.host_config(ContainerSettings(), Ids(10_000, 10_000), "0-1", controls)
    return container.create_request("sha256:0", "/usr/bin/python3", {"mindx.session": "ab"}, podman_words.fit(host))


def differences(said: dict[str, Any], profile: str = "", apparmor: bool = False) -> list[str]:
    asked = request(apparmor)
    told = podman_words.in_dockers_words(said, profile or seccomp.profile(), asked)
    return [one.what for one in attest.compare_engine(asked, told, podman_words.UNTOLD)]


def test_what_podman_said_is_as_asked() -> None:
    assert differences(SAID) == []


def put(key: str, value: Any) -> Change:
    def change(said: dict[str, Any]) -> None:
        said["HostConfig"][key] = value

    return change


def less_of(point: str, option: str) -> Change:
    def change(said: dict[str, Any]) -> None:
        mounts = said["HostConfig"]["Tmpfs"]
        mounts[point] = mounts[point].replace(f"{option},", "")

    return change


CHANGES: dict[str, tuple[Change, str]] = {
    "the host's shared memory": (put("IpcMode", "host"), "HostConfig.IpcMode"),
    "the host's control groups": (put("CgroupMode", "host"), "HostConfig.CgroupnsMode"),
    "the host's processes": (put("PidMode", "host"), "HostConfig.PidMode"),
    "the host's name": (put("UTSMode", "host"), "HostConfig.UTSMode"),
    "a network": (put("NetworkMode", "bridge"), "HostConfig.NetworkMode"),
    "a log": (put("LogConfig", {"Type": "k8s-file", "Config": None}), "HostConfig.LogConfig"),
    "a limit of files": (put("Ulimits", SAID["HostConfig"]["Ulimits"][1:]), "HostConfig.Ulimits"),
    "a setuid place": (less_of("/tmp", "nosuid"), "HostConfig.Tmpfs"),
    "a place without nr_inodes": (less_of("/workspace", "nr_inodes=65536"), "HostConfig.Tmpfs"),
    "new privileges": (put("SecurityOpt", []), "HostConfig.SecurityOpt"),
    "a capability": (lambda said: said["BoundingCaps"].append("CAP_SYS_ADMIN"), "HostConfig.CapAdd"),
    "an init program": (lambda said: said["Config"].update(Annotations={}), "HostConfig.Init"),
    "a writable root": (put("ReadonlyRootfs", False), "HostConfig.ReadonlyRootfs"),
    "it stays": (put("AutoRemove", False), "HostConfig.AutoRemove"),
    "a bind": (put("Binds", ["/:/host"]), "HostConfig.Binds"),
    "a device": (put("Devices", [{"PathOnHost": "/dev/kvm"}]), "HostConfig.Devices"),
    "another user": (lambda said: said["Config"].update(User="1000"), "Config.User"),
    "a volume": (lambda said: said["Mounts"].append({"Destination": "/data"}), "volumes and binds"),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_each_difference_in_what_podman_says_is_found(name: str) -> None:
    change, what = CHANGES[name]
    said = copy.deepcopy(SAID)
    change(said)
    assert differences(said) == [what]


def test_another_profile_in_the_image_is_found() -> None:
    assert differences(SAID, profile='{"defaultAction":"SCMP_ACT_ALLOW"}') == ["HostConfig.SecurityOpt"]


def test_its_own_apparmor_profile_is_the_default_that_was_asked_and_none_is_not() -> None:
    said = {**copy.deepcopy(SAID), "AppArmorProfile": "containers-default-0.50.1"}
    assert differences(said, apparmor=True) == []
    assert "AppArmor profile" in differences(SAID, apparmor=True)
    assert "AppArmor profile" in differences({**said, "AppArmorProfile": "unconfined"}, apparmor=True)


def test_the_specification_leaves_nothing_out() -> None:
    """Each key of the request is one that the specification was made from, or one that Podman need not be told."""
    asked = request()
    asked["HostConfig"]["Runtime"] = "crun"
    needless = {
        *("AttachStdin", "AttachStdout", "AttachStderr", "StdinOnce"),  # the attach call says so; conmon closes stdin
        "NetworkDisabled",  # NetworkMode says it
        "ReadonlyPaths",  # Podman's own are all of them, as is seen inside
    }

    class Watched(dict[str, Any]):
        def __init__(self, values: dict[str, Any]) -> None:
            super().__init__(values)
            self.read: set[str] = set()

        def __getitem__(self, key: str) -> Any:
            self.read.add(key)
            return super().__getitem__(key)

    host, whole = Watched(asked["HostConfig"]), Watched(asked)
    whole["HostConfig"] = host
    podman_words.specification(whole, "mindx-ab")
    assert whole.keys() - whole.read <= needless
    assert host.keys() - host.read <= needless


def test_a_tmpfs_keeps_all_its_options_and_hides_those_podman_does_not_know() -> None:
    mounts = {one["destination"]: one["options"] for one in podman_words.specification(request(), "mindx-ab")["mounts"]}
    asked = request()["HostConfig"]["Tmpfs"]
    assert mounts.keys() == asked.keys()
    for point, options in mounts.items():
        assert sorted(",".join(options).split(",")) == sorted([*asked[point].split(","), "notmpcopyup"])
        known = {"rw", "exec", "noexec", "nosuid", "nodev", "notmpcopyup", "mode", "size"}
        assert {option.partition("=")[0] for option in options} <= known, options


def test_a_warning_that_limits_are_ignored_is_one_of_each_limit() -> None:
    ignored = "Resource limits are not supported and ignored on cgroups V1 rootless systems"
    asked = podman_words.asked(request(), "0-1", {"Id": "x", "Warnings": ["another", ignored]})
    assert [attest._warned(text).control for text in asked.warnings] == ["engine", "memory", "swap", "cpuset", "pids"]
    assert {"Memory", "MemorySwap", "PidsLimit", "CpusetCpus", "CpuShares", *podman_words.UNTOLD} == asked.untold
    assert podman_words.asked(request(), "0-1", {"Id": "x", "Warnings": None}).untold == podman_words.UNTOLD


def test_masks_go_over_whole_and_a_profile_only_when_it_was_asked() -> None:
    said = podman_words.specification(request(), "mindx-ab")
    assert said["mask"] == list(MASKED_PATHS)
    assert said["seccomp_policy"] == "image"
    without = request()
    without["HostConfig"]["SecurityOpt"] = ["no-new-privileges:true"]
    assert "seccomp_policy" not in podman_words.specification(without, "mindx-ab")
