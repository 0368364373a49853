"""memory_read: a task's memory.md and its latest events, read when the agent asks and never before."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mindx.core.action import ActionRisk
from mindx.tools.base import BaseTool, ToolDefinition
from mindx.tools.context import ToolContext

DEFAULT_EVENTS, MAX_EVENTS = 20, 200
MAX_TEXT = 200_000  # characters


class TaskMemory(Protocol):
    """What a task remembers (runtime/tasks/memory has one on the disk)."""

    def read(self) -> str:
        """Return the text of memory.md, "" when there is none."""
        ...

    def recent_events(self, limit: int) -> Sequence[Mapping[str, Any]]:
        """Return the latest events, oldest first."""
        ...


class MemoryReadTool(BaseTool):
    """Reads from `memory`; there is no way to write through it."""

    definition = ToolDefinition(
        name="memory_read",
        description="Read what this task remembers from before: its memory.md, or its latest events.",
        parameters={
            "type": "object",
            "properties": {
                "source": {"type": "string", "enum": ["memory", "events"]},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_EVENTS, "description": "of the events"},
            },
            "required": ["source"],
            "additionalProperties": False,
        },
        risk=ActionRisk.READ_ONLY,
    )

    def __init__(self, memory: TaskMemory) -> None:
        self._memory = memory

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return `content` (memory, cut after MAX_TEXT characters) or `events`. Raises StateError."""
        if arguments["source"] == "memory":
            text = await asyncio.to_thread(self._memory.read)
            return {"source": "memory", "content": text[:MAX_TEXT], "truncated": len(text) > MAX_TEXT}
        limit = min(MAX_EVENTS, arguments.get("limit", DEFAULT_EVENTS))
        events = await asyncio.to_thread(self._memory.recent_events, limit)
        return {"source": "events", "events": [dict(event) for event in events]}
