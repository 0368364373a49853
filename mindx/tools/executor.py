"""The executor: from one Action to one Observation. It keeps each tool's state for as long as it lives."""

from __future__ import annotations

from typing import Any

from mindx.core.observation import Observation, Status
from mindx.core.plan import EXECUTE_TOOL, FAIL, NO_OP, THINK, Action, thaw
from mindx.core.quote import quoted
from mindx.errors import InputError
from mindx.sandbox.base import Sandbox
from mindx.tools.registry import ToolRegistry


class ToolExecutor:
    """Executes Actions in one sandbox. A new one starts clean; hand `states` on to go on where another one stopped.

    `autonomous` is the operator's grant for what destroys.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        sandbox: Sandbox,
        *,
        autonomous: bool = False,
        states: dict[str, Any] | None = None,
    ) -> None:
        self.states: dict[str, Any] = dict(states or {})
        self._registry = registry
        self._sandbox = sandbox
        self._autonomous = autonomous

    async def execute(self, action: Action) -> Observation:
        """Do one Action. A failure is an Observation. Raises SandboxError when the sandbox broke."""
        if action.type == EXECUTE_TOOL:
            return await self._execute_tool(action)
        if action.type == FAIL:
            message = action.params.get("message", "the plan says so")
            return Observation(action.action_id, Status.FAILURE, message, {"status": "FAILURE", "message": message})
        if action.type in (THINK, NO_OP):
            return Observation(action.action_id, Status.SUCCESS, result={"status": "SUCCESS"})
        return _error(action, f"nothing can do an action of type {quoted(action.type)}")

    async def _execute_tool(self, action: Action) -> Observation:
        params = thaw(action.params)
        tool_id = params.pop("tool_id")
        try:
            tool = self._registry.get(tool_id)
        except InputError as error:
            return _error(action, error.message)
        if tool_id not in self.states:
            self.states[tool_id] = tool.initial_state(self._autonomous)
        outcome = await tool.perform(params, self.states[tool_id], self._sandbox)
        self.states[tool_id] = outcome.state
        return Observation(action.action_id, outcome.status, outcome.message, outcome.result, outcome.execution)


def _error(action: Action, message: str) -> Observation:
    return Observation(action.action_id, Status.ERROR, message, {"status": "ERROR", "message": message})
