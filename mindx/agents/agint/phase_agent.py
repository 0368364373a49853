"""The BDI agent of one phase: it always runs in the mission's container."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mindx.agents.bdi import BDIAgent, BDIResult, Criterion, Goal
from mindx.agents.bdi.checking import VERIFY_CRITERION
from mindx.agents.bdi.run import limits_for
from mindx.agents.outer_failure import raise_outer
from mindx.core.action import ActionRequest
from mindx.core.agent_context import AgentContext
from mindx.core.agent_session import SessionPolicy
from mindx.core.checkpoint import TaskState
from mindx.core.decision import AgentDecision
from mindx.core.protocols import Asker, EventHandler, HumanApprovalHandler
from mindx.runtime.agent_runtime import AgentRuntime
from mindx.runtime.lazy_sandbox import LazySandbox
from mindx.runtime.run_ids import new_id
from mindx.runtime.scripted_reasoner import ScriptedReasoner
from mindx.tools.executor import ToolExecutor


class PhaseAgent:
    """A BDI agent as AGInt needs it; without `on_question` what it asks has no answer."""

    def __init__(
        self,
        agent: BDIAgent,
        box: LazySandbox,
        approval_handler: HumanApprovalHandler | None = None,
        on_question: Asker | None = None,
        event_handler: EventHandler | None = None,
    ) -> None:
        self._agent, self._box = agent, box
        self._approve, self._answer, self._hear = approval_handler, on_question, event_handler

    @property
    def goal(self) -> Goal | None:
        """The goal that it has from before, or None."""
        return self._agent.goal

    def set_goal(self, text: str, criteria: Sequence[Any] = (), priority: int = 100) -> Goal:
        """Give it its goal. Raises InputError."""
        return self._agent.set_goal(text, criteria, priority)

    async def run(self) -> BDIResult:
        """Pursue the goal to an end."""
        return await self._agent.run(
            box=self._box,
            approval_handler=self._approve,
            on_question=self._answer,
            event_handler=self._hear,
        )

    async def check(self, criteria: Sequence[Criterion]) -> tuple[str, ...]:
        """Return what keeps these criteria from holding now, () when all hold. Raises SandboxError."""
        forms = [{"criterion": item.model_dump(mode="json", exclude_none=True)} for item in criteria]
        asked = [ActionRequest(f"check_{number}", VERIFY_CRITERION, form) for number, form in enumerate(forms)]
        if not asked:
            return ()
        context = AgentContext(
            run_id=new_id("run"),
            task="check what was achieved",
            task_state=TaskState("check what was achieved"),
            config=limits_for(self._agent, asks=False, answers=False),
            policy=SessionPolicy(),
            open_sandbox=self._box.open,
            operator_engine=self._box.engine,
        )
        reasoner = ScriptedReasoner([AgentDecision.act(*asked)])
        async with AgentRuntime(reasoner, ToolExecutor(self._agent.registry), event_handler=self._hear) as runtime:
            result = await runtime.run_in(context)
        raise_outer(result)
        return tuple(
            str(seen.result.get("reason") or seen.message)
            for seen in result.observations
            if not (seen.ok and seen.result.get("verified") is True)
        )

    async def close(self) -> None:
        """Let go of its state."""
        await self._agent.close()
