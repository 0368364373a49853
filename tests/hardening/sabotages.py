"""What makes each probe of `mindx verify` red: one or more sabotages of the control behind it.

A container's control is taken away in what is asked of the engine. What PID 1 does is altered in a copy of the guest
that is mounted over the image's own, which leaves nothing behind. Two promises are kept on the host alone, where
neither reaches: the policy's say (the driver is altered) and a killed mindx (its program is).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mindx.policy.model import Limits
from mindx.sandbox import probes_host
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.driver import Driver

GUEST = Path(__file__).resolve().parents[2] / "mindx" / "guest"
Change = Callable[[dict[str, Any]], None]
Patch = tuple[str, str, str]  # a module of the guest, what stands there, what is put in its place

# In front of the program that the orphan probe kills. Without labels no other mindx of this machine sweeps it up.
ALTERED_MINDX = """
from mindx.sandbox import container
true = container.create_request
def altered(*arguments):
    request = true(*arguments)
    request["HostConfig"].update({host!r})
    return {{**request, "Labels": {{}}}}
container.create_request = altered
"""


@dataclass(frozen=True)
class Sabotage:
    """One way to break a promise, and a piece of what its probe must then say."""

    says: str
    host: Change | None = None  # alters HostConfig
    request: Change | None = None  # alters the whole request
    guest: tuple[Patch, ...] = ()
    ours: Callable[[pytest.MonkeyPatch, Path], None] | None = None  # alters the host's part
    settings: ContainerSettings = field(default_factory=ContainerSettings)
    cpus: int = 1  # how many this machine must have for it


def altered_guest(folder: Path, patches: tuple[Patch, ...]) -> dict[str, Any]:
    """Return the HostConfig that puts an altered copy of the guest, made below `folder`, over the image's own."""
    copy = folder / "guest"
    shutil.copytree(GUEST, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, old, new in patches:
        text = (copy / name).read_text("utf-8")
        assert old in text, f"{name} has no {old!r} any more: the sabotage would do nothing"
        (copy / name).write_text(text.replace(old, new), "utf-8")
    copy.chmod(0o755)
    return {"Binds": [f"{copy}:/mindx/guest:ro"]}


def put(key: str, value: Any) -> Change:
    def change(host: dict[str, Any]) -> None:
        host[key] = value

    return change


def unlimited(point: str) -> Change:
    def change(host: dict[str, Any]) -> None:
        host["Tmpfs"] = {**host["Tmpfs"], point: "rw,exec,nosuid,nodev,mode=1777"}

    return change


def no_memory_limit(host: dict[str, Any]) -> None:
    host["Memory"] = host["MemorySwap"] = 0


def told_name(host: dict[str, Any]) -> None:
    host.update(NetworkMode="bridge", ExtraHosts=["canary.invalid:192.0.2.1"])


def hosts_environment(request: dict[str, Any]) -> None:
    request["Env"] = [f"{name}={value}" for name, value in os.environ.items()]


def hosts_folder(request: dict[str, Any]) -> None:
    request["Cmd"] = [str(Path.home() / "plans")]


def somebody_at_home(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.setenv("HOME", "/home/canary-of-the-test")


def careless_driver(method: str) -> Callable[[pytest.MonkeyPatch, Path], None]:
    """Let one way into the container forget the policy."""

    def change(patch: pytest.MonkeyPatch, _: Path) -> None:
        async def unasked(self: Driver, command: Any) -> Any:
            return await getattr(self._sandbox, method)(command)

        patch.setattr(Driver, method, unasked)

    return change


def mindx_that_keeps_its_container(patch: pytest.MonkeyPatch, _: Path) -> None:
    program = ALTERED_MINDX.format(host={"AutoRemove": False}) + probes_host._ORPHAN
    patch.setattr(probes_host, "_ORPHAN", program)


def mindx_whose_guest_lives_on(patch: pytest.MonkeyPatch, folder: Path) -> None:
    deaf = (
        "supervisor.py",
        "if frames is None:\n            return False",
        "if frames is None:\n            return True",
    )
    program = ALTERED_MINDX.format(host=altered_guest(folder, (deaf,))) + probes_host._ORPHAN
    patch.setattr(probes_host, "_ORPHAN", program)


ROOT = (("identity.py", "os.setresuid(uid, uid, 0)", "os.setresuid(0, 0, 0)"),)
NEVER_SWEPT = (("crew.py", "        return processes.sweep(", "        return []\n        return processes.sweep("),)
SAID_TO_BE_SWEPT = (
    ("crew.py", "        return processes.sweep(", "        return [(99, b'x')]\n        return processes.sweep("),
)
UNCONFINED = put("SecurityOpt", ["no-new-privileges:true", "seccomp=unconfined"])

SABOTAGES: dict[str, tuple[Sabotage, ...]] = {
    "attested": (Sabotage("oom_score_adj", host=put("OomScoreAdj", 0)),),
    "user": (
        Sabotage("uid 0", guest=ROOT),
        Sabotage("groups [4]", guest=(("supervisor.py", "os.setgroups([])", "os.setgroups([4])"),)),
        Sabotage("its own are", guest=(("identity.py", "return self.uid + slot", "return self.uid + slot + 1"),)),
    ),
    "rights": (Sabotage("setuid 0 (ok)", guest=ROOT),),
    "setuid": (Sabotage("chmod (ok)", host=put("SecurityOpt", ["seccomp=unconfined"])),),
    "calls": (Sabotage("clone user (ok), clone3 (ok)", host=UNCONFINED),),
    "sockets": (Sabotage("AF_ALG (", host=UNCONFINED),),
    "guest": (Sabotage("SIGSTOP (ok)", guest=ROOT),),
    "namespaces": (Sabotage("ipc", host=put("IpcMode", "host")),),
    "network": (Sabotage("reached the host", host=put("NetworkMode", "bridge")),),
    "names": (Sabotage("a name was resolved", host=told_name),),
    "writing": (Sabotage("written: /", host=put("ReadonlyRootfs", False)),),
    "kernel-files": (Sabotage("/proc/interrupts", host=put("MaskedPaths", [])),),
    "secrets": (
        Sabotage("environment is visible", request=hosts_environment),
        Sabotage(
            "environment is visible",
            request=hosts_environment,
            guest=(("spawn.py", "BASE_ENV = {\n", "BASE_ENV = {\n    **os.environb,\n"),),
        ),
    ),
    "paths": (Sabotage("/home/canary-of-the-test", request=hosts_folder, ours=somebody_at_home),),
    "doors": (
        Sabotage(
            "/dev/mem",
            host=put("Devices", [{"PathOnHost": "/dev/mem", "PathInContainer": "/dev/mem", "CgroupPermissions": "r"}]),
        ),
    ),
    "logs": (Sabotage("the engine's log has it", host=put("LogConfig", {"Type": "json-file", "Config": {}})),),
    "links": (
        Sabotage("read through .mindx-link", guest=(("files.py", "os.O_NOFOLLOW", "0"),)),
        Sabotage(
            "read through .mindx-folder/.mindx-file",
            guest=(("files.py", "FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW", "FOLDER = os.O_RDONLY"),),
        ),
    ),
    "pipes": (
        Sabotage("it hung", guest=(("files.py", "os.O_NOFOLLOW | os.O_NONBLOCK", "os.O_NOFOLLOW"),)),
        Sabotage("read as a file", guest=(("files.py", "if not stat.S_ISREG(seen.st_mode):", "if False:"),)),
    ),
    "orphan": (
        Sabotage("still there", ours=mindx_that_keeps_its_container),
        Sabotage("still there", ours=mindx_whose_guest_lives_on),
    ),
    "memory": (Sabotage("it ended by exit", host=no_memory_limit),),
    "memory-hidden": (
        Sabotage(
            "it ended by exit",
            guest=(("command.py", "elif record.oom_kills:", "elif record.oom_kills and not exited:"),),
        ),
    ),
    "swap": (Sabotage("the limit of memory and swap", host=put("MemorySwap", -1)),),
    "processes": (Sabotage("processes started", host=put("PidsLimit", 4096)),),
    "fork-bomb": (Sabotage("not tried", host=put("PidsLimit", 4096)),),
    "workspace-size": (Sabotage("bytes fit into /workspace", host=unlimited("/workspace")),),
    "tmp-size": (Sabotage("bytes fit into /tmp", host=unlimited("/tmp")),),
    "shm-size": (Sabotage("bytes fit into /dev/shm", host=unlimited("/dev/shm")),),
    "open-files": (Sabotage("open files; the limit", host=put("Ulimits", [])),),
    "core": (Sabotage("core", host=put("Ulimits", [])),),
    "segments": (Sabotage("the next command found it", host=put("Sysctls", {"kernel.shm_rmid_forced": "0"})),),
    "cpus": (
        Sabotage("CPUs; the limit", host=put("CpusetCpus", ""), settings=ContainerSettings(Limits(cpus=1)), cpus=2),
    ),
    "deadline": (
        Sabotage(
            "it took",
            guest=(
                ("crew.py", "if now >= command.deadline_ns:", "if now >= command.deadline_ns + 1_500_000_000:"),
                ("watchdog.py", "GRACE_NS = 250_000_000", "GRACE_NS = 5_000_000_000"),
            ),
        ),
        Sabotage(
            "output is missing",
            guest=(("streams.py", "self._connection.send(wire.OUT", "(lambda *_: None)(wire.OUT"),),
        ),
    ),
    "leftovers": (
        Sabotage("nothing that was killed", guest=NEVER_SWEPT),
        Sabotage("FORGED", guest=SAID_TO_BE_SWEPT),
    ),
    "forging": (Sabotage("FORGED: all passed", guest=NEVER_SWEPT),),
    "exit": (
        Sabotage("exit code 0", guest=(("command.py", "= os.WEXITSTATUS(status)", "= 0"),)),
        Sabotage(
            "protocol_broken", guest=(("command.py", "CAUSE_EXIT if exited else records.CAUSE_SIGNAL", "CAUSE_EXIT"),)
        ),
    ),
    "output": (
        Sabotage(
            "bytes were counted",
            guest=(("streams.py", "self.total += len(data)", "self.total += len(data) if self._head_left else 0"),),
        ),
        Sabotage(
            "the digest", guest=(("streams.py", "._hash.update(data)", "._hash.update(data[: self._head_left])"),)
        ),
    ),
    "policy": tuple(
        Sabotage(what, ours=careless_driver(method))
        for method, what in {
            "execute": "a program",
            "start_background": "a program beside the others, a program without a deadline",
            "make_dir": "making a folder",
            "write_file": "writing",
            "read_file": "reading",
            "list_dir": "listing",
            "stat": "looking",
            "remove": "removing",
        }.items()
    ),
}
