"""What a campaign still lacks: looked up in its record and in the registry, whatever a plan or a model claims."""

from __future__ import annotations

from mindx.agents.mastermind.campaign import Development, StrategicCampaign


def latest(campaign: StrategicCampaign) -> tuple[Development, ...]:
    """Return the latest attempt at each tool."""
    found = {one.tool_id: one for one in campaign.sub_tasks}
    return tuple(found.values())


def unregistered(campaign: StrategicCampaign) -> tuple[Development, ...]:
    """Return what was developed with success and is not in the registry."""
    return tuple(one for one in latest(campaign) if one.succeeded and not one.registered)


def missing(campaign: StrategicCampaign) -> tuple[str, ...]:
    """Return as sentences what keeps a campaign from being complete; () when nothing does."""
    facts = campaign.facts
    lacking = [f"there is no {name}" for name in ("system_state", "assessment") if name not in facts]
    for one in latest(campaign):
        if not one.succeeded:
            lacking.append(f"the development of {one.tool_id} came to nothing: {one.problem or one.status or 'open'}")
        elif not one.registered:
            lacking.append(f"{one.tool_id} was developed and is not registered")
        elif not one.used:
            lacking.append(f"{one.tool_id} is registered, and was not seen to work")
    concept = facts.get("tool_concept")
    if concept is not None and campaign.development(concept["id"]) is None:
        lacking.append(f"{concept['id']} was conceived and not developed")
    need = (facts.get("strategy") or {}).get("identified_need", "")
    if concept is None and not campaign.sub_tasks and not facts.get("deprecated"):
        if need:
            lacking.append(f"nothing was done about the need that was found: {need[:200]}")
        elif "strategy" not in facts:
            lacking.append("there is no strategy")
    return tuple(lacking)
