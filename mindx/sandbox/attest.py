"""Asked and effective: what the engine says and what the guest sees (comparison.py) is compared with what was asked.

Any difference refuses the session, unless the policy accepts that very gap. An engine can ignore a limit with a warning
that nobody reads, and an engine's word is not the kernel's: each control is checked where it can be seen best.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mindx.core.frozen import dataclass
from mindx.errors import SandboxError
from mindx.sandbox import seccomp
from mindx.sandbox.comparison import MOUNT_FLAGS, NOT_KNOWN, Difference, compare_inside
from mindx.sandbox.container import ContainerSettings

WARNING = "the engine's warning"
LONG_FACTS = {"mounts", "kernel_names"}
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
        *compare_inside(settings, asked.cpuset, facts),
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
