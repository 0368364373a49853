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


class SecondEngine:
    """The engine of one folder. It can be killed and started again, in the same namespaces, over the same state."""

    def __init__(self, folder: Path, runtimes: Mapping[str, str], live_restore: bool) -> None:
        self.address = f"unix://{folder}/engine.sock"
        self._folder = folder
        config = folder / "daemon.json"
        settings = {"runtimes": {name: {"path": path} for name, path in runtimes.items()}, "live-restore": live_restore}
        config.write_text(json.dumps(settings), "ascii")
        self._command = [
            *("dockerd", "--config-file", str(config), "--data-root", str(folder / "data")),
            *("--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid"), "--host", self.address),
            *("--bridge", "none", "--iptables=false", "--cgroup-parent", f"/{folder.name}"),
        ]
        # What holds the namespaces: with it all ends.
        hold = ("unshare", "-n", "-m", "-p", "--fork", "--mount-proc", "--kill-child", "sh", "-c", "echo on; sleep inf")
        self._holder = subprocess.Popen(hold, stdout=subprocess.PIPE, start_new_session=True)
        assert self._holder.stdout is not None
        self._holder.stdout.readline()
        self._holder.stdout.close()
        self._engine: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        first = next(pid for pid in _children(self._holder.pid))
        enter = ("nsenter", "-n", "-m", "-p", "-t", str(first))
        with open(self._folder / "log", "ab") as log:
            self._engine = subprocess.Popen([*enter, *self._command], stdout=log, stderr=log, start_new_session=True)
        _wait_until_it_answers(self._engine, self.address, self._folder / "log")

    def kill(self) -> None:
        """Kill the engine alone, as a crash does; its containerd and the containers live on."""
        assert self._engine is not None
        for pid in (*_children(self._engine.pid), self._engine.pid):
            os.kill(pid, signal.SIGKILL)
        self._engine.wait()
        (self._folder / "engine.sock").unlink(missing_ok=True)
        (self._folder / "pid").unlink(missing_ok=True)

    def end(self) -> None:
        """End it with all its processes."""
        os.killpg(self._holder.pid, signal.SIGKILL)
        self._holder.wait()
        if self._engine is not None:
            self._engine.wait()
        for group in Path("/sys/fs/cgroup").glob(f"**/{self._folder.name}"):
            with contextlib.suppress(OSError):
                group.rmdir()
        shutil.rmtree(self._folder, ignore_errors=True)


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextlib.contextmanager
def second_engine(runtimes: Mapping[str, str], *, live_restore: bool = False) -> Iterator[SecondEngine]:
    """Run an engine with these runtimes (name: path). It ends with all its processes."""
    engine = SecondEngine(Path(tempfile.mkdtemp(prefix="mindx-second-")), runtimes, live_restore)
    try:
        engine.start()
        yield engine
    finally:
        engine.end()


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
