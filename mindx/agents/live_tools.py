"""The tools of an agent that may grow while it works: its own, and those that the registry gives it."""

from __future__ import annotations

import logging

from mindx.agents.official_tools import OfficialToolsRegistry
from mindx.policy.engine import PolicyEngine
from mindx.tools.base import BaseTool
from mindx.tools.registry import ToolRegistry

_LOG = logging.getLogger("official_tools")


class LiveTools(ToolRegistry):
    """The tools of an agent: its own (`base`), and what the registry gives it, read anew when `refresh` is called.

    A plan is made and done with one set; before the next one an agent refreshes it, so that a tool that was registered
    in between is there. A registered tool never takes the place of one of `base`. Raises StateError.
    """

    def __init__(
        self,
        base: ToolRegistry,
        registry: OfficialToolsRegistry,
        agent_id: str = "",
        *,
        engine: PolicyEngine | None = None,
    ) -> None:
        super().__init__(base)
        self._base = base
        self._registry = registry
        self._agent_id = agent_id
        self._engine = engine
        self.revision = -1  # of the registry, as it was last read
        self.refresh()

    def refresh(self) -> None:
        """Take in what the registry gives now. Raises StateError, and then the set is as it was."""
        revision = self._registry.revision
        if revision == self.revision:
            return
        found = {tool.tool_id: tool for tool in self._base}
        for tool in self._registry.tools(self._agent_id, engine=self._engine):
            if tool.tool_id in self._base:
                _LOG.warning("the registered tool '%s' has the name of a tool that is there", tool.tool_id)
            else:
                found[tool.tool_id] = tool
        self._tools, self.revision = found, revision

    def with_tools(self, *tools: BaseTool) -> LiveTools:
        """Return a set with these as well, that is refreshed by itself. Raises InputError (tool_twice), StateError."""
        return LiveTools(self._base.with_tools(*tools), self._registry, self._agent_id, engine=self._engine)
