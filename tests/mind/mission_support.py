"""What the tests of AGInt share: a model that answers by who asks, real BDI agents, and a container in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mindx import LoadedPolicy, load_policy
from mindx.agents.agint import prompts
from mindx.agents.agint.agint import AGInt
from mindx.agents.agint.mission import MissionBudget, MissionStore
from mindx.agents.agint.phase_agent import PhaseAgent
from mindx.agents.bdi import BDIAgent, Budget
from mindx.agents.beliefs import BeliefSystem
from mindx.core.message import Role
from mindx.providers.base import ModelRequest
from mindx.providers.borrowed import BorrowedProvider
from mindx.providers.scripted import ScriptedProvider, Turn
from mindx.runtime.lazy_sandbox import LazySandbox
from mindx.runtime.session import Session
from mindx.sandbox.fake import FakeSandbox
from mindx.tools.registry import ToolRegistry
from mindx.tools.simple_coder import SimpleCoder

KINDS = {
    "divide": prompts.PLAN,
    "revise": prompts.REVISE,
    "choose": prompts.CHOOSE,
    "plan": "You plan",
    "report": "You report",
}


def kind_of(request: ModelRequest) -> str:
    """Return who asks: AGInt (divide, revise, choose, probe), or a BDI agent that wants a plan."""
    system = next((message.text for message in request.messages if message.role is Role.SYSTEM), "")
    return next((kind for kind, text in KINDS.items() if system.startswith(text)), "probe")


class Model:
    """Answers by who asks, each kind from its own turns; the last turn of a kind is said again and again."""

    def __init__(self, **turns: Iterable[Any]) -> None:
        self.turns = {kind: list(said) for kind, said in turns.items()}
        self.asked: list[str] = []
        self.provider = ScriptedProvider(self._answer)

    def _answer(self, request: ModelRequest) -> Turn:
        kind = kind_of(request)
        self.asked.append(kind)
        left = self.turns.get(kind) or ["OK" if kind == "probe" else "I have nothing to say."]
        turn = left.pop(0) if len(left) > 1 else left[0]
        return json.dumps(turn) if isinstance(turn, (dict, list)) else turn


def phases(*names: str, **criteria: Any) -> dict[str, Any]:
    """Return phases that come one after the other, with these criteria."""
    made = []
    for index, name in enumerate(names):
        before = [names[index - 1]] if index else []
        made.append({"name": name, "task": f"do {name}", "depends_on": before, "criteria": criteria.get(name, [])})
    return {"phases": made}


def write(path: str, content: str = "x") -> list[dict[str, Any]]:
    """Return a plan that writes one file."""
    params = {"tool_id": "simple_coder", "command": "write", "path": path, "content": content}
    return [{"type": "EXECUTE_TOOL", "params": params}]


class Missions:
    """One AGInt on a folder, whose agents share one container in memory."""

    def __init__(self, folder: Path, model: Model, *, budget: MissionBudget | None = None, **options: Any) -> None:
        self.folder, self.model = folder, model
        self.beliefs = BeliefSystem()
        self.sandbox = FakeSandbox()
        self.box = LazySandbox(lambda: Session(self.policy, open_sandbox=lambda policy, progress: self.sandbox))
        self.policy: LoadedPolicy = load_policy()
        self.agents: list[str] = []
        self.slept: list[float] = []
        self.heard: list[Any] = []
        self.agint = AGInt(
            model.provider,
            self._agent,
            MissionStore(folder),
            beliefs=self.beliefs,
            budget=budget or MissionBudget(),
            listener=lambda mission, note: self.heard.append(note),
            sleep=options.pop("sleep", self._sleep),
            **options,
        )

    @property
    def decisions(self) -> list[str]:
        """What was decided, in order."""
        return [note.decision.value for note in self.heard]

    def files(self) -> set[str]:
        """Return the files of the container."""
        return {command.path.rpartition("/")[2] for command in self.sandbox.commands if hasattr(command, "data")}

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def _agent(self, agent_id: str, state: Path, reports: bool) -> Any:
        if not agent_id.endswith(".check"):
            self.agents.append(agent_id)
        agent = BDIAgent(
            BorrowedProvider(self.model.provider),
            ToolRegistry([SimpleCoder()]),
            beliefs=self.beliefs,
            agent_id=agent_id,
            domain=agent_id,
            reports=reports,
            state_path=state,
            budget=Budget(replans=0, repairs=1),
            sleep=self._sleep,
        )
        return PhaseAgent(agent, self.box)
