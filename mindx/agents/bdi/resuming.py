"""Taking up goals, plans and steps after the process or the container of the last run ended, and their last word."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mindx.agents.bdi.goals import Desires, Goal, GoalStatus
from mindx.agents.bdi.intention import Intention, PlanStatus, PlanStep, StepStatus, step_result
from mindx.agents.bdi.memory import AgentMemory
from mindx.agents.bdi.own_actions import OWN_TYPES
from mindx.core.action import ActionRisk
from mindx.core.count import counted
from mindx.core.observation import Observation, Status
from mindx.core.plan import EXECUTE_TOOL
from mindx.tools.registry import ToolRegistry

LOG = logging.getLogger("bdi_agent")
UNKNOWN = "mindx ended while it was being done; whether it was done is not known"
LOST = (
    "The container of the last run ended, and with it all that earlier plans had changed in the workspace: it is as it "
    "was in the beginning."
)


def resume(
    memory: AgentMemory, desires: Desires, tools: ToolRegistry, *, kept: bool
) -> list[tuple[Goal, Intention, int]]:
    """Bring the plans of open goals to where they can go on, and return the steps whose effect is not known.

    What one goal's plans did in the container is gone with it, and is done again in the new one: the same plans, in
    their order. Where others had their effect there (a plan that failed, the parts of a goal), the goal gets a new
    plan. What had its effect elsewhere (a meta-action, a tool that works outside of the container) is never done
    again: if it was begun and not finished, its effect is not known. `kept` True: the container is still there, and so
    may be what a command did in it that was begun and not finished.
    """
    unknown: list[tuple[Goal, Intention, int]] = []
    open_goals = [goal for goal in desires.all if goal.open]
    for goal in open_goals:
        plan = memory.plan_of(goal)
        step = None if plan is None or not plan.open else plan.step
        if plan is None or step is None:
            continue
        if step.status is StepStatus.STARTED:
            if repeatable(tools, step) and not (kept and step.type == EXECUTE_TOOL):
                step.status = StepStatus.PENDING
            else:
                unknown.append((goal, plan, plan.index))
        LOG.info("Resuming goal '%s' with plan %s at step %d", goal.goal_id, plan.plan_id, plan.index + 1)
        memory.save(plan=plan)
    if kept or not memory.head.effects:
        return unknown
    row = _row(memory, open_goals)
    if row is None:
        _begin_anew(memory, desires, open_goals)
        for goal, plan, index in unknown:
            memory.tries(goal).trouble = f"{LOST} Whether {plan.steps[index].label} was done is not known."
        unknown = []
    for plan in row or ():
        _redo(plan, tools)
        memory.save(plan=plan)
    memory.head.effects = []
    return unknown


def settle(memory: AgentMemory, plan: Intention, index: int, observations: Sequence[Observation]) -> None:
    """Take in the result of a step that the end of a run kept from being perceived; a cancelled one is not known."""
    step = plan.steps[index]
    found = next((item for item in reversed(observations) if item.action_id == plan.action_id), None)
    if found is not None and found.ok:
        plan.done(index, step_result(found))
    elif found is not None and found.status is not Status.CANCELLED:
        step.status = StepStatus.PENDING
        step.attempts += 1
    with memory.lenient():
        memory.save_step(plan, index)


def _row(memory: AgentMemory, open_goals: list[Goal]) -> list[Intention] | None:
    """Return the plans of the one goal whose plans had an effect in the container, None where it is not one row."""
    effects = set(memory.head.effects)
    for goal in open_goals:
        plans = [memory.plans[plan_id] for plan_id in goal.plan_ids]
        row = [plan for plan in plans if plan.status not in (PlanStatus.FAILED, PlanStatus.PAUSED)]
        if effects <= {plan.plan_id for plan in row}:
            return row
    return None


def repeatable(tools: ToolRegistry, step: PlanStep) -> bool:
    """Return whether a step can be done twice: it changes nothing outside of the container, as far as is known."""
    if step.type != EXECUTE_TOOL:
        return step.type in OWN_TYPES
    tool = tools.find(str(step.params.get("tool_id", "")))
    return tool is not None and (tool.works_inside or tool.definition.risk is ActionRisk.READ_ONLY)


def note_effect(memory: AgentMemory, tools: ToolRegistry, plan: Intention, step: PlanStep) -> None:
    """Take in that a step of a plan was done, which may have left something in the container."""
    if step.type == EXECUTE_TOOL and repeatable(tools, step) and plan.plan_id not in memory.head.effects:
        memory.head.effects.append(plan.plan_id)


def _redo(plan: Intention, tools: ToolRegistry) -> None:
    """Let what a plan did in the container be done again."""
    done = [step for step in plan.steps if step.type == EXECUTE_TOOL and step.status is StepStatus.DONE]
    redone = [step for step in done if repeatable(tools, step)]
    for step in redone:
        step.status, step.result = StepStatus.PENDING, None
        step.attempts += 1
    if redone:
        LOG.info("The container is new: %s of plan %s done again", counted(len(redone), "step"), plan.plan_id)
        plan.index, plan.status = 0, PlanStatus.EXECUTING


def _begin_anew(memory: AgentMemory, desires: Desires, open_goals: list[Goal]) -> None:
    """Give the topmost open goals a new plan, and drop the parts that they were split into."""
    LOG.info("The container is new, and several plans had worked in the last one: planning anew")
    for goal in open_goals:
        plan = memory.plan_of(goal)
        if plan is not None and plan.open:
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
