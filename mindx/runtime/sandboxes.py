"""Where a Session's sandbox comes from: the policy's image and limits become one container's settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mindx.policy.load import LoadedPolicy
from mindx.sandbox.base import Sandbox

if TYPE_CHECKING:
    from mindx.sandbox.container import ContainerSettings

Progress = Callable[[str], None]
SandboxFactory = Callable[[LoadedPolicy, Progress], Sandbox]


def docker_sandbox(loaded: LoadedPolicy, progress: Progress) -> Sandbox:
    """Return a sandbox of the real engine, not started yet."""
    # What asks the engine takes its time to load: whoever is refused before a container pays nothing.
    from mindx.sandbox.docker import DockerSandbox

    return DockerSandbox(container_settings(loaded), progress)


def container_settings(loaded: LoadedPolicy) -> ContainerSettings:
    """Return what the policy asks of one container."""
    from mindx.sandbox.container import ContainerSettings

    return ContainerSettings.of(loaded)
