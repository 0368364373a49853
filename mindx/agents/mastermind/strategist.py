"""Who works on a campaign: Mastermind's own BDI agent with the meta-actions, and the plan that closes what it left."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindx.agents.bdi import BDIAgent, BDIResult, BDIStatus, Budget
from mindx.agents.live_tools import LiveTools
from mindx.agents.mastermind.campaign import Development, StrategicCampaign
from mindx.agents.mastermind.desk import MASTERMIND_ID, CampaignDesk
from mindx.agents.mastermind.gaps import latest, unregistered
from mindx.agents.mastermind.launching import LaunchMission
from mindx.agents.mastermind.meta_actions import (
    DEVELOPMENT_TIMEOUT_S,
    AssessToolSuite,
    ConceptualizeNewTool,
    InitiateToolDevelopment,
    MetaAction,
    ObserveSystemState,
    ProposeToolStrategy,
)
from mindx.agents.mastermind.registering import DeprecateTool, RegisterTool
from mindx.agents.outer_failure import raise_outer
from mindx.core.action import ActionRequest
from mindx.core.agent_context import AgentContext
from mindx.core.agent_session import SessionPolicy
from mindx.core.checkpoint import TaskState
from mindx.core.decision import AgentDecision
from mindx.core.observation import Observation
from mindx.core.protocols import EventHandler
from mindx.core.run_config import RunConfig
from mindx.providers.borrowed import BorrowedProvider
from mindx.runtime.agent_runtime import AgentRuntime
from mindx.runtime.lazy_sandbox import LazySandbox
from mindx.runtime.run_ids import new_id
from mindx.runtime.scripted_reasoner import ScriptedReasoner
from mindx.tools.base import BaseTool
from mindx.tools.container_entry import ToolEntry, ToolStatus
from mindx.tools.executor import ToolExecutor
from mindx.tools.registry import ToolRegistry

_LOG = logging.getLogger("mastermind")
STEP_TIMEOUT_S = 900.0
META_ACTIONS: tuple[type[MetaAction], ...] = (
    ObserveSystemState,
    AssessToolSuite,
    ProposeToolStrategy,
    ConceptualizeNewTool,
    InitiateToolDevelopment,
    RegisterTool,
    DeprecateTool,
    LaunchMission,
)
Told = Callable[[str], None]


@dataclass(slots=True)
class CampaignStrategist:
    """Works on the campaign of `desk`. Its agent's state lies in `folder`; its tools run in the container `box`."""

    desk: CampaignDesk
    folder: Path
    tools: LiveTools
    box: LazySandbox
    event_handler: EventHandler | None = None

    @property
    def campaign(self) -> StrategicCampaign:
        """The campaign's record as it stands."""
        return self.desk.campaign

    async def pursue(self, told: Told, *, renewed: bool = False) -> BDIResult:
        """Have the directive pursued as the primary goal of the campaign's own BDI agent, which goes on where it was.

        `renewed` gives it a fresh budget. Raises ProviderError, SandboxError, StateError.
        """
        desk, campaign = self.desk, self.campaign
        agent = BDIAgent(
            BorrowedProvider(desk.provider),
            self.tools,
            beliefs=desk.beliefs,
            actions=self._meta_actions(),
            state_path=self.folder / "agent.sqlite3",
            # The campaign's own budget of seconds ends it from outside.
            budget=Budget(cycles=campaign.max_bdi_cycles, tokens=desk.budget.max_tokens, seconds=None, commands=None),
            domain=f"mastermind.{campaign.campaign_id}",
            agent_id=MASTERMIND_ID,
            constitution=desk.constitution,
            model=desk.model,
        )
        try:
            if renewed:
                agent.renew_budget()
            if agent.goal is not None and agent.goal.status.done:  # a killed process had come as far as this
                return BDIResult(BDIStatus.GOAL_ACHIEVED, agent.goal.goal_id)
            if agent.goal is None or not agent.goal.open:
                agent.set_goal(campaign.directive)
            result = await agent.run(box=self.box, event_handler=self.event_handler, config=limits(campaign))
        finally:
            await agent.close()
        desk.count(result.usage)
        desk.change(cycles=self.campaign.cycles + result.cycles)
        raise_outer(result.run)
        told(f"the plan ended as {result.status.value}")
        return result

    async def close_gaps(self, told: Told) -> None:
        """Register what was developed and is not registered, and use once what was registered: in the same loop."""
        for made in unregistered(self.campaign):
            told(f"{made.tool_id} was developed and not registered by the plan; registering it")
            await self._do(RegisterTool.name, {"tool_id": made.tool_id}, [RegisterTool(self.desk)])
        for made in latest(self.campaign):
            if made.registered and not made.used:
                await self._use(made, told)

    async def _use(self, made: Development, told: Told) -> None:
        """Call a new tool with an example of its specification; only what works is marked as active."""
        entry = self.desk.registry.entry(made.tool_id)
        arguments, expected = example_of(entry)
        self.tools.refresh()
        seen = await self._do(entry.id, arguments, self.tools)
        works = seen.ok and (expected is None or answer_of(seen) == expected[0])
        problem = "" if works else f"{entry.id} was called with its example and answered {answer_of(seen)!r}"[:4000]
        self.desk.put(self.campaign.with_development(made.model_copy(update={"used": works})))
        told(f"{entry.id} {entry.version} works" if works else problem)
        if works:
            self.desk.registry.mark(
                entry.id,
                by=self.campaign.campaign_id,
                status=ToolStatus.ACTIVE,
                last_assessment=f"used in {self.campaign.campaign_id} with its example",
            )

    async def _do(self, name: str, arguments: Mapping[str, Any], tools: Any) -> Observation:
        """Do one action in the one loop, and return what was seen. Raises ProviderError, SandboxError."""
        script = [AgentDecision.act(ActionRequest(f"act_{new_id('close')}", name, arguments)), AgentDecision.complete()]
        context = AgentContext(
            run_id=new_id("run"),
            task=f"close the campaign {self.campaign.campaign_id}",
            task_state=TaskState(self.campaign.directive),
            config=limits(self.campaign),
            policy=SessionPolicy(),
            open_sandbox=self.box.open,
            operator_engine=self.box.engine,
        )
        runtime = AgentRuntime(
            ScriptedReasoner(script), ToolExecutor(ToolRegistry(tools)), event_handler=self.event_handler
        )
        async with runtime:
            result = await runtime.run_in(context)
        raise_outer(result)
        return result.observations[0]

    def _meta_actions(self) -> dict[str, BaseTool]:
        return {made.name: made(self.desk) for made in META_ACTIONS}


def limits(campaign: StrategicCampaign) -> RunConfig:
    """Return the limits of a campaign's runs: long enough for a development, and nobody is asked."""
    return RunConfig(
        # One more than the agent's own budget of cycles, so that it is the budget which ends the run.
        campaign.max_bdi_cycles + 1,
        STEP_TIMEOUT_S,
        DEVELOPMENT_TIMEOUT_S * 10,
        action_timeout_s=DEVELOPMENT_TIMEOUT_S,
        batch_timeout_s=DEVELOPMENT_TIMEOUT_S,
        interactive=False,
    )


def example_of(entry: ToolEntry) -> tuple[dict[str, Any], tuple[Any] | None]:
    """Return the arguments of a tool's first example, and its result in a tuple, None when it says none."""
    capability = next((one for one in entry.capabilities if one.examples), entry.capabilities[0])
    which = {"command": capability.name} if len(entry.capabilities) > 1 else {}
    if not capability.examples:
        return which, None
    example = capability.examples[0]
    return {**example.arguments, **which}, (example.result,) if example.says_result else None


def answer_of(seen: Observation) -> Any:
    """Return what a generated tool answered: a value, or a result without the status that was added to it."""
    if seen.value is not None or set(seen.result) <= {"status", "message"}:
        return seen.value if seen.ok else seen.message
    return {name: value for name, value in seen.result.items() if name != "status"}
