"""long_term_memory: what outlives a task, found again by its words."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mindx.core.action import ActionRisk, ActionTraits
from mindx.core.agent_context import AgentContext
from mindx.tools.base import BaseTool, ToolDefinition
from mindx.tools.context import ToolContext

MAX_TEXT = 20_000  # characters of one memory
DEFAULT_RESULTS, MAX_RESULTS = 10, 50
_NEEDED = {"remember": "text", "search": "query", "forget": "memory_id"}


class SearchableMemory(Protocol):
    """A store of texts by namespace (runtime/tasks/long_term has one on the disk)."""

    def remember(self, namespace: str, text: str, source: str = "") -> int:
        """Keep a text and return its id."""
        ...

    def search(self, namespace: str, query: str, limit: int = 10) -> Sequence[Mapping[str, Any]]:
        """Return the texts that fit best, best first."""
        ...

    def forget(self, namespace: str, memory_id: int) -> bool:
        """Remove one text; return False when the namespace has none of that id."""
        ...


class LongTermMemoryTool(BaseTool):
    """Remembers, searches and forgets in the session's own namespace."""

    definition = ToolDefinition(
        name="long_term_memory",
        description="Remember a text for later tasks, search what was remembered by its words, or forget one.",
        parameters={
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": list(_NEEDED)},
                "text": {"type": "string", "minLength": 1, "maxLength": MAX_TEXT, "description": "for remember"},
                "query": {"type": "string", "minLength": 1, "maxLength": 500, "description": "words, for search"},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS},
                "memory_id": {"type": "integer", "description": "for forget"},
            },
            "required": ["action"],
            "additionalProperties": False,
        },
        risk=ActionRisk.WRITE,
    )

    def __init__(self, memory: SearchableMemory) -> None:
        self._memory = memory

    @property
    def least_risk(self) -> ActionRisk:
        """Searching changes nothing."""
        return ActionRisk.READ_ONLY

    def assess(self, arguments: Mapping[str, Any], context: AgentContext) -> ActionTraits:
        """Return WRITE for what changes the memory."""
        action = arguments["action"]
        if _NEEDED[action] not in arguments:
            return ActionTraits(problem=f"{action} needs `{_NEEDED[action]}`")
        return ActionTraits(ActionRisk.READ_ONLY if action == "search" else ActionRisk.WRITE)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return `memory_id` (remember), `found` (search) or `forgotten` (forget). Raises ValueError, StateError."""
        action, space = arguments["action"], context.memory_namespace
        if _NEEDED[action] not in arguments:
            raise ValueError(f"{action} needs `{_NEEDED[action]}`")
        if action == "remember":
            found = await asyncio.to_thread(self._memory.remember, space, arguments["text"], context.run_id)
            return {"memory_id": found}
        if action == "forget":
            return {"forgotten": await asyncio.to_thread(self._memory.forget, space, arguments["memory_id"])}
        limit = min(MAX_RESULTS, arguments.get("limit", DEFAULT_RESULTS))
        rows = await asyncio.to_thread(self._memory.search, space, arguments["query"], limit)
        return {"found": [dict(row) for row in rows]}
