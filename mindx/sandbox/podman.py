"""Podman, asked in its own words: its form of Docker's API leaves out what the wall needs (docs/decisions/0010).

The container is the one of container.py. Its request is translated for Podman's own API on the same socket, and what
Podman says of the container is translated back, so that attestation compares the one with the other as ever.
"""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from mindx.errors import EngineError
from mindx.sandbox import engine_way, seccomp
from mindx.sandbox.attest import Asked
from mindx.sandbox.build_leftovers import container_name
from mindx.sandbox.engine_api import LIBPOD, DirectApi
from mindx.sandbox.image import REPOSITORY, DerivedImage
from mindx.sandbox.image_records import locked
from mindx.sandbox.life import Life
from mindx.sandbox.owner import Owner

if TYPE_CHECKING:
    import docker

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
EVENTS_WITHIN_S = 5.0
# More processes for one uid than a container may have, since another session may have drawn the same uids.
_NPROC_FACTOR, _NPROC_MOST = 4, 4096
_OWN_MOUNT_OPTIONS = {"rprivate", "notmpcopyup"}


def is_podman(info: Mapping[str, Any]) -> bool:
    """Return whether an engine's `info` is Podman's."""
    return "BuildahVersion" in info


def limits_nothing(info: Mapping[str, Any]) -> bool:
    """Return whether this Podman sets no limits although its `info` tells that it can."""
    return bool(info.get("Rootless")) and str(info.get("CgroupVersion") or "1") == "1"


def ensure_profile(client: docker.DockerClient, image: DerivedImage) -> DerivedImage:
    """Return the same image with our seccomp profile in a label, made if it is not there; blocking.

    Podman takes a profile from a file of its own machine, which may be another, or from the image. Raises EngineError.
    """
    digest = hashlib.sha256(f"{image.image_id}\0{seccomp.profile_sha256()}".encode()).hexdigest()[:32]
    reference = f"{REPOSITORY}:{digest}"
    try:
        image_id = _profiled(client, reference)
        if not image_id:
            with locked("derived", lambda: None):
                image_id = _profiled(client, reference) or _add_profile(client, image, digest)
    except engine_way.ENGINE_EXCEPTIONS as error:
        raise engine_way.engine_error(error, "put the seccomp profile into the image for sessions") from error
    return DerivedImage(image_id, image.base_id, image.guest_sha256, image.python)


def _profiled(client: docker.DockerClient, reference: str) -> str:
    try:
        found = client.api.inspect_image(reference)
    except engine_way.errors.ImageNotFound:
        return ""
    return str(found["Id"]) if _profile_of(found) == seccomp.profile() else ""


def _profile_of(image: Mapping[str, Any]) -> str:
    return str(((image.get("Config") or {}).get("Labels") or {}).get(PROFILE_LABEL, ""))


def _add_profile(client: docker.DockerClient, image: DerivedImage, tag: str) -> str:
    made = client.api.create_container(image.image_id, entrypoint=["true"], name=container_name(Owner.me()))
    try:
        # Without quotes: Podman takes them off and leaves the backslashes.
        changes = [f"LABEL {PROFILE_LABEL}={seccomp.profile()}"]
        return str(client.api.commit(made["Id"], REPOSITORY, tag, changes=changes)["Id"])
    finally:
        client.api.remove_container(made["Id"], v=True, force=True)


def fit(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return a HostConfig with a limit of processes for a uid.

    Without one Podman asks for the highest, which it may not set where it lacks CAP_SYS_RESOURCE.
    """
    nproc = max(host["PidsLimit"], min(_NPROC_FACTOR * host["PidsLimit"], _NPROC_MOST))
    return {**host, "Ulimits": [*host["Ulimits"], {"Name": "nproc", "Soft": nproc, "Hard": nproc}]}


def create(client: docker.DockerClient, request: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Make the container and return its Id and Warnings. Raises what the SDK's own calls raise."""
    return _ask(client, "POST", "/containers/create", specification(request, name))


def asked(request: Mapping[str, Any], cpuset: str, created: Mapping[str, Any]) -> Asked:
    """Return what attestation compares: what was asked, and what Podman warned of, for each control by its name.

    A limit that Podman says it ignores is not what it tells of the container, but what is seen inside. Pure.
    """
    warnings = tuple(map(str, created.get("Warnings") or ()))
    ignored = [text for text in warnings if LIMITS_IGNORED in text]
    if not ignored:
        return Asked(request, cpuset, warnings, UNTOLD)
    told = [text for text in warnings if text not in ignored]
    told += [f"the {control} limit is ignored (rootless, control groups of version 1)" for control in LIMITS]
    return Asked(request, cpuset, tuple(told), UNTOLD.union(*LIMITS.values()))


async def require_events(life: Life) -> None:
    """Return once Podman has told of our own attach. Raises EngineError (engine_unfit).

    It may be set up to tell of nothing, and then nobody else's hand on the container would be noticed.
    """
    if not await life.attached(EVENTS_WITHIN_S):
        raise EngineError(
            "engine_unfit",
            "cannot follow what happens to the container: this Podman tells no events, so that somebody else's hand "
            'on it would not be noticed. Write events_logger = "file" (or journald) under [engine] in its '
            "containers.conf and start it again; see docs/engines.md.",
        )


def specification(request: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a request to Docker as Podman's specification of a container. Pure."""
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


def inspect(client: docker.DockerClient, container_id: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Podman says of a container in Docker's words. Raises what the SDK's own calls raise."""
    found = _ask(client, "GET", f"/containers/{container_id}/json")
    image = client.api.inspect_image(found["Image"])
    return in_dockers_words(found, _profile_of(image), request)


def in_dockers_words(found: Mapping[str, Any], profile: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Translate Podman's account of a container whose image holds `profile`. Pure.

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


def _ask(client: docker.DockerClient, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Ask Podman by its own API: over the socket itself, or by the SDK's HTTP session where it is elsewhere."""
    if isinstance(client.api, DirectApi):
        return cast("dict[str, Any]", client.api.libpod(method, path, body))
    import requests.exceptions

    url = f"{client.api.base_url}/v{LIBPOD}/libpod{path}"
    response = client.api.request(method, url, json=body, timeout=client.api.timeout)
    try:
        response.raise_for_status()
    except requests.exceptions.HTTPError as error:
        raise engine_way.errors.create_api_error_from_http_exception(error) from error
    return cast("dict[str, Any]", response.json())
