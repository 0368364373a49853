"""An executor of plain functions, by name: the smallest way to give an agent something to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from mindx.core.action import ActionRequest, ActionRisk, ActionTraits
from mindx.core.agent_context import AgentContext
from mindx.core.nearest import did_you_mean
from mindx.core.observation import Observation, Status
from mindx.core.quote import quoted


class FunctionExecutor:
    """Does Actions by calling `functions[name](arguments, context)`, plain or async, on the host.

    What a function returns becomes the Observation: a dict with `status` as its result, an Observation as it is, any
    other JSON value as its value. `risks` says what a function may do; what is not in it is DANGEROUS. `keys` names the
    argument that is an Action's concurrency key.
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[[Mapping[str, Any], AgentContext], Any]],
        risks: Mapping[str, ActionRisk] | None = None,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        self._functions = dict(functions)
        self._risks = dict(risks or {})
        self._keys = dict(keys or {})

    def assess(self, request: ActionRequest, context: AgentContext) -> ActionTraits:
        """Return the risk and the key of a call."""
        if request.name not in self._functions:
            known = f"{did_you_mean(request.name, self._functions)} known: {', '.join(sorted(self._functions))}"
            return ActionTraits(problem=f"there is no {quoted(request.name)}; {known.strip()}")
        argument = self._keys.get(request.name)
        value = None if argument is None else request.arguments.get(argument)
        key = None if value is None else f"{argument}:{value}"
        return ActionTraits(self._risks.get(request.name, ActionRisk.DANGEROUS), concurrency_key=key)

    async def execute(self, request: ActionRequest, context: AgentContext) -> Observation:
        """Call the function. What it raises is the dispatcher's to answer for."""
        value = self._functions[request.name](request.arguments, context)
        if inspect.isawaitable(value):
            value = await value
        if isinstance(value, Observation):
            return value
        if isinstance(value, dict) and "status" in value:
            status = Status(value["status"])
            return Observation(request.action_id, status, str(value.get("message", "")), value)
        return Observation(request.action_id, Status.SUCCESS, result={"status": "SUCCESS"}, value=value)
