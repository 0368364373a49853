"""What the tests of the wall share: programs for the container, and the engine's own view of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
import docker.errors

from mindx.core.command import Exec
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.engine import is_gone

MIB = 1 << 20
# A hopper forks, calls setsid and ends its parent, over and over, so that no list of processes is ever right.
HOPPER = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 60
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
"""
# Signals to whatever listens, from a process that lives on: kill(-1) and PID 1 by name.
STORM = """
import os, signal, time
print("on", flush=True)
while True:
    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCONT):
        for pid in (1, -1):
            try:
                os.kill(pid, number)
            except OSError:
                pass
"""


def sh(script: str, **settings: Any) -> Exec:
    return Exec(("sh", "-c", script), **settings)


def python(code: str, **settings: Any) -> Exec:
    return Exec(("python3", "-I", "-c", code), **settings)


def top(engine: docker.DockerClient, sandbox: DockerSandbox) -> list[str]:
    """Return the command line of each process of the container, as the engine sees it."""
    listed = engine.api.top(sandbox.container_id, "-eo pid,args")
    return [row[-1] for row in listed["Processes"]]


def only_ours(engine: docker.DockerClient, sandbox: DockerSandbox) -> bool:
    """Return whether nothing but PID 1 and its watchdog lives there."""
    listed = top(engine, sandbox)
    return len(listed) <= 2 and all("/mindx/guest" in line for line in listed)


def first_pid(engine: docker.DockerClient, sandbox: DockerSandbox) -> int:
    """Return PID 1's number on this machine."""
    return int(engine.api.inspect_container(sandbox.container_id)["State"]["Pid"])


def children(pid: int) -> list[int]:
    """Return the children of a process of this machine."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def exists(engine: docker.DockerClient, name: str) -> bool:
    try:
        engine.api.inspect_container(name)
    except docker.errors.APIError as error:
        if is_gone(error):
            return False
        raise
    return True


async def until(true: Callable[[], bool], within_s: float = 10) -> float:
    """Wait for what nothing announces, and return how long it took."""
    began = time.monotonic()
    while not await asyncio.to_thread(true):
        assert time.monotonic() - began < within_s, "it did not happen in time"
        await asyncio.sleep(0.01)
    return time.monotonic() - began


class Heard:
    """A listener that lets a test wait for the first output."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.data = b""

    def __call__(self, stream: str, data: bytes) -> None:
        self.data += data
        self._event.set()

    async def first(self, within_s: float = 20) -> bytes:
        await asyncio.wait_for(self._event.wait(), within_s)
        return self.data
