"""An engine that a test starts for itself: waited for until it answers, gone with its processes and its folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import docker
import pytest


@contextlib.contextmanager
def started(
    command: Sequence[str], folder: Path, address: str, within_s: float, env: dict[str, str] | None = None
) -> Iterator[str]:
    """Run an engine whose files lie in `folder` and give its address; skip the test where it does not start."""
    with open(folder / "log", "wb") as log:
        # In its folder: a Podman leaves files where it stands, such as `oom`.
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env, cwd=folder, start_new_session=True
        )
    try:
        deadline = time.monotonic() + within_s
        while not _answers(address):
            if process.poll() is not None or time.monotonic() > deadline:
                said = (folder / "log").read_text("utf-8", "replace").strip().splitlines()
                pytest.skip(f"the engine does not start here: {said[-1] if said else 'it said nothing'}")
            time.sleep(0.1)  # there is no event to wait for: the socket does not exist yet
        yield address
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def as_own_user(folder: Path, uid: int, command: Sequence[str]) -> list[str]:
    """Return a command that runs `command` as a user who exists in a mount namespace of its own only.

    Its home, `home` in `folder`, is made. With the command all that it started ends.
    """
    folder.chmod(0o755)
    home = folder / "home"
    home.mkdir()
    os.chown(home, uid, uid)
    (folder / "passwd").write_text(Path("/etc/passwd").read_text() + f"rootless:x:{uid}:{uid}::{home}:/bin/sh\n")
    (folder / "group").write_text(Path("/etc/group").read_text() + f"rootless:x:{uid}:\n")
    binds = []
    for name in ("passwd", "group", "subuid", "subgid"):
        if name.startswith("sub"):
            (folder / name).write_text("rootless:200000:65536\n")
        Path("/etc", name).touch()
        binds.append(f"mount --bind {folder / name} /etc/{name}")
    environ = [f"HOME={home}", f"XDG_RUNTIME_DIR={home}", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/bin"]
    start = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "env", "-i", *environ, *command]
    script = " && ".join([*binds, f"cd {home}", 'exec "$@"'])
    return ["unshare", "-m", "-p", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "sh", *start]


def lacks_for_own_user(uid: int, programs: Sequence[str]) -> str:
    """Return why as_own_user or what it is to run cannot be tried here, "" when nothing is known to be missing."""
    if os.geteuid() != 0:
        return "needs root, to become a user of its own"
    missing = [name for name in ("newuidmap", "setpriv", *programs) if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    tried = subprocess.run([*drop, "unshare", "-U", "-r", "true"], capture_output=True, text=True)
    return f"users may not make namespaces here: {tried.stderr.strip()}" if tried.returncode else ""


def _answers(address: str) -> bool:
    if not os.path.exists(address.removeprefix("unix://")):
        return False
    try:
        docker.DockerClient(base_url=address, timeout=10).close()
    except docker.errors.DockerException:
        return False
    return True
