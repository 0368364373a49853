"""The tools of a runtime, by name: plans call them by tool_id, models by the definition's name, which are the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mindx.core.action import ActionRisk
from mindx.core.nearest import did_you_mean
from mindx.core.quote import quoted
from mindx.errors import InputError
from mindx.tools.base import BaseTool, ToolNotFoundError
from mindx.tools.command_tool import CommandTool

AnyCommandTool = CommandTool[Any, Any]


class ToolRegistry:
    """A set of tools, which only `refresh` can change. Raises InputError (tool_twice) when two carry one name."""

    def __init__(self, tools: Iterable[BaseTool] = ()) -> None:
        self._tools: dict[str, BaseTool] = {}
        for tool in tools:
            if tool.tool_id in self._tools:
                raise InputError("tool_twice", f"two tools are called {quoted(tool.tool_id)}")
            self._tools[tool.tool_id] = tool

    def __iter__(self) -> Iterator[BaseTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    @property
    def names(self) -> tuple[str, ...]:
        """The tools' names, in order of registration."""
        return tuple(self._tools)

    @property
    def command_tools(self) -> tuple[AnyCommandTool, ...]:
        """Those whose calls lower to Commands."""
        return tuple(tool for tool in self if isinstance(tool, CommandTool))

    @property
    def workspace(self) -> Path | None:
        """The one folder that tools were made for, or None. Raises InputError (workspace_twice) when they differ."""
        found = {tool.workspace for tool in self if tool.workspace is not None}
        if len(found) > 1:
            raise InputError("workspace_twice", "the tools were made for different folders; a session has one")
        return next(iter(found), None)

    def find(self, tool_id: str) -> BaseTool | None:
        """Return the tool, or None."""
        return self._tools.get(tool_id)

    def get(self, tool_id: str) -> BaseTool:
        """Return the tool. Raises ToolNotFoundError (tool_unknown) with a suggestion."""
        tool = self._tools.get(tool_id)
        if tool is None:
            raise ToolNotFoundError("tool_unknown", f"unknown tool {quoted(tool_id)}; {self.suggest(tool_id)}")
        return tool

    def suggest(self, tool_id: str) -> str:
        """Say which tool may have been meant, and which there are."""
        known = f"the tools are {', '.join(sorted(self._tools))}" if self._tools else "there are no tools"
        return f"{did_you_mean(tool_id, self._tools)} {known}".strip()

    def with_tools(self, *tools: BaseTool) -> ToolRegistry:
        """Return a registry with these as well. Raises InputError (tool_twice)."""
        return ToolRegistry((*self, *tools))

    def refresh(self) -> None:
        """Take in what changed where the tools come from, between two plans; a plain set stays as it is.

        Raises StateError.
        """

    def only(self, names: Iterable[str]) -> ToolRegistry:
        """Return a registry with these tools alone. Raises ToolNotFoundError."""
        return ToolRegistry(self.get(name) for name in dict.fromkeys(names))

    def provider_schemas(self) -> list[dict[str, Any]]:
        """Return the functions that a model is told of, in order of registration."""
        return [tool.definition.schema for tool in self]

    def action_risks(self) -> dict[str, ActionRisk]:
        """Return the least risk of each tool; what one call may do is computed from its arguments (ToolExecutor)."""
        return {tool.tool_id: tool.least_risk for tool in self}

    def approval_required(self) -> dict[str, bool]:
        """Return which tools always need a person's yes."""
        return {tool.tool_id: tool.definition.require_human_approval for tool in self}

    async def close(self) -> None:
        """Close every tool, whatever one of them raises. Raises the first failure, when all are closed."""
        failures: list[Exception] = []
        for tool in self:
            try:
                await tool.close()
            except Exception as error:  # noqa: BLE001 - the others are closed first
                failures.append(error)
        if failures:
            raise failures[0]


def plan_arguments(tool: BaseTool, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan step's params (without `tool_id`) as the arguments of a tool that gives a value.

    Every step of a plan names a `command`; a tool that knows no such argument has only one, and is not told of it.
    """
    known = tool.definition.parameters.get("properties", {})
    return {name: value for name, value in params.items() if name != "command" or "command" in known}
