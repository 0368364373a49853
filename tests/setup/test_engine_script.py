"""scripts/engine.py: what it says when there is no engine, and start and stop of one in namespaces of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import docker
import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/engine.py"


def engine_script(verb: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), verb],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


@pytest.mark.parametrize("host", ["tcp://127.0.0.1:1", "unix:///no/such/engine.sock", "no address"])
@pytest.mark.parametrize("verb", ["start", "status"])
def test_a_docker_host_that_does_not_answer_is_an_error(host: str, verb: str) -> None:
    done = engine_script(verb, DOCKER_HOST=host)
    assert done.returncode == 4
    assert host in done.stderr
    assert "Traceback" not in done.stderr


def test_an_engine_that_answers_is_left_alone(engine: docker.DockerClient, state_dir: Path) -> None:
    assert engine_script("start").returncode == 0
    assert engine_script("started").returncode == 1
    done = engine_script("stop")
    assert done.returncode == 0
    assert "nothing to stop" in done.stderr
    assert engine.ping()


def test_a_record_whose_number_went_to_another_process_ends_nothing(state_dir: Path) -> None:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    record = f'{{"how": "background", "pid": {os.getpid()}, "start": "1", "boot_id": "{boot_id}"}}'
    (state_dir / "engine").mkdir(parents=True)
    (state_dir / "engine/started.json").write_text(record)
    assert engine_script("stop").returncode == 0
    assert not (state_dir / "engine/started.json").exists()


def test_an_unknown_verb_is_a_usage_error() -> None:
    assert engine_script("restart").returncode == 2


# Everything at its usual path, but in namespaces where nothing of this machine's own engine is to be seen: it starts
# over a stale pid file and after a kill, and stops.
STORY = """
set -eu
mount -t tmpfs tmpfs /run
mount --bind "$1" /var/lib/docker
echo 99999999 > /run/docker.pid
"$2" "$3" start && "$2" "$3" status && "$2" "$3" started && echo started
kill -9 "$(cat /run/docker.pid)"
"$2" "$3" start && echo started again
"$2" "$3" stop && ! "$2" "$3" status && ! "$2" "$3" started && echo stopped
test -z "$(pgrep -x dockerd)" && echo gone
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("dockerd") is None or Path("/run/systemd/system").exists(),
    reason="needs root and dockerd, and a machine that is not run by systemd, which would start its own engine",
)
def test_an_engine_of_its_own_is_started_and_stopped(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    namespaces = ["unshare", "-n", "-m", "-p", "--fork", "--mount-proc", "--kill-child"]
    done = subprocess.run(
        [*namespaces, "bash", "-c", STORY, "bash", str(data), sys.executable, str(SCRIPT)],
        env={name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
        | {"MINDX_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.stdout.splitlines() == ["started", "started again", "stopped", "gone"], done.stderr


def test_an_engine_at_another_known_socket_is_enough(engine: docker.DockerClient, tmp_path: Path) -> None:
    (tmp_path / "docker.sock").symlink_to("/var/run/docker.sock")
    assert engine_script("status", XDG_RUNTIME_DIR=str(tmp_path), DOCKER_HOST="").returncode == 0


@pytest.mark.parametrize("verb", ["start", "status"])
def test_a_docker_context_that_does_not_answer_is_an_error_and_nothing_is_installed(verb: str, tmp_path: Path) -> None:
    done = engine_script(verb, DOCKER_HOST="", DOCKER_CONTEXT="gone", DOCKER_CONFIG=str(tmp_path))
    assert done.returncode == 4
    assert "the docker context gone" in done.stderr
    assert "Traceback" not in done.stderr
