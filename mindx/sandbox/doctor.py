"""The examination of this machine: can a run work here, what is missing, and what to type next. It changes nothing."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import docker

from mindx.core.count import counted
from mindx.core.folders import state_dir
from mindx.errors import EngineError, ImageError, MindxError
from mindx.sandbox import podman_words
from mindx.sandbox.advisories import Product, find_advisories, mended_by_distribution
from mindx.sandbox.base_image import find_base
from mindx.sandbox.engine import ENGINE_EXCEPTIONS, connect_place, engine_error
from mindx.sandbox.engine_place import EnginePlace
from mindx.sandbox.host_system import HostSystem, read_host_system

State = Literal["ok", "note", "warn", "fail"]
NEEDED_BYTES = 2 << 30
MIN_ENGINE = (20, 10)
TRIED_PODMAN = (4, 3)
SETUP = "mindx setup"
_PATH_OF_SUDO = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    `state` is ok, note (good to know), warn (works, but see to it) or fail (no run can work). `advice` says what to do
    about it, `command` what to type; both "" when there is nothing to do.
    """

    check_id: str
    state: State
    found: str
    advice: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was found, in the order in which it should be mended."""

    checks: tuple[Check, ...]
    next_command: str

    @property
    def works(self) -> bool:
        """True when nothing stands in the way of a run."""
        return not any(check.state == "fail" for check in self.checks)


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What an engine says of itself: its `info` and `version`, and where it is."""

    place: EnginePlace
    info: Mapping[str, Any]
    version: Mapping[str, Any]
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_podman(self) -> bool:
        """True when it is Podman, not Docker Engine."""
        return "Podman Engine" in self.parts

    @property
    def is_local(self) -> bool:
        """True when it answers on a socket of this machine and has this machine's kernel."""
        return self.place.socket is not None and self.info.get("KernelVersion") == platform.release()


def examine(image: str = "python", environ: Mapping[str, str] | None = None) -> Diagnosis:
    """Look at everything that a run with the base image `image` needs; blocking, changes nothing, never raises."""
    system = read_host_system()
    checks = [Check("system", "ok", system.name), check_python(), check_state_folder()]
    try:
        client, place = connect_place(environ)
    except EngineError as error:
        checks.append(_no_engine(error, system))
        return Diagnosis(tuple(checks), _next(checks))
    try:
        facts = read_facts(client, place)
        checks.extend(engine_checks(facts))
        checks.append(check_image(client, image, system))
    except MindxError as error:
        checks.append(Check("engine", "fail", error.message, "Mend it, then look again.", "mindx doctor"))
    finally:
        client.close()
    return Diagnosis(tuple(checks), _next(checks))


def read_facts(client: docker.DockerClient, place: EnginePlace) -> EngineFacts:
    """Ask the engine. Raises EngineError."""
    try:
        version: Mapping[str, Any] = client.version()
        info: Mapping[str, Any] = client.info()
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, "ask the engine what it is") from error
    parts = dict(_part(str(one.get("Name")), str(one.get("Version", ""))) for one in version.get("Components") or ())
    if podman_words.is_podman(info) and podman_words.limits_nothing(info):
        info = {**info, **dict.fromkeys(("MemoryLimit", "PidsLimit", "CPUSet", "SwapLimit"), False)}
    return EngineFacts(place, info, version, parts)


def _part(name: str, version: str) -> tuple[str, str]:
    """Return a part's name and version; Podman has `OCI Runtime (runc)` with `runc version 1.1.5` and more lines."""
    if not name.startswith("OCI Runtime ("):
        return name, version
    return name[len("OCI Runtime (") :].rstrip(")"), (version.splitlines() or [""])[0].rpartition(" ")[2]


def engine_checks(facts: EngineFacts) -> Iterator[Check]:
    """Yield what can be told from the engine's own facts. Pure but for the advisories of a local engine."""
    yield check_engine(facts)
    yield check_kernel(facts)
    yield check_cgroups(facts)
    yield check_swap(facts)
    yield check_seccomp(facts)
    yield check_lsm(facts)
    yield check_runtimes(facts)
    if facts.is_local:
        yield check_disk(facts)
        yield from check_data_root(facts)
    yield from check_advisories(facts)


def check_python() -> Check:
    """Say which Python runs mindx."""
    return Check("python", "ok", f"Python {platform.python_version()}")


def check_state_folder() -> Check:
    """See whether runs can be recorded."""
    folder = state_dir()
    parent = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return Check("state", "ok", f"runs are kept in {folder}")
    return Check(
        "state",
        "fail",
        f"{folder} cannot be written",
        "Give yourself access to it, or choose another folder.",
        "export MINDX_STATE_DIR=$HOME/mindx-state",
    )


def _as_root_finds_it() -> str:
    """Return how sudo is told to start mindx: by its path when it is in no folder that sudo looks into."""
    program = Path(sys.argv[0]).absolute()
    if shutil.which("mindx", path=_PATH_OF_SUDO) or program.name != "mindx":
        return "mindx"
    return shlex.quote(str(program))


def _no_engine(error: EngineError, system: HostSystem) -> Check:
    if error.code in ("engine_missing", "engine_down") and "DOCKER_HOST" not in error.message:
        return Check("engine", "fail", error.message.split(". ")[0], system.advice, system.install or "mindx doctor")
    advice, command = "Mend what the message says, then look again.", "mindx doctor"
    if error.code == "engine_denied":
        command = f"sudo {_as_root_finds_it()} doctor"
    elif "(from DOCKER_HOST)" in error.message:
        advice, command = "Start that engine, or look for one on this machine instead.", "unset DOCKER_HOST"
    elif "the docker context" in error.message:
        advice, command = "Start that engine, or look for one on this machine instead.", "docker context use default"
    return Check("engine", "fail", error.message, advice, command)


def check_engine(facts: EngineFacts) -> Check:
    """See which engine it is, and whether it is one that can keep the promises."""
    where = f"{facts.place.address.removeprefix('unix://')} ({facts.place.origin})"
    said = str(facts.version.get("Version", "?"))
    numbers = tuple(int(part) for part in said.split(".")[:2] if part.isdecimal())
    if facts.is_podman:
        text = f"Podman {said}, {facts.info.get('Architecture', '?')}, at {where}"
        if numbers == TRIED_PODMAN:
            return Check("engine", "ok", text)
        if numbers[:1] < TRIED_PODMAN[:1]:
            return Check("engine", "fail", text, "mindx needs Podman 4.3 or newer, or Docker Engine.")
        advice = "Only Podman 4.3 was tried. A session that another does not make as asked is refused."
        return Check("engine", "warn", text, advice, "mindx verify")
    api = facts.version.get("ApiVersion", "?")
    text = f"Docker {said} (API {api}), {facts.info.get('Architecture', '?')}, at {where}"
    if len(numbers) == 2 and numbers < MIN_ENGINE:
        return Check("engine", "fail", text, "mindx needs Docker 20.10 or newer: upgrade the engine.", SETUP)
    return Check("engine", "ok", text)


def check_kernel(facts: EngineFacts) -> Check:
    """Say which kernel the containers run on."""
    info = facts.info
    memory = int(info.get("MemTotal") or 0) / 2**30
    return Check(
        "kernel",
        "ok",
        f"{info.get('KernelVersion', '?')} on {info.get('OperatingSystem', '?')}, {info.get('NCPU', '?')} CPUs, "
        f"{memory:.1f} GiB of memory",
    )


def check_cgroups(facts: EngineFacts) -> Check:
    """See whether the kernel's control groups can hold the limits."""
    info = facts.info
    version = info.get("CgroupVersion") or "1"
    lacking = [
        name
        for name, key in (("memory", "MemoryLimit"), ("pids", "PidsLimit"), ("cpuset", "CPUSet"))
        if not info.get(key)
    ]
    text = f"control groups version {version}, driver {info.get('CgroupDriver', '?')}"
    if lacking:
        return Check(
            "cgroups",
            "fail",
            f"{text}; no limit of {', '.join(lacking)}",
            "Let the engine use these controllers (a rootless engine needs them delegated by systemd), or accept the "
            "gaps in your policy with `accept_gaps`.",
            "mindx policy show",
        )
    return Check("cgroups", "ok", f"{text}; memory, pids and cpuset can be limited")


def check_swap(facts: EngineFacts) -> Check:
    """See whether swap is counted, or off."""
    if facts.info.get("SwapLimit"):
        return Check("swap", "ok", "swap is counted")
    if facts.is_local and _swap_is_off():
        return Check("swap", "ok", "swap is not counted, and there is none")
    return Check(
        "swap",
        "warn",
        "swap is not counted: a container could use swap beside its memory, so a session is refused",
        "Boot with swapaccount=1, switch swap off, or accept it in your policy: accept_gaps: [swap].",
        "sudo swapoff -a",
    )


def _swap_is_off() -> bool:
    try:
        return len(Path("/proc/swaps").read_text(encoding="utf-8").splitlines()) <= 1
    except OSError:
        return False


def check_seccomp(facts: EngineFacts) -> Check:
    """See whether system calls can be filtered."""
    if any(str(option).startswith("name=seccomp") for option in facts.info.get("SecurityOptions") or ()):
        return Check("seccomp", "ok", "system calls are filtered, by mindx's own profile")
    return Check(
        "seccomp",
        "fail",
        "the engine cannot filter system calls",
        "Use a kernel and an engine with seccomp, or accept it in your policy: accept_gaps: [seccomp].",
    )


def check_lsm(facts: EngineFacts) -> Check:
    """Say which security module confines containers, if any; and whether the engine is rootless."""
    options = [str(option).split(",")[0].removeprefix("name=") for option in facts.info.get("SecurityOptions") or ()]
    modules = [name for name in options if name in ("apparmor", "selinux")]
    rootless = "; the engine is rootless" if "rootless" in options or facts.info.get("Rootless") else ""
    if modules:
        return Check("lsm", "ok", f"{' and '.join(modules)} confines containers too{rootless}")
    return Check("lsm", "note", f"neither AppArmor nor SELinux confines containers: one wall less{rootless}")


def check_runtimes(facts: EngineFacts) -> Check:
    """Say which runtimes there are."""
    default = facts.info.get("DefaultRuntime", "?")
    # Podman lists all that it has heard of, installed or not.
    names = [default] if facts.is_podman else sorted(facts.info.get("Runtimes") or ())
    found = f"{default} (default); the engine lists {', '.join(names)}"
    if any("runsc" in name or "kata" in name for name in names):
        return Check("runtimes", "ok", found)
    return Check(
        "runtimes",
        "note",
        found,
        "All containers share the host's kernel. For plans of strangers install gVisor and set `runtime: runsc` in "
        "your policy.",
    )


def check_disk(facts: EngineFacts) -> Check:
    """See whether there is room for images where the engine keeps them."""
    folder = next((p for p in (Path(str(facts.info.get("DockerRootDir") or "/")), Path("/")) if _usage(p)), Path("/"))
    free = _usage(folder) or 0
    text = f"{free / 2**30:.0f} GiB free in {folder}"
    if free < NEEDED_BYTES:
        return Check("disk", "warn", text, "An image takes up to 1 GiB while it is built: make room.", "mindx gc")
    return Check("disk", "ok", text)


def check_data_root(facts: EngineFacts) -> Iterator[Check]:
    """Yield a note when images are kept in the user's home, as rootless engines do: its name is told inside."""
    root, home = Path(str(facts.info.get("DockerRootDir") or "/")), Path.home()
    if home != Path("/") and root.is_relative_to(home):
        advice = "Keep them elsewhere (`data-root` of Docker, `graphroot` of Podman) if nobody may know your name."
        yield Check("data-root", "note", f"programs inside see where the engine keeps images: {root}", advice)


def _usage(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def check_advisories(
    facts: EngineFacts, mended: Callable[[Product, str], frozenset[str]] = mended_by_distribution
) -> Iterator[Check]:
    """Yield, for each part of the engine, the holes that are known of its version."""
    said: tuple[tuple[Product, str], ...] = (
        ("engine", facts.parts.get("Engine", "")),
        ("containerd", facts.parts.get("containerd", "")),
        ("runc", facts.parts.get("runc", "")),
    )
    for product, version in said:
        if not version:
            continue
        open_ones = find_advisories(product, version)
        if open_ones is None:
            yield Check(f"known-{product}", "note", f"{product} {version}: the version is not understood")
            continue
        repaired = mended(product, version) if facts.is_local else frozenset()
        left = [one for one in open_ones if one.cve not in repaired]
        gone = len(open_ones) - len(left)
        text = f"{product} {version}" + (f", {counted(gone, 'known hole')} mended by the distribution" if gone else "")
        if not left:
            yield Check(f"known-{product}", "ok", f"{text}: no other hole is known to mindx")
            continue
        told = "; ".join(f"{one.cve} ({one.what}{f'; needs {one.needs}' if one.needs else ''})" for one in left)
        state: State = "warn" if any(not one.needs for one in left) else "note"
        what = "the engine" if product == "engine" else product
        advice = f"By upstream's numbers; upgrade {what} when your distribution has a newer one."
        yield Check(f"known-{product}", state, f"{text}: {told}", advice)


def check_image(client: docker.DockerClient, name: str, system: HostSystem) -> Check:
    """See whether the base image is there, or can be built here."""
    try:
        found = find_base(client, name)
    except ImageError as error:
        return Check("image", "fail", error.message, "Name another image, or bring this one.", "mindx image list")
    if found is not None:
        return Check("image", "ok", f"{name}: {counted(len(found.packages), 'package')} of {found.distribution}")
    if system.can_set_up:
        return Check("image", "warn", f"{name} is not there yet", "The first run builds it (about a minute).", SETUP)
    return Check(
        "image",
        "fail",
        f"{name} is not there, and it cannot be built on {system.name}",
        "Build it on Debian or Ubuntu with `mindx image export`, then bring the file here.",
        f"mindx image import {name}.tar",
    )


def _next(checks: list[Check]) -> str:
    """Return the one command to type next."""
    for state in ("fail", "warn"):
        for check in checks:
            if check.state == state and check.command:
                return check.command
    return "mindx verify"
