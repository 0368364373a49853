"""The verification of this engine: every probe, one after the other, on real containers."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable

from mindx.errors import EngineError, ImageError, SandboxError
from mindx.sandbox import probes_host, probes_kernel, probes_limits, probes_truth
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.probe import Finding, Probe, Stage, examine

ALL: tuple[Probe, ...] = (*probes_kernel.PROBES, *probes_host.PROBES, *probes_limits.PROBES, *probes_truth.PROBES)
WITHIN_S = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Verification:
    """All findings, in the order of the probes."""

    findings: tuple[Finding, ...]
    duration_s: float

    @property
    def holds(self) -> bool:
        """True only when every probe was run and passed."""
        return len(self.findings) == len(ALL) and all(finding.passed for finding in self.findings)


async def verify(
    settings: ContainerSettings,
    on_finding: Callable[[Finding], None] | None = None,
    within_s: float = WITHIN_S,
    progress: Callable[[str], None] | None = None,
) -> Verification:
    """Try to break every promise on this engine. A probe that has no time left has failed.

    `progress` is told of an image that has to be built first, whose time does not count. Raises EngineError or
    ImageError when there is no container to be had at all.
    """
    tell = on_finding or (lambda finding: None)
    stage = Stage(settings, progress)
    findings: list[Finding] = []
    try:
        await _first_start(stage)
        began = time.monotonic()
        for probe in ALL:
            finding = await _within(probe, stage, began + within_s - time.monotonic())
            findings.append(finding)
            tell(finding)
    finally:
        await stage.renew()
    return Verification(tuple(findings), time.monotonic() - began)


async def _first_start(stage: Stage) -> None:
    """Start once. Another trouble than the engine's or the image's is a finding: the probes meet it again."""
    try:
        await stage.sandbox()
    except (EngineError, ImageError):
        raise
    except SandboxError:
        await stage.renew()


async def _within(probe: Probe, stage: Stage, left_s: float) -> Finding:
    try:
        return await asyncio.wait_for(examine(probe, stage), max(0.0, left_s))
    except asyncio.TimeoutError:
        await stage.renew()
        return Finding(probe.probe_id, probe.promise, probe.tried, "no time was left", False)
