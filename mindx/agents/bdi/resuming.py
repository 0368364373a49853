"""Taking up goals, plans and steps after the process or the container of the last run ended."""

from __future__ import annotations

import logging

from mindx.agents.bdi.acts import OWN_TYPES
from mindx.agents.bdi.goals import Desires, Goal, GoalStatus
from mindx.agents.bdi.intention import Intention, PlanStatus, StepStatus
from mindx.agents.bdi.memory import AgentMemory
from mindx.core.plan import EXECUTE_TOOL

LOG = logging.getLogger("bdi_agent")
LOST = (
    "The container of the last run ended, and with it all that earlier plans had changed in the workspace: it is as it "
    "was in the beginning."
)


def resume(memory: AgentMemory, desires: Desires, *, kept: bool) -> list[tuple[Goal, Intention, int]]:
    """Bring the plans of open goals to where they can go on, and return the steps whose effect is not known.

    What ran in the container is gone with it, so it is done again, in the new one, as the same plan; where several
    plans had their effect there, the goal gets a new plan. What had its effect elsewhere (a meta-action) is never done
    again: if it was begun and not finished, its effect is not known. `kept` True: the container is still there, and so
    may be what a command did in it that was begun and not finished.
    """
    unknown: list[tuple[Goal, Intention, int]] = []
    open_goals = [goal for goal in desires.all if goal.open]
    current = [(goal, plan) for goal in open_goals if (plan := _going(memory, goal)) is not None]
    lost = [plan_id for plan_id in memory.head.effects if plan_id not in {plan.plan_id for _, plan in current}]
    again = not kept and (bool(lost) or len(current) > 1) and bool(memory.head.effects)
    for goal, plan in current:
        step = plan.step
        if step is not None and step.status is StepStatus.STARTED:
            if step.type in OWN_TYPES and not (kept and step.type == EXECUTE_TOOL):
                step.status = StepStatus.PENDING
            else:
                unknown.append((goal, plan, plan.index))
        if not kept and not again:
            _redo(plan)
        LOG.info("Resuming goal '%s' with plan %s at step %d", goal.goal_id, plan.plan_id, plan.index + 1)
        memory.save(plan=plan)
    if again:
        _begin_anew(memory, desires, open_goals)
        unknown = []
    if not kept:
        memory.head.effects = []
    return unknown


def _going(memory: AgentMemory, goal: Goal) -> Intention | None:
    plan = memory.plan_of(goal)
    return None if plan is None or plan.status in (PlanStatus.FAILED, PlanStatus.COMPLETED) else plan


def _redo(plan: Intention) -> None:
    """Let what was done in the container be done again."""
    redone = [step for step in plan.steps if step.type == EXECUTE_TOOL and step.status is StepStatus.DONE]
    for step in redone:
        step.status, step.result = StepStatus.PENDING, None
        step.attempts += 1
    if redone:
        LOG.info("The container is new: %d steps of plan %s are done again", len(redone), plan.plan_id)
        plan.index = 0


def _begin_anew(memory: AgentMemory, desires: Desires, open_goals: list[Goal]) -> None:
    """Give the topmost open goals a new plan, and drop the parts that they were split into."""
    LOG.info("The container is new, and several plans had worked in the last one: planning anew")
    for goal in open_goals:
        plan = _going(memory, goal)
        if plan is not None:
            plan.status = PlanStatus.FAILED
            memory.save(plan=plan)
        parents = desires.above(goal)
        if any(parent.open for parent in parents):
            goal.status, goal.reason = GoalStatus.CANCELLED, LOST
        else:
            goal.status = GoalStatus.PENDING
            goal.depends_on = [needed for needed in goal.depends_on if desires.get(needed).parent_id != goal.goal_id]
            memory.tries(goal).trouble = LOST
        memory.save(goals=(goal,))
