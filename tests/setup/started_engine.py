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
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env, start_new_session=True
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


def _answers(address: str) -> bool:
    if not os.path.exists(address.removeprefix("unix://")):
        return False
    try:
        docker.DockerClient(base_url=address, timeout=10).close()
    except docker.errors.DockerException:
        return False
    return True
