"""Real containers for the tests of the wall."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from mindx.policy.model import Limits
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.image import DerivedImage


@pytest.fixture(scope="module")
async def sandbox(derived_image: DerivedImage) -> AsyncIterator[DockerSandbox]:
    """One started sandbox for a module; a test that breaks its sandbox makes its own."""
    async with DockerSandbox() as started:
        yield started


@pytest.fixture
def make(derived_image: DerivedImage) -> Callable[..., DockerSandbox]:
    """Make a sandbox with limits of its own, not started."""
    return lambda **limits: DockerSandbox(ContainerSettings(Limits.read(limits)))
