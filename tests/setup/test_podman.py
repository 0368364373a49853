"""Podman 4.3, the one of Debian 12: its API does not take what the wall needs; that is said before anything runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from mindx.sandbox.base_image import reference_of
from mindx.sandbox.image_records import BaseImage
from tests.setup.started_engine import started

STARTS_WITHIN_S = 30.0


def lacks() -> str:
    """Return why Podman cannot be tried here, "" when it can."""
    if os.geteuid() != 0:
        return "needs root, for a Podman with folders of its own"
    if shutil.which("podman") is None:
        return "needs podman"
    version = subprocess.run(["podman", "--version"], capture_output=True, text=True).stdout.split()[-1]
    return "" if version.startswith("4.3.") else f"is about Podman 4.3; this is {version}"


REASON = lacks()
pytestmark = [pytest.mark.skipif(bool(REASON), reason=REASON), pytest.mark.timeout(400)]  # it brings an image over


@pytest.fixture(scope="module")
def podman() -> Iterator[str]:
    """The address of a Podman with a storage folder and a mount namespace of its own."""
    folder = Path(tempfile.mkdtemp(prefix="mindx-podman-"))
    address = f"unix://{folder}/s"
    options = ["--root", str(folder / "root"), "--runroot", str(folder / "run"), "--cgroup-manager", "cgroupfs"]
    command = ["unshare", "-m", "podman", *options, "system", "service", "-t", "0", address]
    # Without the right to raise limits Podman starts nothing unless it is told of lower ones.
    (folder / "containers.conf").write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n')
    environ = os.environ | {"CONTAINERS_CONF": str(folder / "containers.conf")}
    with started(command, folder, address, STARTS_WITHIN_S, environ) as answering:
        yield answering


def test_a_session_is_refused_clearly_and_leaves_nothing(
    podman: str, engine: docker.DockerClient, base_image: BaseImage, tmp_path: Path
) -> None:
    client = docker.DockerClient(base_url=podman, timeout=120)
    client.api.load_image(engine.api.get_image(reference_of("python")))
    environ = os.environ | {"DOCKER_HOST": podman, "MINDX_STATE_DIR": str(tmp_path / "state")}

    def mindx(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mindx.cli.main", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environ, stdin=subprocess.DEVNULL)

    done = mindx("exec", "--", "true")
    assert done.returncode == 125
    assert "does not take what mindx must ask of it (Podman 4.3 does not)" in done.stderr
    assert "docs/engines.md" in done.stderr
    assert client.api.containers(all=True) == []
    assert client.api.volumes()["Volumes"] in (None, [])
    client.close()
    told = mindx("doctor")
    assert (told.returncode != 0, "Podman" in told.stdout) == (True, True), told.stdout
