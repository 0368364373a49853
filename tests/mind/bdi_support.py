"""What the BDI agent's tests share: plans in one line, an agent with all that can be seen of it."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

from mindx.agents.bdi import BDIAgent, BDIResult
from mindx.agents.beliefs import BeliefSystem
from mindx.core.action import ActionRisk
from mindx.policy.load import load_policy
from mindx.providers.base import BaseProvider, ProviderCapabilities
from mindx.providers.scripted import ScriptedProvider
from mindx.runtime.lazy_sandbox import LazySandbox
from mindx.runtime.session import Session
from mindx.sandbox.fake import FakeSandbox
from mindx.tools.base import BaseTool, ToolDefinition, ToolResult
from mindx.tools.registry import ToolRegistry
from mindx.tools.simple_coder import SimpleCoder


def act(kind: str, **params: Any) -> dict[str, Any]:
    return {"type": kind, "params": params}


def coder(command: str, **params: Any) -> dict[str, Any]:
    return act("EXECUTE_TOOL", tool_id="simple_coder", command=command, **params)


def use(tool: str, **params: Any) -> dict[str, Any]:
    return act("EXECUTE_TOOL", tool_id=tool, **params)


def think(thought: str = "hm") -> dict[str, Any]:
    return act("THINK", thought=thought)


def ref(text: str) -> dict[str, str]:
    return {"$ref": text}


def plan(*steps: Any) -> str:
    """Return a planner's answer."""
    return json.dumps({"plan": list(steps)})


def beginning(*steps: Any) -> str:
    """Return a planner's answer that says that more will follow."""
    return json.dumps({"plan": steps, "complete": False})


class Probe(BaseTool):
    """A tool that notes its calls and answers with `answers`, the last one for ever; an exception is raised."""

    def __init__(self, name: str = "probe", *answers: Any, fields: frozenset[str] | None = None) -> None:
        schema = {"type": "object", "properties": {"x": {}, "n": {"type": "integer"}}, "additionalProperties": False}
        self.definition = ToolDefinition(name, "A probe.", schema, ActionRisk.READ_ONLY)
        self.calls: list[dict[str, Any]] = []
        self._answers = list(answers) or [{"ok": True}]
        self._fields = fields

    def result_fields(self, arguments: Any) -> frozenset[str] | None:
        return self._fields

    async def execute(self, arguments: Any, context: Any) -> Any:
        self.calls.append(dict(arguments))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def failing(message: str = "it broke") -> ToolResult:
    from mindx.core.observation import Status

    return ToolResult({}, Status.FAILURE, message)


class Made:
    """An agent with a scripted model; `slept` has its waits, `sandbox` is where its tools work."""

    def __init__(self, script: Any, *tools: BaseTool, schemas: bool = True, **options: Any) -> None:
        self.slept: list[float] = []
        self.beliefs = options.pop("beliefs", None) or BeliefSystem()
        capabilities = ProviderCapabilities(json_schema=schemas)
        scripted = script if isinstance(script, BaseProvider) else ScriptedProvider(script, capabilities=capabilities)
        self.model: Any = scripted
        counter = itertools.count(1)
        ids = options.pop("new_id", lambda prefix: f"{prefix}_{next(counter)}")
        registry = ToolRegistry([SimpleCoder(), *tools])
        self.sandboxes: list[FakeSandbox] = []
        self.agent = BDIAgent(self.model, registry, beliefs=self.beliefs, sleep=self._sleep, new_id=ids, **options)

    @property
    def sandbox(self) -> FakeSandbox:
        return self.sandboxes[-1]

    @property
    def questions(self) -> list[str]:
        """What the model was told last, each time."""
        return [request.messages[-1].text for request in self.model.requests]

    def box(self) -> LazySandbox:
        def make(loaded: Any, progress: Any) -> FakeSandbox:
            self.sandboxes.append(FakeSandbox())
            return self.sandboxes[-1]

        return LazySandbox(lambda: Session(load_policy(None), open_sandbox=make))

    async def arun(self, goal: str | None = "do it", *criteria: Any, **options: Any) -> BDIResult:
        if goal is not None:
            self.agent.set_goal(goal, criteria)
        box = options.pop("box", None)
        own = box or self.box()
        try:
            return await self.agent.run(box=own, **options)
        finally:
            if box is None:
                await own.close()
            if not isinstance(self.model, ScriptedProvider):
                await self.model.close()

    def run(self, goal: str | None = "do it", *criteria: Any, **options: Any) -> BDIResult:
        return asyncio.run(self.arun(goal, *criteria, **options))

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
