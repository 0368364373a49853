"""memory: keys and values in this process, by the session's namespace; no argument can reach another's."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from mindx.core.action import ActionRisk, ActionTraits
from mindx.core.agent_context import AgentContext
from mindx.core.nearest import did_you_mean
from mindx.core.quote import quoted
from mindx.tools.base import BaseTool, ToolDefinition, ToolError
from mindx.tools.context import ToolContext

MAX_KEYS = 1000  # of one namespace
MAX_KEY = 200  # characters
MAX_VALUE_CHARS = 64 * 1024  # as JSON
MAX_NAMESPACES = 1000


class MemoryTool(BaseTool):
    """One object is one memory, shared by the sessions of its runtime and kept apart by their namespaces.

    It holds MAX_NAMESPACES namespaces; the one that was longest unused is forgotten for a new one.
    """

    definition = ToolDefinition(
        name="memory",
        description="Keep values by key for later steps and runs of this session, while the program runs.",
        parameters={
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["get", "set", "delete", "list"]},
                "key": {"type": "string", "minLength": 1, "maxLength": MAX_KEY},
                "value": {"description": "any JSON value, for set"},
            },
            "required": ["action"],
            "additionalProperties": False,
        },
        risk=ActionRisk.WRITE,
    )

    def __init__(self) -> None:
        self._spaces: OrderedDict[str, dict[str, str]] = OrderedDict()

    @property
    def least_risk(self) -> ActionRisk:
        """Reading it changes nothing."""
        return ActionRisk.READ_ONLY

    def assess(self, arguments: Mapping[str, Any], context: AgentContext) -> ActionTraits:
        """Return WRITE for what changes the memory."""
        reads = arguments["action"] in ("get", "list")
        if arguments["action"] != "list" and "key" not in arguments:
            return ActionTraits(problem=f"{arguments['action']} needs a `key`")
        if arguments["action"] == "set" and "value" not in arguments:
            return ActionTraits(problem="set needs a `value`")
        return ActionTraits(ActionRisk.READ_ONLY if reads else ActionRisk.WRITE)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return `keys` (list), or `key` and `value` (get), `stored` (set), `deleted` (delete)."""
        action, key = arguments["action"], arguments.get("key", "")
        space = self._space(context.memory_namespace)
        if action == "list":
            return {"keys": sorted(space)}
        if not key:
            raise ToolError(f"{action} needs a `key`")
        if action == "set":
            self._set(space, key, arguments)
            return {"key": key, "stored": True}
        if action == "delete":
            return {"key": key, "deleted": space.pop(key, None) is not None}
        if key not in space:
            hint = did_you_mean(key, space) or "list the keys first"
            raise ToolError(f"nothing is kept under {quoted(key)}; {hint}")
        return {"key": key, "value": json.loads(space[key])}

    def _space(self, namespace: str) -> dict[str, str]:
        if namespace not in self._spaces:
            while len(self._spaces) >= MAX_NAMESPACES:
                self._spaces.popitem(last=False)
            self._spaces[namespace] = {}
        self._spaces.move_to_end(namespace)
        return self._spaces[namespace]

    @staticmethod
    def _set(space: dict[str, str], key: str, arguments: Mapping[str, Any]) -> None:
        if "value" not in arguments:
            raise ToolError("set needs a `value`")
        # As text: what was kept cannot change when the caller's own object does.
        text = json.dumps(arguments["value"], allow_nan=False)
        if len(text) > MAX_VALUE_CHARS:
            raise ToolError(f"the value has {len(text):,} characters; at most {MAX_VALUE_CHARS:,} are kept")
        if key not in space and len(space) >= MAX_KEYS:
            raise ToolError(f"{MAX_KEYS:,} keys are kept already; delete one first")
        space[key] = text
