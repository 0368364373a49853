"""The tools of a runtime, by tool_id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mindx.core.plan import did_you_mean
from mindx.core.quote import quoted
from mindx.errors import InputError
from mindx.tools.base import BaseTool

AnyTool = BaseTool[Any, Any]


class ToolRegistry:
    """An immutable set of tools. Raises InputError (tool_twice) when two carry one id."""

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        self._tools: dict[str, AnyTool] = {}
        for tool in tools:
            if tool.tool_id in self._tools:
                raise InputError("tool_twice", f"two tools are called {quoted(tool.tool_id)}")
            self._tools[tool.tool_id] = tool

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._tools.values())

    def find(self, tool_id: str) -> AnyTool | None:
        """Return the tool, or None."""
        return self._tools.get(tool_id)

    def get(self, tool_id: str) -> AnyTool:
        """Return the tool. Raises InputError (tool_unknown) with a suggestion."""
        tool = self._tools.get(tool_id)
        if tool is None:
            raise InputError("tool_unknown", f"unknown tool {quoted(tool_id)}; {self.suggest(tool_id)}")
        return tool

    def suggest(self, tool_id: str) -> str:
        """Say which tool may have been meant, and which there are."""
        known = f"the tools are {', '.join(sorted(self._tools))}"
        return f"{did_you_mean(tool_id, self._tools)} {known}".strip()
