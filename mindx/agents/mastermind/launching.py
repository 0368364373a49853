"""The meta-action that hands a directive down to AGInt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindx.agents.agint.life import AGIntStatus
from mindx.agents.constitution import Act
from mindx.agents.mastermind.meta_actions import DEVELOPMENT_TIMEOUT_S, TEXT, MetaAction
from mindx.tools.base import ToolError
from mindx.tools.context import ToolContext

MAX_MISSIONS = 5  # of one campaign


class LaunchMission(MetaAction):
    """LAUNCH_MISSION: a directive for AGInt, which divides it into phases and sees it through."""

    name = "LAUNCH_MISSION"
    description = (
        "Give AGInt a directive that is no tool's: it is divided into phases, and agents work on them in a container. "
        "Gives `mission_id`, `phases`."
    )
    required = {"directive": TEXT}
    fields = ("mission_id", "phases", "message")
    timeout_s = DEVELOPMENT_TIMEOUT_S

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return how the mission ended. Raises ToolError when it is not complete."""
        desk = self.desk
        desk.require(Act.START_MISSION)
        before = desk.campaign.facts.get("missions", [])
        if len(before) >= MAX_MISSIONS:
            raise ToolError(f"a campaign may launch {MAX_MISSIONS} missions, and did", "campaign_missions")
        mission = await desk.launch_mission(arguments["directive"])
        told = {"mission_id": mission.mission_id, "status": mission.status.value, "message": mission.message}
        desk.learn("missions", [*before, told])
        if mission.status is not AGIntStatus.COMPLETED:
            raise ToolError(f"the mission {mission.mission_id} is {mission.status.value}: {mission.message}")
        phases = [{"name": phase.name, "told": phase.told} for phase in mission.phases]
        return {"status": "SUCCESS", "mission_id": mission.mission_id, "phases": phases, "message": mission.message}
