"""What this machine is, and how an engine is installed on it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# What to type where mindx does not install by itself: by the ID or ID_LIKE of /etc/os-release.
_INSTALL = {
    "fedora": "sudo dnf install moby-engine && sudo systemctl enable --now docker",
    "arch": "sudo pacman -S docker && sudo systemctl enable --now docker",
    "suse": "sudo zypper install docker && sudo systemctl enable --now docker",
    "opensuse": "sudo zypper install docker && sudo systemctl enable --now docker",
    "alpine": "sudo apk add docker && sudo rc-update add docker && sudo service docker start",
}


@dataclass(frozen=True, slots=True)
class HostSystem:
    """`name` is for people. `can_set_up` is True where `mindx setup` installs the engine itself.

    `install` is what installs and starts an engine here: a command, or "" when there is no such command; then `advice`
    says it in words.
    """

    name: str
    can_set_up: bool
    install: str
    advice: str


def read_host_system() -> HostSystem:
    """Return what this machine is."""
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return host_system(sys.platform, text, os.uname().release, shutil.which("apt-get") is not None)


def host_system(platform: str, os_release: str, kernel: str, has_apt: bool) -> HostSystem:
    """Return what a machine is, from Python's name of the platform, /etc/os-release and the kernel's release. Pure."""
    if platform == "darwin":
        return HostSystem(
            "macOS",
            False,
            "",
            "Install Docker Desktop (or Colima) and start it; mindx finds its socket or its docker context. Images are "
            "built on Debian or Ubuntu: `mindx image export` there, `mindx image import` here.",
        )
    if platform != "linux":
        return HostSystem(platform, False, "", "mindx runs on Linux, on macOS, and on Windows inside WSL 2.")
    values = _values(os_release)
    name = values.get("PRETTY_NAME") or values.get("NAME") or "Linux"
    if "microsoft" in kernel.lower():
        name += " in WSL"
    ids = [values.get("ID", ""), *values.get("ID_LIKE", "").split()]
    if {"debian", "ubuntu"} & set(ids) and has_apt:
        return HostSystem(name, True, "mindx setup", "`mindx setup` installs and starts the distribution's engine.")
    for system_id in ids:
        if system_id in _INSTALL:
            command = _INSTALL[system_id]
            return HostSystem(name, False, command, f"Install the engine and start it: `{command}`.")
    advice = "Install Docker Engine the way your system does it, and start it; then run `mindx doctor` again."
    return HostSystem(name, False, "", advice)


def _values(text: str) -> Mapping[str, str]:
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip().strip("\"'") for name, value in pairs}
