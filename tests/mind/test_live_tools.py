"""A tool that is registered while an agent works is there for its next plan, in the same run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mindx.agents.bdi import BDIAgent, BDIResult
from mindx.agents.beliefs import BeliefSystem
from mindx.agents.constitution import Constitution, Layer
from mindx.agents.live_tools import LiveTools
from mindx.agents.official_tools import OfficialToolsRegistry
from mindx.core.action import ActionRisk
from mindx.providers.scripted import ScriptedProvider
from mindx.tools.base import BaseTool, ToolDefinition
from mindx.tools.container_entry import ToolSpec
from mindx.tools.registry import ToolRegistry
from mindx.tools.simple_coder import SimpleCoder
from tests.mind.bdi_support import act, plan, use
from tests.mind.improvement_support import SPEC

RULES = Constitution.load()
WRITES = (
    "def count(arguments):\n    words = len(arguments['text'].split())\n"
    "    open('answer.txt', 'w').write(str(words))\n    return {'words': words}\n"
)


class Registers(BaseTool):
    """A meta-action that registers the tool of SPEC, in one version after the other."""

    definition = ToolDefinition("REGISTER_TOOL", "Register the tool.", risk=ActionRisk.WRITE)

    def __init__(self, folder: Path, *codes: str) -> None:
        self._registry = OfficialToolsRegistry(folder, constitution=RULES, layer=Layer.MASTERMIND)
        self._codes = list(enumerate(codes, 1))

    async def execute(self, arguments: Any, context: Any) -> Any:
        number, code = self._codes.pop(0)
        text = json.dumps({**SPEC, "version": f"{number}.0"})
        spec = ToolSpec.read(json.loads(text if number == 1 else text.replace('"text"', '"words"')))
        return {"version": self._registry.register(spec, code.encode(), added_by="test").version}


def run(folder: Path, answers: list[str], *codes: str) -> tuple[BDIResult, ScriptedProvider]:
    model = ScriptedProvider(answers)
    registry = OfficialToolsRegistry(folder, constitution=RULES, layer=Layer.BDI)
    agent = BDIAgent(
        model,
        LiveTools(ToolRegistry([SimpleCoder()]), registry),
        beliefs=BeliefSystem(),
        actions={"REGISTER_TOOL": Registers(folder, *codes)},
    )
    agent.set_goal("count the words", [{"file": "answer.txt", "equals": "3"}])

    async def main() -> BDIResult:
        try:
            return await agent.run()
        finally:
            await agent.close()

    return asyncio.run(main()), model


@pytest.mark.usefixtures("base_image")
def test_a_tool_registered_by_a_plan_is_used_by_the_next_one(tmp_path: Path):
    """The first plan cannot know it; the second is told of it, is valid, and does its work in the container."""
    count = use("word_count", command="count", text="a b c")
    result, model = run(tmp_path, [plan(count), plan(act("REGISTER_TOOL")), plan(count)], WRITES)
    assert result.status.value == "GOAL_ACHIEVED", result.message
    systems = [request.messages[0].text for request in model.requests]
    assert ["word_count" in text for text in systems] == [False, False, True]
    assert "word_count" in model.requests[1].messages[-1].text  # the plan that came too early was refused


@pytest.mark.usefixtures("base_image")
def test_a_new_version_takes_the_place_of_the_old_one_in_the_next_plan(tmp_path: Path):
    """An agent that used the first version goes on with the second: with its code, and with its schema."""
    old, new = (use("word_count", command="count", **{name: "a b c"}) for name in ("text", "words"))
    answers = [plan(act("REGISTER_TOOL")), plan(old, act("REGISTER_TOOL")), plan(old), plan(new)]
    result, model = run(tmp_path, answers, WRITES.replace("split()", "split('x')"), WRITES.replace("text", "words"))
    assert "words" in model.requests[3].messages[-1].text  # the old arguments fit no more
    assert result.status.value == "GOAL_ACHIEVED", result.message
