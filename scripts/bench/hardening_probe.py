"""What the hardening costs: the same guest in the same image, with all of it and with none of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker

from mindx import guest
from mindx.core.command import Exec
from mindx.sandbox import attest, container
from mindx.sandbox.base_image import ensure_base
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.image import DerivedImage, ensure_derived
from scripts.bench.samples import interleave
from tests.hardening.toolchain import LIMITS, RUN_WORKLOAD, ToolchainSandbox, toolchain, workload

if TYPE_CHECKING:
    from scripts.bench.probes import Bench

# What the guest needs to work at all; everything else of the HostConfig is left out.
NEEDED = ("NetworkMode", "Tmpfs", "ShmSize", "CpusetCpus", "LogConfig", "AutoRemove")
UNSEEING = "\n\ndef gather():\n    return []\n\n\ndef of_agent(spawner, identity, end):\n    return []\n"
MakeSandbox = Callable[[], DockerSandbox]


class BareSandbox(ToolchainSandbox):
    """The guest in a container that nothing limits, and that nobody looks at."""

    def _create(self, client: docker.DockerClient, info: dict[str, Any], image: DerivedImage) -> attest.Asked:
        with nothing_asked():
            return super()._create(client, info, image)

    def _inspect(self, client: docker.DockerClient, asked: attest.Asked) -> dict[str, Any]:
        return {}

    async def _start(self) -> None:
        true, attest.attest = attest.attest, _nothing_seen
        try:
            await super()._start()
        finally:
            attest.attest = true

    def _refuse(self, attestation: attest.Attestation) -> None:
        """Nothing is promised."""


def _nothing_seen(*_: object, **__: object) -> attest.Attestation:
    return attest.Attestation((), (), (), {}, "", "")


@contextmanager
def nothing_asked() -> Iterator[None]:
    """Ask the engine for a container without the controls."""
    true = container.create_request

    def bare(image_id: str, python: str, name_labels: Mapping[str, str], host: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: host[name] for name in NEEDED}
        return true(image_id, python, name_labels, {**kept, "SecurityOpt": ["seccomp=unconfined"]})

    container.create_request = bare
    try:
        yield
    finally:
        container.create_request = true


@contextmanager
def unseeing_guest(folder: Path) -> Iterator[Path]:
    """Yield a folder with a guest that attests nothing."""
    copied = folder / "guest"
    shutil.copytree(Path(guest.__file__).parent, copied, ignore=shutil.ignore_patterns("__pycache__"))
    with (copied / "facts.py").open("a") as file:
        file.write(UNSEEING)
    yield copied


async def probe_hardening(bench: Bench) -> None:
    """Start to first answer, hardened and attested against neither."""
    base = ensure_base(bench.client, "python")
    with unseeing_guest(bench.folder) as folder:
        image = ensure_derived(bench.client, base.image_id, guest_folder=folder)
    try:
        whole = _started(bench, "hardened_start", DockerSandbox)
        bare = _started(bench, "bare_start", lambda: BareSandbox(image))
        await interleave(bench.samples, [whole, bare], bench.rounds(40), warm_up=2)
    finally:
        bench.client.images.remove(image.image_id, force=True)


def _started(bench: Bench, name: str, make: MakeSandbox) -> Any:
    async def action() -> None:
        sandbox = make()
        try:
            with bench.samples.time(name):
                await sandbox.start()
                await sandbox.execute(Exec(("true",)))
        finally:
            await sandbox.close()

    return action


async def probe_workload(bench: Bench) -> None:
    """CPU seconds of a workload of compile, pytest, pip and more, hardened against bare."""
    image: DerivedImage = toolchain(bench.client)
    settings = ContainerSettings(LIMITS)

    def working(name: str, make: MakeSandbox) -> Any:
        async def action() -> None:
            async with make() as sandbox:
                await sandbox.put(workload())
                result = await sandbox.execute(RUN_WORKLOAD)
            if not result.ok:
                raise RuntimeError(f"the workload failed: {result.stderr_text[-500:]}")
            bench.samples.add(name, result.receipt.cpu_s)

        return action

    whole = working("hardened_workload", lambda: ToolchainSandbox(image, settings))
    bare = working("bare_workload", lambda: BareSandbox(image, settings))
    await interleave(bench.samples, [whole, bare], bench.rounds(9), warm_up=1)
