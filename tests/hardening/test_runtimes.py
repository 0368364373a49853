"""Runtimes by name: one that is missing, works, fails or hangs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import docker.errors
import pytest

from mindx.core.command import Exec
from mindx.errors import EngineError
from mindx.sandbox import runtimes
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.image import DerivedImage

from .conftest import start_refused
from .second_engine import LACKS, bring, second_engine
from .toolchain import ToolchainSandbox

needs_second = pytest.mark.skipif(bool(LACKS), reason=LACKS or "there is one")
SCRIPTS = {
    "crun": 'exec runc "$@"',  # one that works
    "runsc": 'echo "no such platform" >&2; exit 1',
    "kata": 'exec runc "$@"',  # until the test that makes it hang
}


@pytest.fixture(scope="module")
def second(
    engine: docker.DockerClient, derived_image: DerivedImage, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[docker.DockerClient]:
    folder = tmp_path_factory.mktemp("runtimes")
    paths = {}
    for name, text in SCRIPTS.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n", "ascii")
        path.chmod(0o755)
        paths[name] = str(path)
    with second_engine(paths) as second, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", second.address)
        client = docker.DockerClient(base_url=second.address)
        try:
            bring(derived_image, engine, client)
            yield client
        finally:
            client.close()


def test_a_runtime_that_the_engine_does_not_list_is_refused_by_name(ready: None) -> None:
    error = asyncio.run(start_refused(ContainerSettings(runtime="kata")))
    assert isinstance(error, EngineError)
    assert error.code == "runtime_missing"
    assert error.details["runtime"] == "kata"
    assert "runc" in error.details["known"]
    assert "daemon.json" in error.message


def test_the_engine_s_default_by_its_name_needs_no_proof(
    engine: docker.DockerClient, derived_image: DerivedImage, state_dir: Path
) -> None:
    runtimes.require(engine, engine.info(), engine.info()["DefaultRuntime"], derived_image)
    runtimes.require(engine, engine.info(), None, derived_image)
    assert not (state_dir / "runtimes").exists()


@needs_second
def test_a_runtime_that_works_is_proved_once_and_carries_a_session(
    second: docker.DockerClient, derived_image: DerivedImage, state_dir: Path
) -> None:
    async def run() -> None:
        async with ToolchainSandbox(derived_image, ContainerSettings(runtime="crun")) as sandbox:
            assert sandbox.attestation is not None
            assert sandbox.attestation.runtime == "crun"
            result = await sandbox.execute(Exec(("echo", "under it")))
            assert result.stdout == b"under it\n"

    asyncio.run(run())
    (proof,) = (state_dir / "runtimes").iterdir()
    changed = proof.stat().st_mtime_ns
    asyncio.run(run())
    assert proof.stat().st_mtime_ns == changed
    assert second.api.containers(all=True) == []


@needs_second
def test_another_version_of_a_runtime_is_proved_again(second: docker.DockerClient) -> None:
    info = second.info()
    before = runtimes.version_of(info, "crun")
    path = Path(info["Runtimes"]["crun"]["path"])
    found = path.stat()
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    assert runtimes.version_of(info, "crun") != before
    assert runtimes.version_of({**info, "KernelVersion": "other"}, "crun") != before


@needs_second
def test_a_runtime_that_fails_is_refused_with_what_it_said(
    second: docker.DockerClient, derived_image: DerivedImage, state_dir: Path
) -> None:
    with pytest.raises(EngineError) as caught:
        runtimes.require(second, second.info(), "runsc", derived_image)
    assert caught.value.code == "runtime_broken"
    assert "runsc" in caught.value.message
    assert second.api.containers(all=True) == []
    assert not (state_dir / "runtimes").exists()


@needs_second
def test_a_container_that_never_ends_is_ended_by_the_engine(
    second: docker.DockerClient, derived_image: DerivedImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = runtimes._request

    def endless(*arguments: object) -> dict[str, object]:
        request = true(*arguments)  # type: ignore[arg-type]
        return {**request, "Entrypoint": ["sleep", "600"]}

    monkeypatch.setattr(runtimes, "_request", endless)
    began = time.monotonic()
    with pytest.raises(EngineError) as caught:
        runtimes.smoke_test(second, "crun", derived_image, within_s=1.0)
    assert caught.value.code == "runtime_broken"
    assert "within 1 s" in caught.value.message
    assert time.monotonic() - began < 3 + runtimes.PATIENCE_S
    assert second.api.containers(all=True) == []


@needs_second
def test_a_runtime_that_hangs_before_its_container_exists_is_given_up(
    second: docker.DockerClient, derived_image: DerivedImage
) -> None:
    path = Path(second.info()["Runtimes"]["kata"]["path"])
    hold = path.with_name("hold")
    os.mkfifo(hold)
    path.write_text(
        f'#!/bin/sh\ncase " $* " in *" create "*) read x < {hold}; exit 1;; esac\nexec runc "$@"\n', "ascii"
    )
    began = time.monotonic()
    try:
        with pytest.raises(EngineError) as caught:
            runtimes.smoke_test(second, "kata", derived_image, within_s=1.0)
        assert caught.value.code == "runtime_broken"
        assert time.monotonic() - began < 3 + 2 * runtimes.PATIENCE_S
    finally:
        # Whoever hangs is let go, so that the engine can end.
        threading.Thread(target=lambda: hold.write_bytes(b"\n"), daemon=True).start()
        until = time.monotonic() + 20
        while second.api.containers(all=True) and time.monotonic() < until:
            for left in second.api.containers(all=True):
                with contextlib.suppress(docker.errors.APIError):  # 409: what the smoke test asked for is under way
                    second.api.remove_container(left["Id"], force=True)
    assert second.api.containers(all=True) == []
