"""The mind's figures: what an action of a BDI agent costs beyond its command, and a question to 10,000 beliefs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from mindx import BDIAgent, BeliefSource, BeliefSystem, Budget, TraceRecorder
from mindx.policy.load import load_policy
from mindx.providers.scripted import ScriptedProvider
from mindx.runtime.lazy_sandbox import LazySandbox
from mindx.runtime.session import Session
from mindx.sandbox.fake import FakeSandbox
from mindx.tools.registry import ToolRegistry
from mindx.tools.simple_coder import SimpleCoder

ACTIONS = 50
BELIEFS = 10_000
STEP = {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "run", "cmdline": "true"}}


async def seconds_per_action(folder: Path) -> tuple[float, float]:
    """Return wall seconds for one action of an agent whose state, beliefs and trace are on disk, and for its command.

    Both are in a sandbox in memory, so that the difference is what the agent, the loop and the record add.
    """
    place = folder / uuid4().hex
    box = LazySandbox(lambda: Session(load_policy(None), open_sandbox=lambda loaded, progress: FakeSandbox()))
    tool = SimpleCoder()
    bound = tool.bind(await box.open(), tool.initial_state())
    began = time.perf_counter()
    for _ in range(ACTIONS):
        assert (await bound.execute(**STEP["params"]))["status"] == "SUCCESS"  # type: ignore[arg-type]
    command_s = (time.perf_counter() - began) / ACTIONS
    with BeliefSystem(place / "beliefs.sqlite3") as beliefs, TraceRecorder(place / "trace") as recorder:
        agent = BDIAgent(
            ScriptedProvider([json.dumps({"plan": [STEP] * ACTIONS})]),
            ToolRegistry([tool]),
            beliefs=beliefs,
            state_path=place / "agent.sqlite3",
            budget=Budget(plan_steps=ACTIONS),
        )
        agent.set_goal("do it")
        began = time.perf_counter()
        result = await agent.run(box=box, event_handler=recorder)
        taken_s = time.perf_counter() - began
        assert result.achieved, result.message
        await agent.close()
    await box.close()
    return taken_s / ACTIONS, command_s


def many_beliefs(path: Path) -> BeliefSystem:
    """Return a store on disk that holds BELIEFS beliefs."""
    system, sources = BeliefSystem(path), list(BeliefSource)
    for number in range(BELIEFS):
        system.add(
            f"agent{number % 50}.fact.{number}",
            {"n": number, "text": "x" * 100},
            confidence=number % 100 / 100,
            source=sources[number % len(sources)],
            namespace=f"n{number % 4}",
        )
    return system


def query_seconds(system: BeliefSystem, number: int) -> float:
    """Return wall seconds for one query, of four kinds in turn: by key, by confidence, by source, by all of them."""
    choices: list[dict[str, Any]] = [
        {"text": f"fact.{number % 90 + 10}"},
        {"min_confidence": 0.99},
        {"source": BeliefSource.LEARNED, "limit": 100},
        {"text": "agent7.", "namespace": "n1", "min_confidence": 0.5, "source": BeliefSource.DERIVED},
    ]
    options = choices[number % 4]
    began = time.perf_counter()
    system.query(**options)
    return time.perf_counter() - began
