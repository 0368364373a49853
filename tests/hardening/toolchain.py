"""The toolchain: the image that the seccomp profile's workload runs in, and the workload. The bench uses it too."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import docker

from mindx.core.command import Exec
from mindx.policy.model import Limits
from mindx.sandbox import image_definition
from mindx.sandbox.base import PutItem
from mindx.sandbox.base_image import ensure_base
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.image import DerivedImage, ensure_derived

HERE = Path(__file__).parent
IMAGES = HERE / "images"
LIMITS = Limits(memory_bytes=2 << 30, workspace_bytes=512 << 20, tmp_bytes=128 << 20)
RUN_WORKLOAD = Exec(("bash", "run.sh"), timeout_s=90, env={"NO_COLOR": "1"})


class ToolchainSandbox(DockerSandbox):
    """A sandbox of another image than the policy's."""

    def __init__(self, image: DerivedImage, settings: ContainerSettings | None = None) -> None:
        super().__init__(settings)
        self._image = image

    def _derived_image(self, client: docker.DockerClient) -> DerivedImage:
        return self._image


@contextmanager
def images_of_this_folder() -> Iterator[None]:
    """Look for the definitions of images in this folder."""
    true = image_definition.data_path
    image_definition.data_path = lambda kind, name="": IMAGES / name
    try:
        yield
    finally:
        image_definition.data_path = true


def toolchain(engine: docker.DockerClient, guest_folder: Path | None = None) -> DerivedImage:
    """Return the derived image of the toolchain, built when this machine has none of its present definition."""
    with images_of_this_folder():
        base = ensure_base(engine, "toolchain")
    return ensure_derived(engine, base.image_id, guest_folder=guest_folder)


def workload() -> Iterable[PutItem]:
    """Yield the files of the workload, a wheel for pip among them."""
    files = {path.name: path.read_bytes() for path in sorted((HERE / "workload").iterdir()) if path.is_file()}
    files["sample-1.0-py3-none-any.whl"] = sample_wheel()
    for name, content in files.items():
        yield PutItem(name, "file", 0o644, len(content), lambda content=content: [content])  # type: ignore[misc]


def sample_wheel() -> bytes:
    """Return a wheel of one module, so that pip has something to install without a network."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("sample.py", "answer = 42\n")
        archive.writestr("sample-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n")
        archive.writestr(
            "sample-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("sample-1.0.dist-info/RECORD", "sample.py,,\nsample-1.0.dist-info/METADATA,,\n")
    return buffer.getvalue()
