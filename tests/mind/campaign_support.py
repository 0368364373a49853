"""What the tests of Mastermind share: a model of its meta-actions, and a system on a folder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mindx.agents.agint import prompts as agint_prompts
from mindx.agents.improvement.models import ImplementationStatus, ImprovementRequest, ImprovementResult
from mindx.agents.mastermind import prompts
from mindx.agents.system import MindSystem
from mindx.core.message import Role
from mindx.providers.base import ModelRequest
from mindx.providers.scripted import ScriptedProvider, Turn
from mindx.sandbox.fake import FakeSandbox
from mindx.sandbox.fake_programs import ProgramContext
from tests.mind.improvement_support import CODE, SPEC, developed

DATA = Path(__file__).parents[1] / "data"
SEED_PLAN: list[dict[str, Any]] = json.loads((DATA / "seed_campaign.json").read_text())
KINDS = {
    "divide": agint_prompts.PLAN,
    "assess": prompts.ASSESS,
    "strategy": prompts.STRATEGY,
    "concept": prompts.CONCEPT,
    "plan": "You plan",
}
ASSESSMENT = {"assessment": "Nothing counts words.", "gaps": [{"need": "count words", "why": "often asked"}]}
STRATEGY = {"strategy": "Build it.", "identified_need": "a tool that counts words"}


class Strategist:
    """A model that answers by what it is asked; the last turn of a kind is said again and again."""

    def __init__(self, **turns: Iterable[Any]) -> None:
        good: dict[str, list[Any]] = {
            "plan": [SEED_PLAN],
            "assess": [ASSESSMENT],
            "strategy": [STRATEGY],
            "concept": [SPEC],
            "probe": ["OK"],
        }
        self.turns = {**good, **{kind: list(said) for kind, said in turns.items()}}
        self.asked: list[str] = []
        self.provider = ScriptedProvider(self._answer)

    def _answer(self, request: ModelRequest) -> Turn:
        system = next((message.text for message in request.messages if message.role is Role.SYSTEM), "")
        kind = next((kind for kind, text in KINDS.items() if system.startswith(text)), "probe")
        self.asked.append(kind)
        left = self.turns[kind]
        turn = left.pop(0) if len(left) > 1 else left[0]
        return json.dumps(turn) if isinstance(turn, (dict, list)) else turn


async def python3(context: ProgramContext) -> int:
    """Answer as the tool of SPEC does: the program that runs a generated tool, in memory."""
    call = json.loads(context.stdin)
    words = len(str(call["arguments"].get("text", "")).split())
    context.write_stdout(json.dumps({"words": words}).encode())
    return 0


class Developer:
    """Stands for the process of the improvement agent; `answers` are "good" (when none is left, too), or why it failed.

    `gate` holds it until it is set; `asked` is set when it is called.
    """

    def __init__(self, *answers: str, code: str = CODE) -> None:
        self.answers, self.code = list(answers), code
        self.requests: list[ImprovementRequest] = []
        self.asked, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    async def __call__(self, request: ImprovementRequest) -> ImprovementResult:
        self.requests.append(request)
        self.asked.set()
        await self.gate.wait()
        answer = self.answers.pop(0) if self.answers else "good"
        if answer != "good":
            return ImprovementResult.failure(request, ImplementationStatus.FAILED_EVALUATION, answer)
        return developed(request, self.code)


def system(folder: Path, model: Strategist, improve: Any, **options: Any) -> MindSystem:
    """Return a system whose containers are in memory, and in which `improve` develops."""
    return MindSystem(
        folder,
        model.provider,
        improve=improve,
        open_sandbox=lambda policy, progress: FakeSandbox({"python3": python3}),
        **options,
    )
