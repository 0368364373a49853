"""The command line's figures: whole processes, cold, against a bare Python and the docker client's own `run --rm`."""

from __future__ import annotations

import compileall
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import Any

import mindx

PYTHON = (sys.executable, "-c", "pass")
MINDX = (str(Path(sys.executable).with_name("mindx")),)
STEPS = 200


def compile_package() -> None:
    """Compile mindx as its installation does: where Python may write no bytecode it would be compiled in every run."""
    compileall.compile_dir(Path(mindx.__file__).parent, quiet=1)


def run_cold(argv: Sequence[str]) -> None:
    """Run a program to its end. Raises RuntimeError when it fails."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)[:80]} ended with {done.returncode}: {done.stderr[-200:]!r}")


def write_plan(path: Path) -> Path:
    """Write a plan of 200 steps that all differ and are all in order."""
    argvs = (["python3", "-c", f"print({number})"] for number in range(STEPS))
    params = ({"tool_id": "simple_coder", "command": "run", "argv": argv} for argv in argvs)
    path.write_text(json.dumps([{"type": "EXECUTE_TOOL", "params": one} for one in params]))
    return path


def docker_run(host: Mapping[str, Any], image_id: str, folder: Path) -> list[str]:
    """Return `docker run --rm ... true` with the limits of a session's own container; `host` is its HostConfig."""
    program = which("docker")
    if program is None:
        raise RuntimeError("the docker client is not installed")
    options = ["--rm", "--entrypoint", "true", "--user", "0:0", "--hostname", "mindx", "--no-healthcheck"]
    for name, key in (("network", "NetworkMode"), ("ipc", "IpcMode"), ("cgroupns", "CgroupnsMode")):
        options += [f"--{name}", str(host[key])]
    for number, option in enumerate(host["SecurityOpt"]):
        if option.startswith("seccomp="):
            profile = folder / f"seccomp-{number}.json"
            profile.write_text(option.removeprefix("seccomp="))
            option = f"seccomp={profile}"
        options += ["--security-opt", option]
    for name, values in (("cap-drop", host["CapDrop"]), ("cap-add", host["CapAdd"])):
        options += [part for value in values for part in (f"--{name}", value)]
    for path, mount in host["Tmpfs"].items():
        options += ["--tmpfs", f"{path}:{mount}"]
    for limit in host["Ulimits"]:
        options += ["--ulimit", f"{limit['Name']}={limit['Soft']}:{limit['Hard']}"]
    for name, key in (("memory", "Memory"), ("memory-swap", "MemorySwap"), ("pids-limit", "PidsLimit")):
        options += [f"--{name}", str(host[key])]
    options += ["--cpuset-cpus", host["CpusetCpus"], "--cpu-shares", str(host["CpuShares"])]
    options += ["--shm-size", str(host["ShmSize"]), "--oom-score-adj", str(host["OomScoreAdj"])]
    options += [part for name, value in host["Sysctls"].items() for part in ("--sysctl", f"{name}={value}")]
    return [program, "run", *options, "--read-only", "--log-driver", "none", image_id]
