"""Sandboxes of this folder: started ones, sabotaged ones, and one whose image holds a toolchain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
import pytest

from mindx.errors import SandboxError
from mindx.sandbox import container
from mindx.sandbox.attest import Attestation
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.image import DerivedImage
from mindx.sandbox.image_records import BaseImage

from .toolchain import toolchain

Sabotage = Callable[[dict[str, Any]], None]


@pytest.fixture
def ready(derived_image: DerivedImage) -> None:
    """The image is there: no test's own time goes into building it."""


@pytest.fixture(scope="session")
def toolchain_image(engine: docker.DockerClient, base_image: BaseImage, session_state: Path) -> DerivedImage:
    """The derived image of the toolchain, built when this machine has none of its present definition."""
    return toolchain(engine)


@pytest.fixture
def sabotage_request(monkeypatch: pytest.MonkeyPatch, ready: None) -> Callable[[Sabotage], None]:
    """Let every container of this test be made from an altered request, as a careless or hostile engine would."""

    def alter(change: Sabotage) -> None:
        true = container.create_request

        def altered(*arguments: Any) -> dict[str, Any]:
            request = true(*arguments)
            change(request)
            return request

        monkeypatch.setattr(container, "create_request", altered)

    return alter


@pytest.fixture
def sabotage(sabotage_request: Callable[[Sabotage], None]) -> Callable[[Sabotage], None]:
    """Do so with altered settings of the host (HostConfig)."""

    def alter(change: Sabotage) -> None:
        def changed(request: dict[str, Any]) -> None:
            change(request["HostConfig"])
            request["NetworkDisabled"] = request["HostConfig"]["NetworkMode"] == "none"

        sabotage_request(changed)

    return alter


async def start_refused(settings: ContainerSettings | None = None) -> SandboxError:
    """Start a sandbox that must refuse, see that nothing of it is left, and return the refusal."""
    sandbox = DockerSandbox(settings)
    with pytest.raises(SandboxError) as caught:
        async with sandbox:
            pass
    return caught.value


async def attested(settings: ContainerSettings | None = None) -> Attestation:
    """Start a sandbox, and return what it found."""
    async with DockerSandbox(settings) as sandbox:
        assert sandbox.attestation is not None
        return sandbox.attestation
