"""What the runtime's tests share: sandboxes in memory, and runs of plans in them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mindx.policy.load import load_policy
from mindx.runtime.plan_run import PlanRun
from mindx.sandbox.fake import FakeSandbox
from mindx.trace.run_folder import RunStore


class Runs:
    """Makes Runs of plans in sandboxes in memory; `opened` holds every sandbox that a Run asked for."""

    def __init__(self, folder: Path) -> None:
        self.store = RunStore(folder / "runs")
        self.opened: list[FakeSandbox] = []
        self.programs: dict[str, Any] = {}
        self.policy = load_policy(None)

    def open(self, loaded: Any, progress: Any) -> FakeSandbox:
        self.opened.append(FakeSandbox(self.programs))
        return self.opened[-1]

    def make(self, plan: Any, **options: Any) -> PlanRun:
        source = plan if isinstance(plan, bytes) else json.dumps(plan).encode()
        options = {"open_sandbox": self.open, "policy": self.policy, **options}
        return PlanRun(source, options.pop("policy"), self.store, **options)

    def run(self, plan: Any, **options: Any) -> Any:
        return asyncio.run(self.make(plan, **options).run())


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)
