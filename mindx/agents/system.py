"""The society's parts put together on one state folder: what missions need, and the whole system that holds the folder.

Missions may go on beside one another and beside a campaign; of whole systems a folder has one at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from typing_extensions import Self

from mindx.agents.agint.agint import AGInt
from mindx.agents.agint.mission import Mission, MissionBudget, MissionStore
from mindx.agents.agint.phase_agent import PhaseAgent
from mindx.agents.answer import tokens_of
from mindx.agents.bdi import BDIAgent, Budget
from mindx.agents.beliefs.system import BELIEFS_FILE, BeliefSystem
from mindx.agents.constitution import Constitution, Layer
from mindx.agents.coordinator.config import CoordinatorConfig
from mindx.agents.coordinator.coordinator import CoordinatorAgent
from mindx.agents.coordinator.improving import Improve
from mindx.agents.improvement.call import call_improvement
from mindx.agents.improvement.paths import IMPROVEMENT_FOLDER
from mindx.agents.live_tools import LiveTools
from mindx.agents.mastermind.campaign import CampaignBudget, StrategicCampaign
from mindx.agents.mastermind.campaign_store import CampaignStore
from mindx.agents.mastermind.desk import MASTERMIND_ID, CampaignDesk
from mindx.agents.mastermind.mastermind import Listener as CampaignListener
from mindx.agents.mastermind.mastermind import MastermindAgent
from mindx.agents.mastermind.stop_switch import StopSwitch
from mindx.agents.mastermind.strategist import CampaignStrategist
from mindx.agents.official_tools import OfficialToolsRegistry
from mindx.agents.work_record import WorkRecord
from mindx.core.protocols import Asker, EventHandler, HumanApprovalHandler
from mindx.errors import InputError
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import LoadedPolicy, load_policy
from mindx.providers.base import BaseProvider
from mindx.providers.borrowed import BorrowedProvider
from mindx.runtime.lazy_sandbox import LazySandbox
from mindx.runtime.sandboxes import SandboxFactory, docker_sandbox
from mindx.runtime.session import Session
from mindx.runtime.tasks.atomic import is_free as is_unlocked
from mindx.runtime.tasks.atomic import locked
from mindx.runtime.vetting import tools_for

AGINT_ID = "agint"
LOCK_FILE = "lock"


class MissionSystem:
    """What missions need on a state folder; use it with `async with`, or `open` and `close` it.

    `provider` is the model of all minds, closed with it. `policy` None is the preset `default`. `record` makes the
    containers and hears of all that is done; None keeps no Run. A file `constitution.yaml` in the folder tightens the
    built-in rules. `open_sandbox` and `now` are for tests.

    Opening raises what the parts raise: StateError for a file that is damaged, InputError for a constitution that is.
    """

    layer = Layer.AGINT  # who writes the registry of tools through it

    def __init__(
        self,
        folder: Path,
        provider: BaseProvider,
        *,
        policy: LoadedPolicy | None = None,
        model: str = "",
        record: WorkRecord | None = None,
        open_sandbox: SandboxFactory = docker_sandbox,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.folder, self.provider, self.model = Path(folder), provider, model
        self.policy = policy or load_policy()
        self.record = record
        self._open_sandbox, self._now = open_sandbox, now
        self._held = AsyncExitStack()
        self.constitution: Constitution
        self.beliefs: BeliefSystem
        self.registry: OfficialToolsRegistry

    async def open(self) -> None:
        """Put the parts together; when that fails nothing is held."""
        async with AsyncExitStack() as held:
            held.push_async_callback(self.provider.close)
            await self._opened(held)
            self._held = held.pop_all()

    async def close(self) -> None:
        """End all that goes on and let go of the folder; may be called twice."""
        await self._held.aclose()

    def agint(
        self,
        box: LazySandbox,
        *,
        approval_handler: HumanApprovalHandler | None = None,
        on_question: Asker | None = None,
        agent_budget: Budget | None = None,
        budget: MissionBudget | None = None,
        **options: Any,
    ) -> AGInt:
        """Return an AGInt whose agents all work in `box`, each within `agent_budget`; `options` are passed on to it."""

        def make(agent_id: str, state: Path, reports: bool) -> PhaseAgent:
            agent = BDIAgent(
                BorrowedProvider(self._model_of(AGINT_ID)),
                self.tools(agent_id),
                beliefs=self.beliefs,
                state_path=state,
                budget=agent_budget,
                domain=agent_id,
                agent_id=agent_id,
                constitution=self.constitution,
                model=self.model,
                reports=reports,
                escalates=True,
            )
            return PhaseAgent(agent, box, approval_handler, on_question, self._hear)

        return AGInt(
            self._model_of(AGINT_ID),
            make,
            MissionStore(self.folder / "missions"),
            beliefs=self.beliefs,
            constitution=self.constitution,
            budget=budget,
            model=self.model,
            now=self._now,
            **options,
        )

    def tools(self, agent_id: str) -> LiveTools:
        """Return the tools of an agent: SimpleCoder, and what the registry allows it, as it is at each plan."""
        engine = PolicyEngine(self.policy.policy, autonomous=False)
        return LiveTools(tools_for(self.policy.policy.limits), self.registry, agent_id, engine=engine)

    def container(self, workspace: Path | None) -> LazySandbox:
        """Return a container that opens when it is needed, with a copy of the folder; the caller closes it."""
        return LazySandbox(lambda: self._session(workspace))

    async def _opened(self, held: AsyncExitStack) -> None:
        self.constitution = Constitution.of(self.folder)
        self.beliefs = BeliefSystem(self.folder / BELIEFS_FILE, now=self._now)
        held.callback(self.beliefs.close)
        self.registry = OfficialToolsRegistry(self.folder, constitution=self.constitution, layer=self.layer)
        self.registry.read()  # a damaged one is told before anything is done

    def _session(self, workspace: Path | None) -> Session:
        if self.record is not None:
            return self.record.session(workspace)
        return Session(self.policy, workspace, open_sandbox=self._open_sandbox)

    def _model_of(self, task: str) -> BaseProvider:
        """Return the model for one kind of work, which does not close it."""
        return BorrowedProvider(self.provider)

    @property
    def _hear(self) -> EventHandler | None:
        return None if self.record is None else self.record.hear

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class MindSystem(MissionSystem):
    """The whole society: the Coordinator and Mastermind too. It holds the folder as long as it is open.

    `improve` has tools and components developed; None calls the self-improvement agent as a process of its own, whose
    model is the endpoint of the settings, or the turns of `improvement_script`. `campaign_budget` and
    `coordinator_config` None are the defaults. `on_campaign` hears how campaigns go.
    Opening raises InputError (system_in_use) when another system has the folder.
    """

    layer = Layer.MASTERMIND

    def __init__(
        self,
        folder: Path,
        provider: BaseProvider,
        *,
        improve: Improve | None = None,
        improvement_script: Path | None = None,
        campaign_budget: CampaignBudget | None = None,
        coordinator_config: CoordinatorConfig | None = None,
        on_campaign: CampaignListener = lambda campaign, text: None,
        **options: Any,
    ) -> None:
        super().__init__(folder, provider, **options)
        self._improve, self._script = improve, improvement_script
        self._campaign_budget = campaign_budget or CampaignBudget()
        self._coordinator_config = coordinator_config or CoordinatorConfig()
        self._on_campaign = on_campaign
        self._box = self.container(None)
        self.coordinator: CoordinatorAgent
        self.mastermind: MastermindAgent

    async def _opened(self, held: AsyncExitStack) -> None:
        busy = InputError(
            "system_in_use",
            f"another system works in {self.folder}; wait for its campaign, or end it with `mindx campaign stop`",
        )
        held.enter_context(locked(self.folder / LOCK_FILE, busy))
        await super()._opened(held)
        store = CampaignStore(self.folder)
        asked = {"improvement_script": self._script, "model": self.model}
        asked = {name: value for name, value in asked.items() if value}
        coordinator = CoordinatorAgent(
            self.folder,
            beliefs=self.beliefs,
            constitution=self.constitution,
            improve=self._improve or partial(call_improvement, work_dir=self.folder / IMPROVEMENT_FOLDER),
            provider=BorrowedProvider(self.provider),
            policy=self.policy,
            campaigns=lambda: [one.told for one in store.history().campaigns],
            config=self._coordinator_config.model_copy(update=asked),
            now=self._now,
        )
        self.coordinator = await held.enter_async_context(coordinator)
        for agent_id, layer in ((MASTERMIND_ID, Layer.MASTERMIND), (AGINT_ID, Layer.AGINT)):
            self.coordinator.register_agent(agent_id, agent_id, layer=layer)
        self.coordinator.start()  # the watch over the machine; it ends with the coordinator
        held.push_async_callback(self._box.close)
        mastermind = MastermindAgent(
            store,
            StopSwitch(self.folder),
            self._strategist,
            constitution=self.constitution,
            budget=self._campaign_budget,
            listener=self._on_campaign,
            now=self._now,
        )
        self.mastermind = await held.enter_async_context(mastermind)

    def _strategist(self, campaign: StrategicCampaign, keep: Callable[[StrategicCampaign], None]) -> CampaignStrategist:
        desk = CampaignDesk(
            campaign,
            self._model_of(MASTERMIND_ID),
            self.model,
            self.coordinator,
            self.registry,
            self.beliefs,
            self.constitution,
            self._campaign_budget,
            keep,
            self.mastermind.store.list,
            self._launch_mission,
            self.mastermind.objectives,
            tokens_of(campaign.usage),
        )
        folder = self.mastermind.store.path(campaign.campaign_id)
        return CampaignStrategist(desk, folder, self.tools(MASTERMIND_ID), self._box, self._hear)

    async def _launch_mission(self, directive: str) -> Mission:
        """Have AGInt see a directive through in a container of its own, whose changes are the run's, to be reviewed."""
        box = self.container(None)
        try:
            mission = await self.agint(box).run(directive)
            if self.record is not None:
                await self.record.collect(box.session)
            return mission
        finally:
            await box.close()

    def _model_of(self, task: str) -> BaseProvider:
        """Return the model as one whose calls the Coordinator's monitor counts."""
        return self.coordinator.performance.watched(super()._model_of(task), task)


def is_free(folder: Path) -> bool:
    """Return whether no system works in this folder now."""
    return is_unlocked(folder / LOCK_FILE)
