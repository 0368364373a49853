"""The meta-actions that write the registry of official tools, which Mastermind alone may do."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from mindx.agents.improvement.models import CycleResult, ImprovementResult
from mindx.agents.mastermind.campaign import Development
from mindx.agents.mastermind.desk import CampaignDesk
from mindx.agents.mastermind.gaps import unregistered
from mindx.agents.mastermind.meta_actions import ANYTHING, TEXT, InitiateToolDevelopment, MetaAction
from mindx.tools.base import ToolError
from mindx.tools.container_entry import ToolSpec
from mindx.tools.context import ToolContext


class RegisterTool(MetaAction):
    """REGISTER_TOOL: what was developed and tested goes into the registry, exactly as it was tested."""

    name = "REGISTER_TOOL"
    description = (
        "Register a tool that was developed in this campaign; from then on EXECUTE_TOOL can use it in later plans. "
        "Without `tool_id` it is the latest. Gives `tool_id`, `version`, `sha256`."
    )
    optional = {"tool_id": TEXT, "tool_spec": ANYTHING}
    fields = ("tool_id", "version", "sha256", "message")

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return what was registered."""
        desk = self.desk
        made = self._development(str(arguments.get("tool_id", "")))
        spec, candidate = tested(desk, made)
        source = candidate.new_content.encode()
        entry = desk.registry.register(spec, source, added_by=desk.campaign.campaign_id)
        made = made.model_copy(update={"registered": True, "sha256": entry.sha256})
        desk.put(desk.campaign.with_development(made))
        return {
            "status": "SUCCESS",
            "tool_id": entry.id,
            "version": entry.version,
            "sha256": entry.sha256,
            "message": f"{entry.id} {entry.version} is registered; a later plan can use it with EXECUTE_TOOL",
        }

    def _development(self, tool_id: str) -> Development:
        campaign = self.desk.campaign
        open_ = unregistered(campaign)
        if tool_id and campaign.development(tool_id) is not None:
            found = campaign.development(tool_id)
            assert found is not None
            if found.registered:
                raise ToolError(f"{tool_id} {found.version} is registered already", "tool_registered")
            if not found.succeeded:
                raise ToolError(f"the development of {tool_id} came to nothing; it cannot be registered")
            return found
        if not open_:
            raise ToolError(
                f"nothing was developed that could be registered; do {InitiateToolDevelopment.name} first",
                "campaign_order",
            )
        # A planner that names another tool than the one that was made means that one: names are its weakest point.
        return open_[-1]


class DeprecateTool(MetaAction):
    """DEPRECATE_TOOL: a registered tool goes out of use, with a reason."""

    name = "DEPRECATE_TOOL"
    description = "Take a registered tool out of use. Gives `tool_id`."
    required = {"tool_id": TEXT, "reason": TEXT}
    fields = ("tool_id", "message")

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return which tool it was."""
        desk = self.desk
        by = desk.campaign.campaign_id
        entry = desk.registry.deprecate(arguments["tool_id"], arguments["reason"], by=by)
        gone = [*desk.campaign.facts.get("deprecated", []), entry.id]
        desk.learn("deprecated", list(dict.fromkeys(gone)))
        return {"status": "SUCCESS", "tool_id": entry.id, "message": f"{entry.id} is deprecated"}


def tested(desk: CampaignDesk, made: Development) -> tuple[ToolSpec, CycleResult]:
    """Return the specification and the candidate that passed the tests, from the Coordinator's own record.

    Raises ToolError when the record does not hold together: nothing else may become a tool.
    """
    ended = desk.coordinator.interactions.get(made.interaction_id)
    try:
        result = ImprovementResult.model_validate(ended.response)
    except ValidationError:
        raise ToolError(
            f"the record of the development of {made.tool_id} cannot be read", "development_failed"
        ) from None
    candidate, spec = result.data.candidate, result.data.tool_spec
    passed = candidate is not None and candidate.evaluation.passed_self_tests is True
    if not ended.ok or not result.ok or candidate is None or not passed or spec is None:
        raise ToolError(f"the development of {made.tool_id} brought no tested candidate", "development_failed")
    digest = hashlib.sha256(candidate.new_content.encode()).hexdigest()
    if (spec.id, spec.version) != (made.tool_id, made.version) or digest != candidate.sha256:
        raise ToolError(f"what was tested is not what was asked for: {spec.id} {spec.version}", "development_failed")
    return spec, candidate
