"""How goals end, and what a failure does to them."""

from __future__ import annotations

import logging

from mindx.agents.bdi.failure import Diagnosis
from mindx.agents.bdi.goals import Desires, Goal, GoalStatus
from mindx.agents.bdi.intention import Intention, PlanStatus
from mindx.agents.bdi.memory import AgentMemory
from mindx.agents.bdi.prompts import shown
from mindx.agents.bdi.recovery import Recovery
from mindx.agents.bdi.trail import Trail

LOG = logging.getLogger("bdi_agent")
MAX_REASON = 4000


class Closing:
    """Ends goals, or finds a way on. `questions` has what the user is to be asked, by goal_id."""

    def __init__(self, memory: AgentMemory, desires: Desires, recovery: Recovery, trail: Trail) -> None:
        self.questions: dict[str, str] = {}
        self._memory = memory
        self._desires = desires
        self._recovery = recovery
        self._trail = trail

    def achieved(self, goal: Goal, plan: Intention) -> None:
        """Note that a goal was achieved."""
        plan.status, goal.status, goal.reason = PlanStatus.COMPLETED, GoalStatus.COMPLETED_SUCCESS, ""
        LOG.info("Plan %s completed.", plan.plan_id)
        LOG.info("Goal '%s' achieved successfully.", goal.goal_id)
        self._trail.note("goal_achieved", goal_id=goal.goal_id, plan_id=plan.plan_id)
        self._recovery.achieved(goal)
        self._memory.save(goals=(goal,), plan=plan)

    async def failed(self, goal: Goal, plan: Intention | None, index: int, found: Diagnosis, *, can_ask: bool) -> None:
        """Deal with a failure: try again, plan anew, ask, or give the goal up. `index` -1: of no step."""
        way = await self._recovery.recover(goal, plan, index, found, can_ask=can_ask)
        if way.question:
            self.questions[goal.goal_id] = way.question
        if way.gives_up:
            self.give_up(goal, GoalStatus.FAILED_EXECUTION, way.reason)

    def give_up(self, goal: Goal, status: GoalStatus, reason: str) -> None:
        """Give a goal up, and with it the goals that were parts of it."""
        goal.status, goal.reason = status, reason[:MAX_REASON]
        LOG.error("Goal '%s' failed: %s", goal.goal_id, shown(reason, 400))
        self._trail.note("goal_failed", goal_id=goal.goal_id, status=status.value, reason=goal.reason)
        below = [part for part in self._desires.below(goal.goal_id) if part.open]
        for part in below:
            part.status, part.reason = GoalStatus.CANCELLED, f"{goal.goal_id} was given up"
        self._memory.save(goals=(goal, *below))
