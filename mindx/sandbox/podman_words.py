"""Podman's words for our container, and what it says of it in Docker's (docs/decisions/0010). All of it is pure.

The container is the one of container.py. Its request is translated for Podman's own API, and what Podman says of the
container is translated back, so that attestation compares the one with the other as ever.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from mindx.sandbox import seccomp
from mindx.sandbox.attest import Asked

PROFILE_LABEL = "io.containers.seccomp.profile"  # where Podman looks for an image's own profile
# What Podman does not tell of a container; each is seen inside.
UNTOLD = frozenset({"MaskedPaths", "ReadonlyPaths", "Sysctls"})
# A rootless Podman with control groups of version 1 says so in one warning, and tells zeros afterwards.
LIMITS_IGNORED = "Resource limits are not supported and ignored"
LIMITS = {
    "memory": ("Memory",),
    "swap": ("MemorySwap",),
    "cpuset": ("CpusetCpus", "CpuShares"),
    "pids": ("PidsLimit",),
}
# More processes for one uid than a container may have, since another session may have drawn the same uids.
_NPROC_FACTOR, _NPROC_MOST = 4, 4096
_OWN_MOUNT_OPTIONS = {"rprivate", "notmpcopyup"}


def is_podman(info: Mapping[str, Any]) -> bool:
    """Return whether an engine's `info` is Podman's."""
    return "BuildahVersion" in info


def limits_nothing(info: Mapping[str, Any]) -> bool:
    """Return whether this Podman sets no limits although its `info` tells that it can."""
    return bool(info.get("Rootless")) and str(info.get("CgroupVersion") or "1") == "1"


def profile_of(image: Mapping[str, Any]) -> str:
    """Return the seccomp profile that an image carries, "" for none."""
    return str(((image.get("Config") or {}).get("Labels") or {}).get(PROFILE_LABEL, ""))


def fit(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return a HostConfig with a limit of processes for a uid.

    Without one Podman asks for the highest, which it may not set where it lacks CAP_SYS_RESOURCE.
    """
    nproc = max(host["PidsLimit"], min(_NPROC_FACTOR * host["PidsLimit"], _NPROC_MOST))
    return {**host, "Ulimits": [*host["Ulimits"], {"Name": "nproc", "Soft": nproc, "Hard": nproc}]}


def asked(request: Mapping[str, Any], cpuset: str, created: Mapping[str, Any]) -> Asked:
    """Return what attestation compares: what was asked, and what Podman warned of, for each control by its name.

    A limit that Podman says it ignores is not what it tells of the container, but what is seen inside.
    """
    warnings = tuple(map(str, created.get("Warnings") or ()))
    ignored = [text for text in warnings if LIMITS_IGNORED in text]
    if not ignored:
        return Asked(request, cpuset, warnings, UNTOLD)
    told = [text for text in warnings if text not in ignored]
    told += [f"the {control} limit is ignored (rootless, control groups of version 1)" for control in LIMITS]
    return Asked(request, cpuset, tuple(told), UNTOLD.union(*LIMITS.values()))


def specification(request: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a request to Docker as Podman's specification of a container."""
    host = request["HostConfig"]
    program = request["Entrypoint"]
    options = host["SecurityOpt"]
    runtime = {"oci_runtime": host["Runtime"]} if host.get("Runtime") else {}
    return {
        "name": name,
        "image": request["Image"],
        # Podman lists a container with its command only, and `mindx gc` looks for the guest there.
        "entrypoint": program[:1],
        "command": [*program[1:], *request["Cmd"]],
        "user": request["User"],
        "work_dir": request["WorkingDir"],
        "hostname": request["Hostname"],
        "env": dict(entry.split("=", 1) for entry in request["Env"]),
        "unsetenvall": True,
        # The image's label would be the container's too, and stand in each of its events.
        "labels": {**request["Labels"], PROFILE_LABEL: ""},
        "stdin": request["OpenStdin"],
        "terminal": request["Tty"],
        "healthconfig": request["Healthcheck"],
        "stop_signal": int(signal.Signals[request["StopSignal"]]),
        "netns": {"nsmode": host["NetworkMode"]},
        "ipcns": {"nsmode": host["IpcMode"]},
        "cgroupns": {"nsmode": host["CgroupnsMode"]},
        "pidns": {"nsmode": "private"},
        "utsns": {"nsmode": "private"},
        "cap_drop": host["CapDrop"],
        "cap_add": host["CapAdd"],
        "privileged": host["Privileged"],
        "no_new_privileges": "no-new-privileges:true" in options,
        **({"seccomp_policy": "image"} if f"seccomp={seccomp.profile()}" in options else {}),
        "read_only_filesystem": host["ReadonlyRootfs"],
        "read_write_tmpfs": False,
        "mounts": [_tmpfs(point, text) for point, text in host["Tmpfs"].items()],
        "shm_size": host["ShmSize"],
        "image_volume_mode": "ignore",
        "sysctl": host["Sysctls"],
        "mask": host["MaskedPaths"],  # beside its own; what it makes read-only is all that we ask
        "resource_limits": {
            "memory": {"limit": host["Memory"], "swap": host["MemorySwap"], "disableOOMKiller": host["OomKillDisable"]},
            "cpu": {"cpus": host["CpusetCpus"], "shares": host["CpuShares"]},
            "pids": {"limit": host["PidsLimit"]},
        },
        "oom_score_adj": host["OomScoreAdj"],
        "r_limits": [{"type": one["Name"], "soft": one["Soft"], "hard": one["Hard"]} for one in host["Ulimits"]],
        "log_configuration": {"driver": host["LogConfig"]["Type"]},
        "restart_policy": host["RestartPolicy"]["Name"],
        "remove": host["AutoRemove"],
        "init": host["Init"],
        # Neither its own /etc/passwd over the guest's nor the host's names and servers.
        "manage_password": False,
        "use_image_hosts": True,
        "use_image_resolv_conf": True,
        "httpproxy": False,
        "systemd": "false",
        "sdnotifyMode": "ignore",
        **runtime,
    }


def _tmpfs(point: str, text: str) -> dict[str, Any]:
    """Return a mount. Podman knows no nr_inodes, uid and gid: they travel in one piece with the size."""
    options = text.split(",")
    first = next(number for number, option in enumerate(options) if option.startswith("size="))
    values = [option for option in options[first:] if not option.startswith("mode=")]
    others = [option for option in options if option not in values]
    # What the image has at the place would be copied in.
    return {
        "destination": point,
        "type": "tmpfs",
        "source": "tmpfs",
        "options": [*others, "notmpcopyup", ",".join(values)],
    }


def in_dockers_words(found: Mapping[str, Any], profile: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Translate Podman's account of a container whose image holds `profile`.

    `request` gives the order of what has none, and nothing else.
    """
    host = dict(found["HostConfig"])
    annotations = found["Config"].get("Annotations") or {}
    host["CgroupnsMode"] = host.pop("CgroupMode", "")
    # It calls every namespace of the container's own shareable: with whoever may use the engine.
    host["IpcMode"] = {"shareable": "private"}.get(host["IpcMode"], host["IpcMode"])
    for key in ("PidMode", "UTSMode"):
        host[key] = "" if host[key] == "private" else host[key]
    host["CapAdd"] = found.get("BoundingCaps") or []
    options = ["no-new-privileges:true" if one == "no-new-privileges" else one for one in host["SecurityOpt"]]
    if profile:
        options.append(f"seccomp={profile}")  # that the image's is in force is seen inside
    apparmor = found.get("AppArmorProfile", "")
    if apparmor.startswith("containers-default-"):
        apparmor = "docker-default"  # each engine has a default of its own
        options.append(f"apparmor={apparmor}")
    host["SecurityOpt"] = options
    asked = request["HostConfig"]["Tmpfs"]
    host["Tmpfs"] = {point: _ordered(text, asked.get(point, "")) for point, text in host["Tmpfs"].items()}
    host["Ulimits"] = [{**one, "Name": one["Name"].removeprefix("RLIMIT_").lower()} for one in host["Ulimits"] or ()]
    host["LogConfig"] = {"Type": host["LogConfig"]["Type"], "Config": host["LogConfig"]["Config"] or {}}
    host["Init"] = annotations.get("io.podman.annotations.init") != "FALSE"
    host["Runtime"] = found.get("OCIRuntime", "")
    return {
        "HostConfig": host,
        "Config": {"User": found["Config"]["User"]},
        "Mounts": found["Mounts"],
        "AppArmorProfile": apparmor,
    }


def _ordered(text: str, asked: str) -> str:
    """Return the mount options that were asked, where these are the same in another order; else as they are."""
    return asked if set(text.split(",")) - _OWN_MOUNT_OPTIONS == set(asked.split(",")) else text
