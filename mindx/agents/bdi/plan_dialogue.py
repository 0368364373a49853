"""The dialogue about one plan: the model proposes, the checker disposes, and faults go back, all of them at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from mindx.agents.bdi.goals import Goal
from mindx.agents.bdi.intention import Intention, PlanStep
from mindx.agents.bdi.model_desk import ModelDesk
from mindx.agents.bdi.plan_check import PlanChecker
from mindx.agents.bdi.plan_text import plan_text
from mindx.agents.bdi.prompts import faults_text
from mindx.agents.bdi.trail import Trail
from mindx.core.agent_context import AgentContext
from mindx.core.count import counted
from mindx.core.fault import Fault
from mindx.core.message import ChatMessage
from mindx.core.plan import thaw
from mindx.errors import MindxError

MAX_TOLD, MAX_ANSWER = 50, 20_000  # faults, and characters of a model's answer, in the record
LOG = logging.getLogger("bdi_agent")


class PlanningError(MindxError):
    """The model gave no plan that can be taken: `faults` are those of its last. Code: plan_unusable."""

    def __init__(self, attempts: int, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        shown = "; ".join(f"{fault.path}: {fault.message}" for fault in self.faults[:5])
        more = f" (and {len(self.faults) - 5} more)" if len(self.faults) > 5 else ""
        message = f"no plan of the model could be taken, in {counted(attempts, 'attempt')}; the last one: {shown}{more}"
        if not attempts:
            message = shown
        super().__init__("plan_unusable", message, details={"faults": [fault.to_dict() for fault in self.faults[:20]]})


class PlanDialogue:
    """Has plans made for goals; `repairs` is how often one goes back.

    `told` returns what tells the model how to plan, the system prompt and the answer's schema, at the moment when a
    plan is made.
    """

    def __init__(
        self,
        desk: ModelDesk,
        checker: PlanChecker,
        told: Callable[[], tuple[str, Mapping[str, Any]]],
        *,
        repairs: int,
        new_id: Callable[[str], str],
        trail: Trail,
    ) -> None:
        self._desk = desk
        self._checker = checker
        self._told = told
        self._repairs = repairs
        self._new_id = new_id
        self._trail = trail

    async def plan(
        self,
        goal: Goal,
        situation: str,
        context: AgentContext,
        *,
        failed: Collection[str],
        may_ask: bool,
        states: Mapping[str, Any],
        before_attempt: Callable[[], None],
    ) -> Intention:
        """Return a validated plan for a goal. Raises PlanningError, ProviderError, and what `before_attempt` raises.

        `failed` are the digests of plans that are not taken again, `states` what tools remember from before.
        """
        system, schema = self._told()
        messages = [ChatMessage.system(system), ChatMessage.user(situation)]
        faults: tuple[Fault, ...] = ()
        for attempt in range(self._repairs + 1):
            before_attempt()
            text = await self._desk.ask(messages, schema)
            told = plan_text(text)
            parsed, faults = self._checker.check(told.source, context, states, may_ask=may_ask)
            plan = parsed.plan
            if plan is not None and not faults:
                if plan.sha256 not in failed:
                    steps = [PlanStep(type=action.type, params=thaw(action.params)) for action in plan.actions]
                    made = Intention(
                        plan_id=self._new_id("plan"),
                        goal_id=goal.goal_id,
                        sha256=plan.sha256,
                        complete=told.complete,
                        steps=steps,
                    )
                    actions = [action.to_dict() for action in plan.actions]
                    self._trail.note(
                        "plan_taken",
                        goal_id=goal.goal_id,
                        plan_id=made.plan_id,
                        sha256=made.sha256,
                        complete=made.complete,
                        actions=actions,
                    )
                    return made
                faults = (Fault("$", None, "this very plan was tried before", "do it in another way"),)
            told_faults = [fault.to_dict() for fault in faults[:MAX_TOLD]]
            self._trail.note(
                "plan_refused", goal_id=goal.goal_id, attempt=attempt + 1, faults=told_faults, answer=text[:MAX_ANSWER]
            )
            LOG.warning(
                "Plan attempt %d is not valid: %s; %s", attempt + 1, counted(len(faults), "fault"), _first(faults)
            )
            # Only the last wrong answer goes along: a long row of them would fill a context.
            messages[2:] = [ChatMessage.assistant(text[:100_000]), ChatMessage.user(faults_text(faults))]
        raise PlanningError(self._repairs + 1, faults)


def _first(faults: Sequence[Fault]) -> str:
    return f"{faults[0].path}: {faults[0].message}" if faults else "it holds nothing"
