"""From a step of a plan to the request that the loop carries out, and from criteria to their check."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mindx.agents.bdi.acts import OWN_TYPES
from mindx.agents.bdi.checking import VERIFY_CRITERION
from mindx.agents.bdi.goals import Goal
from mindx.agents.bdi.intention import Intention, PlanStep, StepStatus, step_result
from mindx.agents.bdi.memory import AgentMemory
from mindx.agents.bdi.plan_check import resolver
from mindx.agents.bdi.prompts import shown
from mindx.agents.bdi.references import filled, within
from mindx.agents.beliefs import BeliefSystem
from mindx.core.action import ActionRequest
from mindx.core.agent_context import AgentContext
from mindx.core.observation import Observation, Status
from mindx.core.plan import EXECUTE_TOOL
from mindx.tools.base import BaseTool
from mindx.tools.registry import ToolRegistry, plan_arguments

LOG = logging.getLogger("bdi_agent")


class Acting:
    """Makes requests. `spend` is called before each command."""

    def __init__(
        self,
        tools: ToolRegistry,
        acts: Mapping[str, BaseTool],
        beliefs: BeliefSystem,
        namespace: str,
        *,
        spend: Callable[[], None],
    ) -> None:
        self._tools = tools
        self._acts = acts
        self._beliefs = beliefs
        self._namespace = namespace
        self._spend = spend
        self._active = ""
        self._states: dict[str, dict[str, Any]] = {}

    def begin(self) -> None:
        """Forget the tools' states: a run begins."""
        self._active, self._states = "", {}

    def params(self, plan: Intention, step: PlanStep) -> dict[str, Any]:
        """Return a step's params with the values of its references. Raises InputError (reference_unresolved, ...)."""
        resolve = within(resolver(lambda number: plan.steps[number - 1].result, self._beliefs, self._namespace))
        found: dict[str, Any] = filled(step.params, resolve)
        return found

    def request(self, action_id: str, step: PlanStep, params: Mapping[str, Any]) -> ActionRequest:
        """Return the request for a step. Raises BudgetReachedError when no command is left."""
        if step.type not in OWN_TYPES or step.type == EXECUTE_TOOL:
            self._spend()
        if step.type != EXECUTE_TOOL:
            return ActionRequest(action_id, self._acts[step.type].tool_id, dict(params))
        arguments = dict(params)
        name = str(arguments.pop("tool_id"))
        tool = self._tools.find(name)
        return ActionRequest(action_id, name, arguments if tool is None else plan_arguments(tool, arguments))

    def is_active(self, plan: Intention) -> bool:
        """Return whether the tools' state is that which this plan left."""
        return self._active == plan.plan_id

    def go_on(self, before: Intention, plan: Intention) -> None:
        """Let a plan go on with the tools' state that another left."""
        if self.is_active(before):
            self._active = plan.plan_id

    def enter(self, plan: Intention, context: AgentContext) -> None:
        """Give each plan the tools' clean state, and one that goes on after others its own again."""
        if self._active == plan.plan_id:
            return
        names = [tool.tool_id for tool in self._tools.command_tools]
        if self._active:
            kept = {name: context.tool_states[name] for name in names if name in context.tool_states}
            self._states[self._active] = kept
        for name in names:
            context.tool_states.pop(name, None)
        context.tool_states.update(self._states.get(plan.plan_id, {}))
        self._active = plan.plan_id


def checks(goal: Goal, cycle: int) -> list[ActionRequest]:
    """Return one request for each criterion of a goal; `cycle` makes their ids new."""
    return [
        ActionRequest(
            f"check_{goal.goal_id}_{len(goal.plan_ids)}_{cycle}_{number}",
            VERIFY_CRITERION,
            {"criterion": item.model_dump(mode="json", exclude_none=True)},
        )
        for number, item in enumerate(goal.criteria, 1)
    ]


def judged(goal: Goal, observations: Sequence[Observation]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the evidence for each criterion that holds, and why the others do not."""
    evidence: dict[str, tuple[str, ...]] = {}
    unmet: list[str] = []
    for number, observation in enumerate(observations, 1):
        reason = str(observation.result.get("reason") or observation.error or observation.message)
        if observation.ok and observation.result.get("verified") is True:
            evidence[f"{goal.goal_id}.{number}"] = (f"ev_{observation.action_id}",)
            LOG.info("Criterion %d of goal '%s' holds: %s", number, goal.goal_id, shown(reason, 400))
        else:
            LOG.warning("Criterion %d of '%s' does not hold: %s", number, goal.goal_id, shown(reason, 400))
            unmet.append(reason)
    if len(observations) < len(goal.criteria):
        unmet.append("not all criteria were checked")
    return evidence, unmet


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
