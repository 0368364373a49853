#!/usr/bin/env python3
"""Sees to it that a container engine answers: `engine.py start|stop|status|started|plan`.

Standard library only, since it runs before anything is installed. A DOCKER_HOST that is set is used or is an error.
Else the default socket; else, on Debian or Ubuntu, the distribution's own engine is installed and started. `stop` ends
only what `start` has started. `plan` prints what `start` would install, nothing when all is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from engine_answer import SOCKET, answer, context
from engine_process import (
    Fault,
    boot_id,
    end_process,
    engine_dir,
    hand_to_caller,
    is_alive,
    live_process,
    read_record,
    remove_record,
    start_time,
    state_dir,
    tail,
    write_record,
)

ENGINE_PID_FILE = Path("/var/run/docker.pid")
CONTAINERD_PID_FILE = Path("/var/run/docker/containerd/containerd.pid")
# The program that shows that a package is there, and the package: all that mindx needs from the distribution.
PACKAGES = {
    "dockerd": "docker.io",
    "mmdebstrap": "mmdebstrap",
    "gpg": "gpg",
    "update-ca-certificates": "ca-certificates",
}
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_TIMEOUT_S = 60
# One try: an engine that has not answered by then has met something left behind.
TRY_TIMEOUT_S = 25


def main() -> int:
    verbs = {"start": start, "stop": stop, "status": status, "started": started, "plan": plan}
    if len(sys.argv) != 2 or sys.argv[1] not in verbs:
        print(f"usage: {sys.argv[0]} {'|'.join(verbs)}", file=sys.stderr)
        return 2
    os.environ["PATH"] = os.environ.get("PATH", "") + ":" + SEARCH_PATH
    try:
        return verbs[sys.argv[1]]()
    except Fault as fault:
        print(f"engine: {fault}", file=sys.stderr)
        return 4
    except KeyboardInterrupt:
        print("engine: interrupted", file=sys.stderr)
        return 130


def say(text: str) -> None:
    print(f"engine: {text}", file=sys.stderr, flush=True)


# is it there?


def status() -> int:
    why = answer()
    place = os.environ.get("DOCKER_HOST") or str(SOCKET)
    say(f"{place} does not answer: {why}" if why else f"{place} answers")
    return 4 if why else 0


# start


def start() -> int:
    why = answer()
    host = os.environ.get("DOCKER_HOST", "")
    if host:
        if why:
            raise Fault(
                f"the engine that DOCKER_HOST names ({host}) does not answer: {why}. "
                "Start it, or unset DOCKER_HOST to use one on this machine."
            )
        install_missing([name for name in missing_packages() if name != "docker.io"])
        return 0
    try:
        named = context()
    except Exception as error:
        raise Fault(str(error)) from error
    if named and why:
        raise Fault(
            f"the engine of {named}, does not answer: {why}. "
            "Start it, or `docker context use default` to use one on this machine."
        )
    if why == "permission denied" and os.geteuid() != 0:
        raise Fault(
            f"this user may not use {SOCKET}. Run the same command with sudo, or let an administrator add you to the "
            "group that owns the socket (whoever is in that group is root)."
        )
    if not why:
        install_missing([name for name in missing_packages() if name != "docker.io"])
        return 0
    packages = missing_packages()
    if not is_debian() and packages:
        raise Fault(
            "no engine answers, and this is neither Debian nor Ubuntu, so it cannot be set up from here. Install "
            "Docker Engine (or Docker Desktop) the way your system does it, start it, and run this again."
        )
    if os.geteuid() != 0:
        return start_with_sudo(packages)
    install_missing(packages)
    if answer():
        start_by_systemd() if has_systemd() else start_in_background()
    say("it answers")
    return 0


def start_with_sudo(packages: list[str]) -> int:
    if shutil.which("sudo") is None:
        what = f"install {', '.join(packages)} and start" if packages else "start"
        raise Fault(f"to {what} the engine takes root, and there is no sudo. Run the same command as root.")
    confirm(packages)
    say("starting it takes root: asking sudo")
    environ = ["YES=1", f"MINDX_STATE_DIR={state_dir()}"]
    done = subprocess.run(["sudo", "--", "env", *environ, sys.executable, os.path.abspath(__file__), "start"])
    if done.returncode == 0 and answer() == "permission denied":
        raise Fault(f"the engine runs, but this user may not use {SOCKET}. Run the same command with sudo.")
    return done.returncode


def is_debian() -> bool:
    try:
        lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    words = " ".join(line.split("=", 1)[1].strip("\"'") for line in lines if line.startswith(("ID=", "ID_LIKE=")))
    return bool({"debian", "ubuntu"} & set(words.split())) and shutil.which("apt-get") is not None


def has_systemd() -> bool:
    return Path("/run/systemd/system").is_dir()


def missing_packages() -> list[str]:
    if not is_debian():
        return [] if shutil.which("dockerd") else ["docker.io"]
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if shutil.which("dockerd") is None:
        # Where the kernel has AppArmor on, the engine starts no container without its parser.
        flag = Path("/sys/module/apparmor/parameters/enabled")
        if flag.exists() and flag.read_text().strip() == "Y" and shutil.which("apparmor_parser") is None:
            missing.append("apparmor")
    if not has_cgroups() and not has_systemd() and shutil.which("cgroupfs-mount") is None:
        missing.append("cgroupfs-mount")
    return missing


def has_cgroups() -> bool:
    root = Path("/sys/fs/cgroup")
    return (root / "cgroup.controllers").exists() or (root / "memory").is_dir()


def plan() -> int:
    packages = missing_packages()
    if os.environ.get("DOCKER_HOST") or not answer():
        packages = [name for name in packages if name != "docker.io"]
    print(" ".join(packages))
    return 0


def confirm(packages: list[str]) -> None:
    if not packages:
        return
    say(f"will install these packages of the distribution: {' '.join(packages)}")
    if os.environ.get("YES") != "1" and sys.stdin.isatty():
        print("engine: go on? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Fault("stopped, nothing was installed. YES=1 answers the question.")


def install_missing(packages: list[str]) -> None:
    if not packages:
        return
    if not is_debian():
        say(f"not installed, and needed to build images: {' '.join(packages)}")
        return
    confirm(packages)
    prefix = [] if os.geteuid() == 0 else ["sudo", "--"]
    if prefix and shutil.which("sudo") is None:
        raise Fault(f"to install {' '.join(packages)} takes root, and there is no sudo. Run the same command as root.")
    quiet = [
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "NEEDRESTART_MODE=l",
        "apt-get",
        "-q",
        "-o",
        "DPkg::Lock::Timeout=120",
    ]
    # A source of someone else that is out of order does not matter if the packages can be had all the same.
    subprocess.run([*prefix, *quiet, "update"], stdin=subprocess.DEVNULL, stdout=sys.stderr)
    command = [*prefix, *quiet, "install", "-y", "--no-install-recommends", *packages]
    if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode != 0:
        raise Fault(
            f"apt-get could not install {' '.join(packages)}: its reason stands above. "
            "Mend it (network, package sources, disk space), then run the same command again."
        )
    lacking = [program for program, package in PACKAGES.items() if package in packages and not shutil.which(program)]
    if lacking:
        raise Fault(f"apt-get has installed {' '.join(packages)}, but there is still no {', '.join(lacking)}.")


def start_by_systemd() -> None:
    say("starting it by systemd")
    done = subprocess.run(["systemctl", "start", "docker"], stdin=subprocess.DEVNULL, stdout=sys.stderr)
    deadline = time.monotonic() + START_TIMEOUT_S
    while done.returncode == 0 and time.monotonic() < deadline:
        if not answer():
            write_record({"how": "systemd", "boot_id": boot_id()})
            return
        time.sleep(0.2)
    raise Fault("systemd could not start the engine. `journalctl -u docker` tells why.")


def start_in_background() -> None:
    """Start dockerd; when it does not come up, clear what an earlier one left and try again, 60 s in all."""
    deadline = time.monotonic() + START_TIMEOUT_S
    if not has_cgroups() and shutil.which("cgroupfs-mount"):
        subprocess.run(["cgroupfs-mount"], stdin=subprocess.DEVNULL)
    # A package's own start script, or someone else, may be just ahead of us.
    other = live_process(ENGINE_PID_FILE, "dockerd")
    while other is not None and is_alive(other) and time.monotonic() < deadline:
        if not answer():
            return
        time.sleep(0.1)
    log_path = engine_dir() / "dockerd.log"
    engine_dir().mkdir(parents=True, exist_ok=True)
    hand_to_caller(engine_dir())
    say(f"starting it in the background; its log is {log_path}")
    while time.monotonic() < deadline:
        clear_stale_engine()
        with open(log_path, "ab") as log:
            process = subprocess.Popen(
                ["dockerd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
            )
        record = {"how": "background", "pid": process.pid, "start": start_time(process.pid), "boot_id": boot_id()}
        write_record(record)
        try_deadline = min(deadline, time.monotonic() + TRY_TIMEOUT_S)
        if wait_for_answer(try_deadline, process):
            return
        end_process(process.pid, reap=process)
        remove_record()
        clear_stale_containerd()
        say("it did not come up: clearing what was left behind and trying again")
        time.sleep(1)
    raise Fault(
        f"the engine did not answer within {START_TIMEOUT_S} s. Its last words, from {log_path}:\n{tail(log_path)}"
    )


def wait_for_answer(deadline: float, process: subprocess.Popen) -> bool:
    while time.monotonic() < deadline and process.poll() is None:
        if not answer():
            return True
        time.sleep(0.1)
    return False


def clear_stale_engine() -> None:
    """Remove a pid file that names no living dockerd: the number may belong to another process by now."""
    if ENGINE_PID_FILE.exists() and live_process(ENGINE_PID_FILE, "dockerd") is None:
        say(f"removing the stale {ENGINE_PID_FILE}")
        ENGINE_PID_FILE.unlink(missing_ok=True)
    if CONTAINERD_PID_FILE.exists() and live_process(CONTAINERD_PID_FILE, "containerd") is None:
        say(f"removing the stale {CONTAINERD_PID_FILE}")
        CONTAINERD_PID_FILE.unlink(missing_ok=True)


def clear_stale_containerd() -> None:
    """End the containerd of a dockerd that is gone. It is told by its pid file, so another's is never touched."""
    left = live_process(CONTAINERD_PID_FILE, "containerd")
    if left is not None and live_process(ENGINE_PID_FILE, "dockerd") is None:
        say(f"ending a containerd that was left behind (pid {left})")
        end_process(left)
    clear_stale_engine()


# stop


def stop() -> int:
    record = read_record()
    if not is_ours_alive(record):
        remove_record()
        say("nothing to stop: no engine runs that `make engine` has started")
        return 0
    if os.geteuid() != 0:
        if shutil.which("sudo") is None:
            raise Fault("the engine belongs to root, and there is no sudo. Run the same command as root.")
        environ = [f"MINDX_STATE_DIR={state_dir()}"]
        return subprocess.run(
            ["sudo", "--", "env", *environ, sys.executable, os.path.abspath(__file__), "stop"]
        ).returncode
    if record["how"] == "systemd":
        if subprocess.run(["systemctl", "stop", "docker.socket", "docker"], stdout=sys.stderr).returncode != 0:
            raise Fault("systemd could not stop the engine. `journalctl -u docker` tells why.")
    else:
        end_process(record["pid"])
    remove_record()
    say("stopped")
    return 0


def started() -> int:
    """Exit 0 when an engine runs that `start` has started."""
    return 0 if is_ours_alive(read_record()) else 1


def is_ours_alive(record: dict) -> bool:
    if record.get("boot_id") != boot_id():
        return False
    if record.get("how") == "systemd":
        return subprocess.run(["systemctl", "is-active", "--quiet", "docker"]).returncode == 0
    pid = record.get("pid", 0)
    return is_alive(pid) and start_time(pid) == record.get("start")


if __name__ == "__main__":
    sys.exit(main())
