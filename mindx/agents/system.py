"""One system: the society's parts put together on one state folder, which it holds against every other."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from mindx.agents.agint.agint import AGInt
from mindx.agents.agint.agint import Listener as CycleListener
from mindx.agents.agint.mission import MissionBudget, MissionStore
from mindx.agents.bdi import BDIAgent, BDIResult, Budget, Goal
from mindx.agents.beliefs import BeliefSystem
from mindx.agents.constitution import Constitution, Layer
from mindx.agents.coordinator.config import CoordinatorConfig
from mindx.agents.coordinator.coordinator import CoordinatorAgent
from mindx.agents.coordinator.improving import Improve
from mindx.agents.improvement.call import call_improvement
from mindx.agents.mastermind.campaign import CampaignBudget, StrategicCampaign
from mindx.agents.mastermind.campaign_store import CampaignStore
from mindx.agents.mastermind.desk import MASTERMIND_ID, CampaignDesk
from mindx.agents.mastermind.mastermind import Listener as CampaignListener
from mindx.agents.mastermind.mastermind import MastermindAgent
from mindx.agents.mastermind.stop_switch import StopSwitch
from mindx.agents.mastermind.strategist import CampaignStrategist
from mindx.agents.official_tools import LiveTools, OfficialToolsRegistry
from mindx.agents.work_record import WorkRecord
from mindx.core.protocols import EventHandler, HumanApprovalHandler
from mindx.errors import InputError
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import LoadedPolicy, load_policy
from mindx.policy.text import as_yaml
from mindx.providers.base import BaseProvider
from mindx.providers.borrowed import BorrowedProvider
from mindx.runtime.lazy_sandbox import LazySandbox
from mindx.runtime.sandboxes import SandboxFactory, docker_sandbox
from mindx.runtime.session import Session
from mindx.runtime.tasks.atomic import locked, replace_file
from mindx.tools.registry import ToolRegistry
from mindx.tools.simple_coder import SimpleCoder

AGINT_ID = "agint"


class MindSystem:
    """The society on one state folder; use it with `async with`, or `open` and `close` it.

    `provider` is the model of all of its minds, closed with it. `policy` None is the preset `default`. `improve` has
    tools and components developed; None calls the self-improvement agent as a process of its own, whose model is the
    endpoint of the settings, or the turns of `improvement_script`. `record` makes the containers and hears of all that
    is done; None keeps no Run. A file `constitution.yaml` in the folder tightens the built-in rules.
    `open_sandbox` and `now` are for tests.

    Opening raises InputError (system_in_use) when another system has the folder, and what its parts raise: StateError
    for a file that is damaged, InputError for a constitution that is.
    """

    def __init__(
        self,
        folder: Path,
        provider: BaseProvider,
        *,
        policy: LoadedPolicy | None = None,
        model: str = "",
        improve: Improve | None = None,
        improvement_script: Path | None = None,
        campaign_budget: CampaignBudget | None = None,
        mission_budget: MissionBudget | None = None,
        record: WorkRecord | None = None,
        on_campaign: CampaignListener = lambda campaign, text: None,
        on_cycle: CycleListener = lambda mission, note: None,
        open_sandbox: SandboxFactory = docker_sandbox,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.folder, self.provider, self.model = Path(folder), provider, model
        self.policy = policy or load_policy()
        self.record = record
        self._improve, self._script = improve, improvement_script
        self._campaign_budget = campaign_budget or CampaignBudget()
        self._mission_budget = mission_budget or MissionBudget()
        self._on_campaign, self._on_cycle = on_campaign, on_cycle
        self._open_sandbox, self._now = open_sandbox, now
        self._held = AsyncExitStack()
        self.constitution: Constitution
        self.beliefs: BeliefSystem
        self.registry: OfficialToolsRegistry
        self.coordinator: CoordinatorAgent
        self.mastermind: MastermindAgent

    async def open(self) -> None:
        """Take the folder and put the parts together; when that fails nothing is held."""
        async with AsyncExitStack() as held:
            busy = InputError(
                "system_in_use", f"another system works in {self.folder}; wait for it, or `mindx campaign stop`"
            )
            held.enter_context(locked(self.folder / "lock", busy))
            held.push_async_callback(self.provider.close)
            rules = self.folder / "constitution.yaml"
            self.constitution = Constitution.load(rules if rules.exists() else None)
            self.beliefs = BeliefSystem(self.folder / "beliefs.sqlite3", now=self._now)
            held.callback(self.beliefs.close)
            self.registry = OfficialToolsRegistry(self.folder, constitution=self.constitution, layer=Layer.MASTERMIND)
            self.registry.read()  # a damaged one is told before anything is done
            store = CampaignStore(self.folder)
            self.coordinator = await held.enter_async_context(
                CoordinatorAgent(
                    self.folder,
                    beliefs=self.beliefs,
                    constitution=self.constitution,
                    improve=self._improve or partial(call_improvement, work_dir=self.folder / "improvement"),
                    provider=BorrowedProvider(self.provider),
                    campaigns=lambda: [one.told for one in store.history().campaigns],
                    config=CoordinatorConfig(
                        improvement_script=self._script,
                        improvement_policy=self._policy_file(),
                        model=self.model,
                    ),
                    now=self._now,
                )
            )
            for agent_id, layer in ((MASTERMIND_ID, Layer.MASTERMIND), (AGINT_ID, Layer.AGINT)):
                self.coordinator.register_agent(agent_id, agent_id, layer=layer)
            self.mastermind = await held.enter_async_context(
                MastermindAgent(
                    store,
                    StopSwitch(self.folder),
                    self._strategist,
                    constitution=self.constitution,
                    budget=self._campaign_budget,
                    listener=self._on_campaign,
                    now=self._now,
                )
            )
            self._box = LazySandbox(lambda: self._session(None))
            held.push_async_callback(self._box.close)
            self._held = held.pop_all()

    async def close(self) -> None:
        """End all that goes on and let go of the folder; may be called twice."""
        await self._held.aclose()

    def agint(self, box: LazySandbox, *, approval_handler: HumanApprovalHandler | None = None, **options: Any) -> AGInt:
        """Return an AGInt whose agents all work in `box`; `options` are passed on to it."""

        def make(agent_id: str, state: Path, reports: bool) -> PhaseAgent:
            agent = BDIAgent(
                BorrowedProvider(self._watched(AGINT_ID)),
                self.tools(agent_id),
                beliefs=self.beliefs,
                state_path=state,
                budget=Budget(),
                domain=agent_id,
                agent_id=agent_id,
                constitution=self.constitution,
                model=self.model,
                reports=reports,
                escalates=True,
            )
            return PhaseAgent(agent, box, approval_handler, self._hear)

        return AGInt(
            self._watched(AGINT_ID),
            make,
            MissionStore(self.folder / "missions"),
            beliefs=self.beliefs,
            constitution=self.constitution,
            budget=self._mission_budget,
            model=self.model,
            listener=self._on_cycle,
            now=self._now,
            **options,
        )

    def tools(self, agent_id: str) -> LiveTools:
        """Return the tools of an agent: SimpleCoder, and what the registry allows it, as it is at each plan."""
        engine = PolicyEngine(self.policy.policy, autonomous=False)
        return LiveTools(ToolRegistry([SimpleCoder()]), self.registry, agent_id, engine=engine)

    def container(self, workspace: Path | None) -> LazySandbox:
        """Return a container that opens when it is needed, with a copy of the folder; the caller closes it."""
        return LazySandbox(lambda: self._session(workspace))

    def _session(self, workspace: Path | None) -> Session:
        if self.record is not None:
            return self.record.session(workspace)
        return Session(self.policy, workspace, open_sandbox=self._open_sandbox)

    def _policy_file(self) -> str:
        """Write down the policy in force, all its layers together, for the process of the improvement agent."""
        path = self.folder / "policy.yaml"
        replace_file(path, as_yaml(self.policy.policy).encode())
        return str(path)

    def _strategist(self, campaign: StrategicCampaign, keep: Callable[[StrategicCampaign], None]) -> CampaignStrategist:
        desk = CampaignDesk(
            campaign,
            self._watched(MASTERMIND_ID),
            self.model,
            self.coordinator,
            self.registry,
            self.beliefs,
            self.constitution,
            self._campaign_budget,
            keep,
            self.mastermind.store.list,
        )
        folder = self.mastermind.store.path(campaign.campaign_id)
        return CampaignStrategist(desk, folder, self.tools(MASTERMIND_ID), self._box, self._hear)

    def _watched(self, task: str) -> BaseProvider:
        """Return the model as one whose calls the Coordinator's monitor counts."""
        return self.coordinator.performance.watched(BorrowedProvider(self.provider), task)

    @property
    def _hear(self) -> EventHandler | None:
        return None if self.record is None else self.record.hear

    async def __aenter__(self) -> MindSystem:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class PhaseAgent:
    """A BDI agent that always runs in one container, as AGInt needs it."""

    def __init__(
        self,
        agent: BDIAgent,
        box: LazySandbox,
        approval_handler: HumanApprovalHandler | None,
        event_handler: EventHandler | None,
    ) -> None:
        self._agent, self._box = agent, box
        self._approve, self._hear = approval_handler, event_handler

    @property
    def goal(self) -> Goal | None:
        """The goal that it has from before, or None."""
        return self._agent.goal

    def set_goal(self, text: str, criteria: Any = (), priority: int = 100) -> Goal:
        """Give it its goal. Raises InputError."""
        return self._agent.set_goal(text, criteria, priority)

    async def run(self) -> BDIResult:
        """Pursue the goal to an end."""
        return await self._agent.run(box=self._box, approval_handler=self._approve, event_handler=self._hear)

    async def close(self) -> None:
        """Let go of its state."""
        await self._agent.close()
