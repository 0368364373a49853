"""A rootless engine under a user of its own: sessions start on it, with the gaps that such an engine has, told."""

from __future__ import annotations

import json
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
from tests.setup.started_engine import as_own_user, lacks_for_own_user, started

UID = 4322
STARTS_WITHIN_S = 60.0
SCRIPTS = (shutil.which("dockerd-rootless.sh") or "", "/usr/share/docker.io/contrib/dockerd-rootless.sh")
SCRIPT = next((path for path in SCRIPTS if path and os.path.exists(path)), None)
PROGRAMS = ("rootlesskit", "slirp4netns", "dockerd")
GAPS = "version: 1\nname: gaps\naccept_gaps: [{}]\ncommands:\n  - allow: [id, cat]\n"


def lacks() -> str:
    """Return why no rootless engine can be tried here, "" when nothing is known to be missing."""
    return "needs dockerd-rootless.sh" if SCRIPT is None else lacks_for_own_user(UID, PROGRAMS)


REASON = lacks()
pytestmark = [pytest.mark.skipif(bool(REASON), reason=REASON), pytest.mark.timeout(400)]  # it brings an image over


@pytest.fixture(scope="module")
def rootless() -> Iterator[str]:
    """The address of a rootless engine of a user that exists in its mount namespace only."""
    folder = Path(tempfile.mkdtemp(prefix="mindx-rootless-"))
    home = folder / "home"
    hold = as_own_user(
        folder, UID, ["sh", str(SCRIPT), "--data-root", str(home / "data"), "--exec-root", str(home / "exec")]
    )
    with started(hold, folder, f"unix://{home}/docker.sock", STARTS_WITHIN_S) as answering:
        yield answering


def test_sessions_start_and_what_the_engine_cannot_do_is_said(
    rootless: str, engine: docker.DockerClient, base_image: BaseImage, tmp_path: Path
) -> None:
    client = docker.DockerClient(base_url=rootless, timeout=120)
    client.api.load_image(engine.api.get_image(reference_of("python")))
    limits = bool(client.info()["MemoryLimit"])
    client.close()
    environ = os.environ | {"DOCKER_HOST": rootless, "MINDX_STATE_DIR": str(tmp_path / "state")}

    def mindx(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mindx.cli.main", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environ, stdin=subprocess.DEVNULL)

    policy = tmp_path / "gaps.yaml"
    policy.write_text(GAPS.format("memory, swap, pids, cpuset"))
    # Without control groups of version 2 such an engine limits nothing, and mindx refuses until the policy accepts it.
    strict = mindx("exec", "--", "id", "-u")
    assert (strict.returncode == 0) is limits, strict.stderr
    if not limits:
        assert "memory limit: asked" in strict.stderr
        assert "accept_gaps: [memory]" in strict.stderr
        assert "/dev/null" not in strict.stderr  # what hides files and the six devices is no difference
    done = mindx("exec", "--policy", str(policy), "--json", "--", "cat", "/proc/self/uid_map", "/proc/keys")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["stdout"].split()[:2] == ["0", str(UID)]  # root inside is that user outside
    assert len(document["stdout"].splitlines()) == 2  # /proc/keys is hidden: nothing is in it
    assert set(document["accepted_gaps"]) == (set() if limits else {"memory", "swap", "pids"})
