"""What Mastermind sees of its system: facts that it looks up itself, whatever a planner believes."""

from __future__ import annotations

import json
from typing import Any

from mindx.agents.mastermind.campaign import StrategicCampaign
from mindx.agents.mastermind.desk import CampaignDesk
from mindx.tools.container_entry import ToolEntry

MAX_CAMPAIGNS = 5
MAX_BELIEFS = 30
MAX_VALUE = 500  # characters of JSON


def system_state(desk: CampaignDesk) -> dict[str, Any]:
    """Return the system's state as plain values: tools, agents, requests, health, earlier campaigns, beliefs."""
    coordinator = desk.coordinator
    return {
        "tools": [_tool(entry) for entry in desk.registry.entries()],
        "agents": [
            {"agent_id": one.agent_id, "layer": one.layer.value, "status": one.status.value}
            for one in coordinator.agents.list()
        ],
        "interactions": coordinator.interactions.counts(),
        "backlog": coordinator.backlog.counts(),
        "resources": None if coordinator.resources.latest is None else coordinator.resources.latest.to_dict(),
        "alerts": [one.to_dict() for one in coordinator.resources.alerts],
        "models": [one.to_dict() for one in coordinator.performance.list()],
        "objectives": [one.text for one in desk.objectives.open()],
        "campaigns": [_campaign(one) for one in desk.history()[:MAX_CAMPAIGNS]],
        "beliefs": [
            {"key": one.key, "value": _short(one.value), "confidence": one.confidence}
            for one in desk.beliefs.query(namespace="", limit=MAX_BELIEFS)
        ],
    }


def _short(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}..."


def _tool(entry: ToolEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "version": entry.version,
        "status": entry.status.value,
        "description": entry.description[:500],
        "capabilities": [one.name for one in entry.capabilities],
    }


def _campaign(one: StrategicCampaign) -> dict[str, Any]:
    summary = "" if one.outcome is None else one.outcome.summary
    tools = [task.tool_id for task in one.sub_tasks if task.registered]
    return {"directive": one.directive[:300], "status": one.status.value, "tools": tools, "summary": summary[:500]}
