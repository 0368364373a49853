"""What a plan's Actions do: THINK, NO_OP and FAIL here, EXECUTE_TOOL through its tool."""

from __future__ import annotations

from typing import Any

from mindx.core.action import ActionRequest
from mindx.core.agent_context import AgentContext
from mindx.core.observation import Observation, Status
from mindx.core.plan import EXECUTE_TOOL, FAIL, NO_OP, THINK, Action, thaw
from mindx.errors import InputError
from mindx.runtime.fixed_plan import action_of
from mindx.sandbox.base import Sandbox
from mindx.tools.command_tool import CommandTool
from mindx.tools.executor import ToolExecutor
from mindx.tools.registry import ToolRegistry, plan_arguments


class PlanActions:
    """Does Actions in one sandbox. Each tool's state (current directory, environment ...) lives here, for one Run.

    `autonomous` is the operator's grant for what destroys. `states` is what an earlier Run left, if this one goes on
    from there; it is kept up to date.
    """

    def __init__(
        self,
        tools: ToolRegistry,
        sandbox: Sandbox,
        *,
        autonomous: bool = False,
        states: dict[str, Any] | None = None,
    ) -> None:
        self.states: dict[str, Any] = {} if states is None else states
        for tool in tools.command_tools:
            self.states.setdefault(tool.tool_id, tool.initial_state(autonomous))
        self._tools = tools
        self._sandbox = sandbox

    async def execute(self, request: ActionRequest, context: AgentContext) -> Observation:
        """Do one Action. A failure is an Observation. Raises SandboxError, InputError (unknown type or tool)."""
        action = action_of(request)
        if action.type == EXECUTE_TOOL:
            return await self._use_tool(action, context)
        if action.type == FAIL:
            message = str(action.params.get("message") or "the plan says FAIL")
            return Observation(action.action_id, Status.FAILURE, message, {"status": "FAILURE", "message": message})
        if action.type in (THINK, NO_OP):
            return Observation(action.action_id, Status.SUCCESS, "", {"status": "SUCCESS"})
        raise InputError("action_unknown", f"nothing here does actions of the type {action.type}")

    async def _use_tool(self, action: Action, context: AgentContext) -> Observation:
        params = thaw(action.params)
        tool = self._tools.get(params.pop("tool_id"))
        if not isinstance(tool, CommandTool):
            call = ActionRequest(action.action_id, tool.tool_id, plan_arguments(tool, params))
            return await ToolExecutor([tool]).execute(call, context)
        outcome = await tool.perform(params, self.states[tool.tool_id], self._sandbox)
        self.states[tool.tool_id] = outcome.state
        return Observation(action.action_id, outcome.status, outcome.message, outcome.result, outcome.execution)
