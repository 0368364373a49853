"""How busy the machine is: processor, memory, disks. What goes over its limit is told, and what comes back, too."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import anyio
from pydantic import BaseModel, ConfigDict, Field

from mindx.agents.beliefs import BeliefSource, BeliefSystem
from mindx.agents.constitution import Act, Constitution, Layer
from mindx.agents.coordinator.threads import in_thread
from mindx.errors import MindxError

logger = logging.getLogger("coordinator.resources")
NAMESPACE = "system.resources"
ALERT_TOPIC, RESOLVED_TOPIC = "resource.alert", "resource.resolved"
WINDOW_S = 0.5  # a share of less time says little
MAX_SHOWN_PATH = 200  # characters
SAMPLE_TIMEOUT_S = 30.0  # a disk that hangs must not stop the watch over the others


class Resource(str, Enum):
    """What can run short."""

    CPU = "cpu"
    MEMORY = "memory"
    DISK = "disk"


class ResourceLimits(BaseModel):
    """From which share on (in percent) a resource is short; how often that is looked at, and told again, in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpu_percent: float = Field(default=85.0, gt=0, le=100)
    memory_percent: float = Field(default=85.0, gt=0, le=100)
    disk_percent: float = Field(default=90.0, gt=0, le=100)
    disk_paths: tuple[Path, ...] = Field(default=(Path("/"),), max_length=32)
    interval_s: float = Field(default=10.0, gt=0)
    repeat_s: float = Field(default=300.0, gt=0)


@dataclass(frozen=True, slots=True)
class ResourceSample:
    """What was measured, in percent; None for what could not be. `disks` is by path."""

    cpu_percent: float | None = None
    memory_percent: float | None = None
    disks: Mapping[str, float | None] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "cpu_percent": self.cpu_percent,
            "memory_percent": self.memory_percent,
            "disks": [{"path": path, "percent": percent} for path, percent in self.disks.items()],
        }


@dataclass(frozen=True, slots=True)
class ResourceAlert:
    """One resource that is over its limit, or (`resolved`) no longer is. `path` is a disk's, else ""."""

    resource: Resource
    path: str
    percent: float
    limit: float
    resolved: bool = False

    @property
    def key(self) -> str:
        """The belief that it becomes; the path in printable letters, its end if it is long."""
        path = "".join(char if char.isprintable() else "?" for char in self.path)[-MAX_SHOWN_PATH:].strip()
        return f"alert.{self.resource.value}{f':{path}' if path else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "resource": self.resource.value,
            "path": self.path,
            "percent": self.percent,
            "limit": self.limit,
            "resolved": self.resolved,
        }


Measure = Callable[[Sequence[Path]], ResourceSample]
Tell = Callable[[str, Mapping[str, Any]], Awaitable[object]]


class Meter:
    """Measures this machine by psutil; it blocks, half a second at the first time.

    The processor's share is of the time since the call before. psutil's own `cpu_percent` remembers that by thread,
    and gives 0 to each new one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: tuple[float, float, float] | None = None  # when, all seconds of the processors, the busy ones

    def __call__(self, paths: Sequence[Path]) -> ResourceSample:
        """Return what can be seen."""
        import psutil

        disks: dict[str, float | None] = {}
        for path in paths:
            try:
                disks[str(path)] = float(psutil.disk_usage(str(path)).percent)
            except OSError:
                disks[str(path)] = None
        try:
            with self._lock:
                return ResourceSample(self._cpu_percent(), float(psutil.virtual_memory().percent), disks)
        except (OSError, psutil.Error):
            return ResourceSample(None, None, disks)

    def _cpu_percent(self) -> float:
        before = self._before or _processor()
        if time.monotonic() - before[0] < WINDOW_S:
            time.sleep(WINDOW_S)
        self._before = now = _processor()
        passed = now[1] - before[1]
        return min(100.0, max(0.0, 100 * (now[2] - before[2]) / passed)) if passed > 0 else 0.0


def _processor() -> tuple[float, float, float]:
    import psutil

    times = psutil.cpu_times()
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # counted in user and nice already
    total = sum(times) - guests
    return time.monotonic(), total, total - times.idle - getattr(times, "iowait", 0.0)


class ResourceMonitor:
    """Watches the machine. An alert becomes a belief that dies by itself, and an event (`resource.alert`)."""

    def __init__(
        self,
        beliefs: BeliefSystem,
        tell: Tell,
        limits: ResourceLimits | None = None,
        *,
        constitution: Constitution | None = None,
        measure: Measure | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.limits = limits or ResourceLimits()
        self._constitution = constitution or Constitution.load()
        self.latest: ResourceSample | None = None
        self._beliefs, self._tell, self._measure, self._now = beliefs, tell, measure or Meter(), now
        self._measured: asyncio.Event | None = None  # there while somebody measures, set when that is done
        self._hangs = False  # a thread measures, or never came back
        # By resource and path: what is over its limit, and when that was told.
        self._told: dict[tuple[Resource, str], tuple[ResourceAlert, float]] = {}

    @property
    def alerts(self) -> tuple[ResourceAlert, ...]:
        """What is over its limit now, as far as is known."""
        return tuple(alert for alert, _ in self._told.values())

    async def sample(self) -> ResourceSample:
        """Measure, or wait for the measurement that goes on; what takes too long, or still hangs, is not known."""
        unknown = ResourceSample(disks={str(path): None for path in self.limits.disk_paths})
        if self._measured is not None:
            await self._measured.wait()
            return self.latest or unknown
        if self._hangs:
            self.latest = unknown
            return unknown
        self._measured, self._hangs, found = asyncio.Event(), True, unknown
        try:
            # Not asyncio.wait_for: before Python 3.12 it loses a cancellation that comes with the result.
            with anyio.move_on_after(SAMPLE_TIMEOUT_S):
                found = await in_thread(self._look, self._thread_ended, "mindx-resources")
        finally:
            self.latest = found
            self._measured.set()
            self._measured = None
        return found

    def _look(self) -> ResourceSample:
        return self._measure(self.limits.disk_paths)

    def _thread_ended(self) -> None:
        self._hangs = False

    async def cpu_percent(self) -> float | None:
        """Return how busy the processor is, None when that is not known."""
        return (await self.sample()).cpu_percent

    async def check(self) -> tuple[ResourceAlert, ...]:
        """Measure once, tell what is new or has lasted, and return what was told."""
        news = self._judge(await self.sample())
        for alert in news:
            self._believe(alert)
            await self._tell(RESOLVED_TOPIC if alert.resolved else ALERT_TOPIC, alert.to_dict())
        return news

    async def run(self) -> None:
        """Check for ever; a check that fails is logged, and the next one comes all the same."""
        while True:
            try:
                await self.check()
            except Exception:
                logger.exception("the resources could not be checked")
            await asyncio.sleep(self.limits.interval_s)

    def _judge(self, sample: ResourceSample) -> tuple[ResourceAlert, ...]:
        now, news = self._now(), []
        limits = self.limits
        found = [
            (Resource.CPU, "", sample.cpu_percent, limits.cpu_percent),
            (Resource.MEMORY, "", sample.memory_percent, limits.memory_percent),
            *((Resource.DISK, path, percent, limits.disk_percent) for path, percent in sample.disks.items()),
        ]
        for resource, path, percent, limit in found:
            if percent is None:  # unknown is neither an alert nor its end
                continue
            alert = ResourceAlert(resource, path, percent, limit, resolved=percent <= limit)
            before = self._told.get((resource, path))
            if alert.resolved:
                if before is not None:
                    del self._told[resource, path]
                    news.append(alert)
            elif before is None or now - before[1] >= limits.repeat_s:
                self._told[resource, path] = alert, now
                news.append(alert)
        return tuple(news)

    def _believe(self, alert: ResourceAlert) -> None:
        log = logger.info if alert.resolved else logger.warning
        log("%s is at %.0f %% (limit %.0f %%)", alert.key, alert.percent, alert.limit)
        if not self._constitution.check(Layer.COORDINATOR, Act.WRITE_BELIEF).allowed:
            return
        try:
            if alert.resolved:
                self._beliefs.remove(alert.key, namespace=NAMESPACE)
                return
            lives = self.limits.repeat_s + 2 * self.limits.interval_s  # until it is told again, or no longer true
            source = BeliefSource.PERCEPTION
            self._beliefs.add(alert.key, alert.to_dict(), source=source, namespace=NAMESPACE, ttl_s=lives)
        except MindxError as error:  # who listens is told all the same
            logger.warning("%s could not be believed: %s", alert.key, error.message)
