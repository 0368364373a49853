"""From a step of a plan to the request that the loop carries out, with the state that its tool was left in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mindx.agents.bdi.intention import Intention, PlanStep
from mindx.agents.bdi.own_actions import OWN_TYPES
from mindx.agents.bdi.plan_check import resolver
from mindx.agents.bdi.references import filled, within
from mindx.agents.beliefs import BeliefSystem
from mindx.core.action import ActionRequest
from mindx.core.agent_context import AgentContext
from mindx.core.plan import EXECUTE_TOOL
from mindx.tools.base import BaseTool
from mindx.tools.registry import ToolRegistry, plan_arguments


class StepRequests:
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
