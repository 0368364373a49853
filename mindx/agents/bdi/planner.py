"""Having a plan made for a goal: what the planner is told of how things stand, and what it may not answer again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindx.agents.bdi.budget import Budget
from mindx.agents.bdi.goals import Desires, Goal
from mindx.agents.bdi.intention import Intention, PlanStatus
from mindx.agents.bdi.memory import AgentMemory
from mindx.agents.bdi.own_actions import OWN_KEYS
from mindx.agents.bdi.plan_dialogue import PlanDialogue, PlanningError
from mindx.agents.bdi.prompts import situation
from mindx.agents.beliefs import Belief, BeliefSystem
from mindx.core.agent_context import AgentContext
from mindx.core.fault import Fault

MAX_BELIEFS = 40


class Planner:
    """Plans for the goals of one agent. `before_model` may refuse that a model is asked, by raising."""

    def __init__(
        self,
        dialogue: PlanDialogue,
        memory: AgentMemory,
        desires: Desires,
        beliefs: BeliefSystem,
        namespace: str,
        budget: Budget,
        before_model: Callable[[], None],
    ) -> None:
        self._dialogue = dialogue
        self._memory = memory
        self._desires = desires
        self._beliefs = beliefs
        self._namespace = namespace
        self._budget = budget
        self._before_model = before_model

    def continued(self, goal: Goal) -> Intention | None:
        """Return the plan that the coming one goes on after, or None when it begins anew."""
        last = self._memory.plan_of(goal)
        going_on = last is not None and last.status is PlanStatus.COMPLETED and not last.complete
        return last if going_on else None

    async def make(self, goal: Goal, context: AgentContext, states: dict[str, Any], *, may_ask: bool) -> Intention:
        """Return a plan, kept in memory. Raises PlanningError, ProviderError, BudgetReachedError."""
        if len(goal.plan_ids) >= self._budget.plans:
            fault = Fault("plans", None, f"{self._budget.plans} were made, and the goal is not reached")
            raise PlanningError(0, (fault,))
        tries = self._memory.tries(goal)
        before = self.continued(goal)
        past = [plan for plan in self._memory.plans.values() if plan.goal_id == goal.goal_id]
        above = self._desires.above(goal)
        text = situation(goal, above, self._known(), past[-5:], tries.trouble, tries.hint)
        plan = await self._dialogue.plan(
            goal,
            text,
            context,
            failed=tries.failed_plans if before is None else [*tries.failed_plans, before.sha256],
            may_ask=may_ask,
            states=states,
            before_attempt=self._before_model,
        )
        tries.trouble = tries.hint = ""
        goal.plan_ids.append(plan.plan_id)
        self._memory.save(goals=(goal,), plan=plan)
        return plan

    def _known(self) -> list[Belief]:
        """Return what the planner is told of beliefs: the surest and latest, without the agent's own notes."""
        found = self._beliefs.query(namespace=self._namespace)
        told = [item for item in found if not item.key.startswith(OWN_KEYS)]
        return sorted(told, key=lambda item: (-item.confidence, -item.updated))[:MAX_BELIEFS]
