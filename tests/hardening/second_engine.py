"""A second engine of the same machine, in namespaces of its own, with runtimes that work, fail and hang."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import docker

from mindx.sandbox.image import DerivedImage

STARTS_WITHIN_S = 40.0
LACKS = next(
    (
        reason
        for lacking, reason in (
            (os.geteuid() != 0, "a second engine needs root"),
            (shutil.which("dockerd") is None, "a second engine needs dockerd on this machine"),
            (shutil.which("runc") is None, "a second engine needs runc on this machine"),
        )
        if lacking
    ),
    "",
)


@contextlib.contextmanager
def second_engine(runtimes: Mapping[str, str]) -> Iterator[str]:
    """Run an engine with these runtimes (name: path) and yield its address. It ends with all its processes."""
    folder = Path(tempfile.mkdtemp(prefix="mindx-second-"))
    config = folder / "daemon.json"
    config.write_text(json.dumps({"runtimes": {name: {"path": path} for name, path in runtimes.items()}}), "ascii")
    address = f"unix://{folder}/engine.sock"
    command = [
        *("unshare", "-n", "-m", "-p", "--fork", "--mount-proc", "--kill-child", "dockerd"),
        *("--config-file", str(config), "--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
        *("--pidfile", str(folder / "pid"), "--host", address, "--bridge", "none", "--iptables=false"),
        *("--cgroup-parent", f"/{folder.name}"),
    ]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_until_it_answers(process, address, folder / "log")
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for group in Path("/sys/fs/cgroup").glob(f"**/{folder.name}"):
            with contextlib.suppress(OSError):
                group.rmdir()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_it_answers(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(address.removeprefix("unix://"))
            return
        time.sleep(0.1)  # there is no event to wait for: the socket does not exist yet
    raise RuntimeError(f"the second engine did not start: {log.read_text('utf-8', 'replace')[-2000:]}")


def bring(image: DerivedImage, source: docker.DockerClient, target: docker.DockerClient) -> None:
    """Copy an image from one engine to the other."""
    target.api.load_image(source.api.get_image(image.image_id))
