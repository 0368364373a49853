"""What a model says about results: the final answer, a verdict on a statement, and the parts of a goal."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mindx.agents.bdi.goals import Goal
from mindx.agents.bdi.memory import AgentMemory
from mindx.agents.bdi.model_desk import ModelDesk
from mindx.agents.bdi.prompts import JUDGE, MAX_PAST, REPORTER, SPLITTER, data, shown, steps_of
from mindx.core.message import ChatMessage
from mindx.errors import InputError, ProviderError

LOG = logging.getLogger("bdi_agent")
MAX_ANSWER = 20_000


class Reporting:
    """Asks the agent's model about what was done. `reports` False: the final answer is a sentence of mindx itself."""

    def __init__(self, desk: ModelDesk, memory: AgentMemory, *, reports: bool) -> None:
        self._desk = desk
        self._memory = memory
        self._reports = reports

    async def answer(self, goal: Goal, before: Callable[[], None]) -> str:
        """Return the final answer to a goal that was achieved; where no model can say it, a plain one."""
        plain = f"The goal was achieved: {shown(goal.text, 500)}"
        if not self._reports:
            return plain
        before()
        question = f"The goal: {goal.text}\n\nWhat was done:\n{data(self._material())}"
        try:
            text = await self._desk.ask([ChatMessage.system(REPORTER), ChatMessage.user(question)])
        except ProviderError as error:  # the goal is achieved all the same
            LOG.warning("No report: %s", error.message)
            return plain
        return text.strip()[:MAX_ANSWER] or plain

    async def verdict(self, statement: str) -> tuple[bool, str]:
        """Return whether the results prove a statement, and why. Raises ProviderError."""
        found = await self._desk.ask_json(
            JUDGE, f"The statement: {statement}\n\nWhat was done:\n{data(self._material())}"
        )
        if not isinstance(found, dict) or not isinstance(found.get("verified"), bool):
            return False, "the model gave no verdict"
        return found["verified"], shown(str(found.get("reason", "")), 1000)

    async def parts(self, goal: Goal) -> list[str]:
        """Return 1 to 8 smaller goals. Raises InputError (goal_invalid) when the model gives none, ProviderError."""
        found = await self._desk.ask_json(
            SPLITTER, f"The goal: {goal.text}\n\nWhat was done:\n{data(self._material())}"
        )
        texts = found.get("goals") if isinstance(found, dict) else None
        if not isinstance(texts, list) or not 0 < len(texts) <= 8 or not all(isinstance(text, str) for text in texts):
            raise InputError("goal_invalid", "the model split the goal into nothing that can be pursued")
        return texts

    def _material(self) -> str:
        plans = list(self._memory.plans.values())[-5:]
        return "\n".join(row for plan in plans for row in steps_of(plan))[-MAX_PAST:] or "nothing yet"
