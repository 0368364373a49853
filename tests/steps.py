"""Steps of plans, as tests write them."""

from __future__ import annotations

from typing import Any


def tool(command: str, **params: Any) -> dict[str, Any]:
    """Return the step that calls SimpleCoder."""
    return {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": command, **params}}
