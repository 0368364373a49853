"""context_query: what the run itself knows: its metadata and its artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindx.core.action import ActionRisk
from mindx.core.nearest import did_you_mean
from mindx.core.output import plain_value
from mindx.core.quote import quoted
from mindx.tools.base import BaseTool, ToolDefinition, ToolError
from mindx.tools.context import ToolContext

MAX_KEYS = 500
MAX_TEXT = 200_000  # characters of one value


class ContextQueryTool(BaseTool):
    """Reads one value by its key, or lists the keys."""

    definition = ToolDefinition(
        name="context_query",
        description="Look at this run's metadata or artifacts: one value by its key, or all keys without one.",
        parameters={
            "type": "object",
            "properties": {
                "source": {"type": "string", "enum": ["metadata", "artifacts"]},
                "key": {"type": "string", "description": "leave it out for the list of keys"},
            },
            "required": ["source"],
            "additionalProperties": False,
        },
        risk=ActionRisk.READ_ONLY,
    )

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return `keys`, or `key` and `value`; a value that is no JSON value is given as text."""
        source = arguments["source"]
        values: dict[str, Any] = {"run_id": context.run_id, "session_id": context.session_id, "step": context.step}
        values = {**values, **context.metadata} if source == "metadata" else context.artifacts
        key = arguments.get("key")
        if key is None:
            names = sorted(map(str, values))
            return {"source": source, "keys": names[:MAX_KEYS], "more": max(0, len(names) - MAX_KEYS)}
        if key not in values:
            hint = did_you_mean(key, map(str, values)) or "call it without `key` for the list"
            raise ToolError(f"there is no {quoted(key)} among the {source}; {hint}")
        try:
            value = plain_value(values[key])
        except RecursionError:
            raise ToolError(f"{quoted(key)} is nested too deep to be shown") from None
        if isinstance(value, str) and len(value) > MAX_TEXT:
            return {"source": source, "key": key, "value": value[:MAX_TEXT], "characters": len(value)}
        return {"source": source, "key": key, "value": value}
