"""What the coordinator's tests share: a coordinator on a folder, improvement agents that do as told, a clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mindx.agents.beliefs import BeliefSystem
from mindx.agents.coordinator.config import CoordinatorConfig
from mindx.agents.coordinator.coordinator import CoordinatorAgent
from mindx.agents.improvement.models import (
    ImplementationStatus,
    ImprovementRequest,
    ImprovementResult,
)
from mindx.runtime.session import Session
from mindx.sandbox.fake import FakeSandbox
from mindx.workspace.pull import collect
from mindx.workspace.store import ChangesFolder
from tests.mind.improvement_support import SPEC, developed

TOOL = {"tool_spec": SPEC}


class Clock:
    """A clock that moves when it is told."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Improver:
    """An improvement agent that answers what it is told, and knows how often it was called and how many at once.

    `gate` holds its answers until it is set; `asked` is set when it is called. An answer is "good" (always so, when no
    more are left), or why it failed. What it changes of a project it keeps in `work_dir`, as the real one does.
    """

    def __init__(self, *answers: str, work_dir: Path | None = None, content: str = "# better\n") -> None:
        self.work_dir, self.content = work_dir, content
        self.answers = list(answers)
        self.requests: list[ImprovementRequest] = []
        self.asked, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.running = self.most = 0

    async def __call__(self, request: ImprovementRequest) -> ImprovementResult:
        self.requests.append(request)
        self.running += 1
        self.most = max(self.most, self.running)
        self.asked.set()
        try:
            await self.gate.wait()
            answer = self.answers.pop(0) if self.answers else "good"
            if answer != "good":
                return failed(request, answer)
            if request.workspace is not None:
                assert self.work_dir is not None
                await keep_changes(request, self.work_dir, self.content)
            return developed(request, self.content)
        finally:
            self.running -= 1


async def keep_changes(request: ImprovementRequest, work_dir: Path, content: str) -> None:
    """Change the target in a copy of the project and keep the Changes, as the real agent does."""
    async with Session(workspace=request.workspace, open_sandbox=lambda policy, progress: FakeSandbox({})) as session:
        await session.write(request.target_file, content)
        home = ChangesFolder(work_dir / request.interaction_id / "changes")
        home.path.mkdir(mode=0o700, parents=True)
        await collect(session.sandbox, session.baseline, home, 1_000_000, session.protects, 1000)


def failed(request: ImprovementRequest, message: str) -> ImprovementResult:
    return ImprovementResult.failure(request, ImplementationStatus.FAILED_EVALUATION, message)


@asynccontextmanager
async def coordinator(folder: Path, **options: Any) -> AsyncIterator[CoordinatorAgent]:
    """A coordinator with one agent of each layer, named as the layer; `config` is for its CoordinatorConfig."""
    clock = options.pop("now", None) or Clock()
    config = CoordinatorConfig(**options.pop("config", {}))
    options.setdefault("beliefs", BeliefSystem(now=clock))
    async with CoordinatorAgent(folder, config=config, now=clock, **options) as made:
        for layer in ("mastermind", "agint", "bdi", "improvement", "tool"):
            made.register_agent(layer, layer)
        yield made


def in_coordinator(folder: Path, work: Callable[[CoordinatorAgent], Any], **options: Any) -> Any:
    """Return what an async function of a coordinator returns."""

    async def main() -> Any:
        async with coordinator(folder, **options) as made:
            return await work(made)

    return asyncio.run(main())
