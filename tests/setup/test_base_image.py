"""The base image on the real engine: what is in it, that it is kept, and how a build fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import docker
import pytest

from mindx.errors import ImageError
from mindx.sandbox.base_image import ensure_base, find_base, rebuild_base
from mindx.sandbox.image_records import BaseImage, read_records


def run(engine: docker.DockerClient, image_id: str, *argv: str) -> str:
    output = engine.containers.run(
        image_id, list(argv), remove=True, network_mode="none", user="1000:1000", stderr=True, entrypoint=[]
    )
    return output.decode()


def test_the_programs_that_a_plan_needs_are_there(engine: docker.DockerClient, base_image: BaseImage) -> None:
    script = """
        set -eu
        python -c 'import sys, ssl, sqlite3, venv, ensurepip; assert sys.version_info >= (3, 8)'
        python3 -m pip --version
        for program in bash git grep find sed tar ls cat env sort; do command -v $program; done
        cd /tmp && git init -q probe && cd probe
        git -c user.name=x -c user.email=x@example.invalid commit -q --allow-empty -m first && git log --oneline
        python -m venv /tmp/venv && /tmp/venv/bin/python -c 'import sys; assert sys.prefix == "/tmp/venv"'
    """
    assert "first" in run(engine, base_image.image_id, "bash", "-c", script)


def test_what_a_plan_does_not_need_is_not_there(engine: docker.DockerClient, base_image: BaseImage) -> None:
    script = """
        for program in cc gcc c99 ld as make apt-get curl wget ssh docker sudo; do command -v $program && exit 1; done
        test -z "$(find /etc/apt /var/lib/apt/lists -type f ! -name lock 2>/dev/null)"
        test -z "$(find /usr/share/man /usr/share/locale -type f 2>/dev/null | head -1)"
        test -n "$(find /usr/share/doc -name copyright | head -1)"
        echo good
    """
    assert run(engine, base_image.image_id, "bash", "-c", script) == "good\n"


def test_no_source_of_packages_is_named_inside(engine: docker.DockerClient, base_image: BaseImage) -> None:
    script = (
        "cat /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/* 2>/dev/null | grep -c :// || true"
    )
    assert run(engine, base_image.image_id, "bash", "-c", script) == "0\n"


def test_the_record_tells_the_packages(base_image: BaseImage) -> None:
    names = {package.name for package in base_image.packages}
    assert {"python3", "python3-venv", "python3-pip", "git", "bash", "tar"} <= names
    assert not {"gcc", "make", "apt"} & names
    assert all(package.version and package.architecture for package in base_image.packages)


def test_the_image_is_small(engine: docker.DockerClient, base_image: BaseImage) -> None:
    assert engine.api.inspect_image(base_image.image_id)["Size"] < 260_000_000


def test_an_image_that_is_there_is_not_built_again(
    engine: docker.DockerClient, base_image: BaseImage, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    said: list[str] = []
    assert ensure_base(engine, "python", said.append) == base_image
    assert said == []


def test_a_record_of_an_image_that_is_gone_does_not_count(
    engine: docker.DockerClient, base_image: BaseImage, state_dir: Path
) -> None:
    path = state_dir / "images/python.json"
    gone = "sha256:" + "0" * 64
    for image in read_records("python"):
        path.write_text(path.read_text().replace(image.image_id, gone))
    found = find_base(engine)
    assert found is None or found.image_id != gone


def test_an_image_that_another_state_folder_recorded_is_found(
    engine: docker.DockerClient, base_image: BaseImage, empty_state: Path
) -> None:
    found = find_base(engine)
    assert found is not None
    assert found.image_id in {image.image_id for image in read_records("python")}
    assert found.packages == base_image.packages
    assert found.distribution == base_image.distribution
    assert found.host_certificates == base_image.host_certificates


def test_without_the_builder_there_is_one_clear_error(
    engine: docker.DockerClient, empty_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ImageError, match="make engine") as caught:
        rebuild_base(engine)
    assert caught.value.code == "image_no_builder"


def test_an_interrupted_build_leaves_nothing_behind(
    engine: docker.DockerClient, empty_state: Path, scratch: Path
) -> None:
    images = {image["Id"] for image in engine.api.images()}

    def interrupt(line: str) -> None:
        if "apt-get update" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild_base(engine, "python", interrupt)
    assert list(scratch.iterdir()) == []
    assert read_records("python") == ()
    assert images >= {image["Id"] for image in engine.api.images(filters={"label": "mindx.image=python"})}
    assert not [line for line in processes() if str(scratch) in line]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount the small disk that this test fills")
def test_a_full_disk_is_one_clear_error(empty_state: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    code = "from mindx.sandbox.engine import connect; from mindx.sandbox.base_image import rebuild_base\n"
    code += "try: rebuild_base(connect())\nexcept Exception as error: print(error.code, error.message)\n"
    code += f"import os; print(os.listdir({str(disk)!r}))"
    script = f'mount -t tmpfs -o size=12m tmpfs "{disk}" && TMPDIR="{disk}" exec "{sys.executable}" -c "$1"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", code], capture_output=True, text=True, check=True)
    told, left = done.stdout.splitlines()
    assert told.startswith("image_no_space cannot build the image: the disk that holds")
    assert left == "[]"
    assert read_records("python") == ()


@pytest.fixture
def empty_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder that knows of no image."""
    folder = tmp_path / "empty"
    monkeypatch.setenv("MINDX_STATE_DIR", str(folder))
    return folder


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go during this test."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


def processes() -> list[str]:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
