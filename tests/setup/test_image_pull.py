"""Images by reference: a registry of the distribution on loopback, digests, and what is recorded."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from mindx.errors import EngineError, ImageError
from mindx.sandbox.base_image import ensure_base, find_base, pull_base
from mindx.sandbox.image_catalog import list_images, remove_images

# The distribution's package docker-registry; `make test` unpacks it beside Python, MINDX_TEST_REGISTRY names another.
BESIDE = os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
REGISTRY = os.environ.get("MINDX_TEST_REGISTRY") or shutil.which("docker-registry", path=BESIDE)
needs_registry = pytest.mark.skipif(REGISTRY is None, reason="needs the program of the package docker-registry")


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """The address of an empty registry on loopback, which engines may use without TLS."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    settings = tmp_path / "registry.yml"
    folder = tmp_path / "registry"
    settings.write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder}}}}}\nhttp: {{addr: '{address}'}}\n"
    )
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen([str(REGISTRY), "serve", str(settings)], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                urllib.request.urlopen(f"http://{address}/v2/", timeout=5).close()
                break
            except (urllib.error.URLError, ConnectionError):
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.05)  # there is nothing to wait for until it listens
        yield address
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def name(engine: docker.DockerClient, state_dir: Path) -> str:
    return f"pulled-{secrets.token_hex(4)}"


def push(engine: docker.DockerClient, reference: str, label: str) -> str:
    """Push a tiny image, forget it here, and return its id."""
    repository, _, tag = reference.rpartition(":")
    said = engine.api.import_image_from_data(
        b"\0" * 10240, repository=repository, tag=tag, changes=[f"LABEL x={label}"]
    )
    assert "error" not in said
    image_id = str(engine.api.inspect_image(reference)["Id"])
    assert "errorDetail" not in engine.api.push(repository, tag)
    engine.api.remove_image(reference)
    return image_id


@needs_registry
def test_a_reference_becomes_a_digest_and_stays_it(engine: docker.DockerClient, registry: str, name: str) -> None:
    reference = f"{registry}/team/tools:1"
    first = push(engine, reference, "first")
    record = pull_base(engine, reference, name)
    try:
        assert record.image_id == first
        assert record.reference.startswith(f"{registry}/team/tools@sha256:")
        assert (record.distribution, record.packages) == (reference, ())
        assert find_base(engine, name) == record
        assert ("ready", record.reference) in {
            (row.state, row.description) for row in list_images(engine) if row.name == name
        }
        # The tag moves and the image goes: what comes back is what was recorded.
        engine.api.remove_image(first, force=True)
        assert push(engine, reference, "second") != first
        assert find_base(engine, name) is None
        assert ensure_base(engine, name).image_id == first
        assert first in remove_images(engine, name)
        assert_unknown(engine, name)
    finally:
        for image_id in {record.image_id, first}:
            try:
                engine.api.remove_image(image_id, force=True)
            except docker.errors.APIError:
                continue


@needs_registry
def test_what_the_registry_does_not_have_is_one_message(engine: docker.DockerClient, registry: str, name: str) -> None:
    with pytest.raises(EngineError, match=r"cannot pull"):
        pull_base(engine, f"{registry}/none:1", name)
    assert_unknown(engine, name)


def assert_unknown(engine: docker.DockerClient, name: str) -> None:
    with pytest.raises(ImageError) as caught:
        find_base(engine, name)
    assert caught.value.code == "image_unknown"


@pytest.mark.parametrize("reference", ["", "UPPER", "a b", "--all", "x@sha256:12", "x:", "../x", "x;y"])
def test_what_is_no_reference_is_never_pulled(engine: docker.DockerClient, name: str, reference: str) -> None:
    with pytest.raises(ImageError) as caught:
        pull_base(engine, reference, name)
    assert caught.value.code == "image_bad_reference"


def test_a_name_that_mindx_builds_is_not_taken(engine: docker.DockerClient, state_dir: Path) -> None:
    with pytest.raises(ImageError) as caught:
        pull_base(engine, "127.0.0.1:1/x:1", "python")
    assert caught.value.code == "image_name_taken"
