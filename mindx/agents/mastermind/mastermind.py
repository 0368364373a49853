"""The MastermindAgent: launches campaigns, keeps them within their budgets, and records what came of each."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Protocol

import anyio

from mindx.agents.bdi.result import BDIResult
from mindx.agents.constitution import Act, Constitution, Layer
from mindx.agents.mastermind.campaign import (
    DEFAULT_DIRECTIVE,
    MAX_DIRECTIVE,
    MAX_SUMMARY,
    CampaignBudget,
    CampaignOutcome,
    CampaignStatus,
    StrategicCampaign,
)
from mindx.agents.mastermind.campaign_store import CampaignStore
from mindx.agents.mastermind.gaps import missing
from mindx.agents.mastermind.objectives import ObjectiveStore
from mindx.agents.mastermind.stop_switch import ALL, StopSwitch
from mindx.core.count import counted
from mindx.errors import DeniedError, InputError, MindxError
from mindx.runtime.run_ids import new_id

_LOG = logging.getLogger("mastermind")
DAY_S = 86_400.0
Listener = Callable[[StrategicCampaign, str], None]


class Strategist(Protocol):
    """Who works on one campaign: the subordinate BDI agent, and what closes the gaps that its plan left."""

    @property
    def campaign(self) -> StrategicCampaign:
        """The campaign's record as it stands."""
        ...

    async def pursue(self, told: Callable[[str], None], *, renewed: bool = False) -> BDIResult:
        """Pursue the directive as the primary goal; `told` hears what happens, `renewed` means a fresh budget."""
        ...

    async def close_gaps(self, told: Callable[[str], None]) -> None:
        """Register what was developed, and use once what was registered."""
        ...


class MastermindAgent:
    """Launches campaigns, one at a time, on the state folder of one system (whoever makes it holds the folder's lock).

    `make_strategist` makes who works on a campaign, from its record and a function that keeps it. `listener` hears
    what happens, in sentences. `now` (seconds since 1970), `clock` (seconds), `sleep` and `new_id` are for tests.
    """

    def __init__(
        self,
        store: CampaignStore,
        switch: StopSwitch,
        make_strategist: Callable[[StrategicCampaign, Callable[[StrategicCampaign], None]], Strategist],
        *,
        constitution: Constitution,
        budget: CampaignBudget | None = None,
        listener: Listener = lambda campaign, text: None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        new_id: Callable[[str], str] = new_id,
    ) -> None:
        self.store, self.switch = store, switch
        self.objectives = ObjectiveStore(store.folder, now=now)
        self.budget = budget or CampaignBudget()
        self._make_strategist = make_strategist
        self._constitution = constitution
        self._listener = listener
        self._now, self._clock, self._sleep, self._new_id = now, clock, sleep, new_id
        self._one = asyncio.Lock()
        self._worker: asyncio.Task[None] | None = None

    async def launch_campaign(
        self,
        directive: str = "",
        *,
        max_bdi_cycles: int | None = None,
        campaign_id: str | None = None,
        autonomous: bool = False,
    ) -> StrategicCampaign:
        """Run a campaign to its end and return it; "" takes the self-reflective default directive.

        `max_bdi_cycles` None takes the budget's, and more than that is not had. A campaign that fails is returned as
        such, with the reason in its outcome. When the caller is cancelled the campaign is STOPPED. Raises InputError:
        campaign_directive, campaign_exists, campaign_budget; DeniedError (campaigns_stopped) while the stop switch is
        set; StateError when it cannot be recorded.
        """
        text = (directive or DEFAULT_DIRECTIVE).strip()
        if not text or len(text) > MAX_DIRECTIVE:
            raise InputError("campaign_directive", f"a directive has 1 to {MAX_DIRECTIVE:,} characters")
        cycles = self.budget.max_bdi_cycles if max_bdi_cycles is None else max_bdi_cycles
        if not 1 <= cycles <= self.budget.max_bdi_cycles:
            most = self.budget.max_bdi_cycles
            raise InputError("campaign_budget", f"{cycles} cycles are asked for; the budget allows 1 to {most}")
        async with self._one:
            self._may_begin()
            self._check_day()
            name = campaign_id or self._new_id("mscamp")
            if (self.store.path(name) / "campaign.json").exists():
                raise InputError("campaign_exists", f"there is a campaign {name} already; take another id")
            made = StrategicCampaign(
                campaign_id=name,
                directive=text,
                autonomous=autonomous,
                created_at=self._now(),
                max_bdi_cycles=cycles,
            )
            self.objectives.all()
            self.store.history()  # a record that is damaged is told before anything is done that it could not keep
            self.store.save(made)
            return await self._conduct(made)

    async def take_up(self, campaign_id: str) -> StrategicCampaign:
        """Go on with a campaign that is not complete, whatever ended it, its process' death too; see `launch_campaign`.

        Its budgets begin anew, since a person lets it go on. Its agent goes on with the goal and plan where it was.
        Raises InputError (campaign_unknown, campaign_ended) besides.
        """
        async with self._one:
            self._may_begin(campaign_id)
            found = self.store.load(campaign_id)
            if found.status is CampaignStatus.COMPLETED:
                raise InputError("campaign_ended", f"the campaign {campaign_id} is complete; begin another")
            return await self._conduct(found, renewed=True)

    def start_worker(self, interval_s: float, directive: str = "") -> None:
        """Begin the autonomous worker: after each `interval_s` seconds a campaign. It is off until this is called.

        It ends when the stop switch is set. Raises InputError (worker_running).
        """
        if self._worker is not None and not self._worker.done():
            raise InputError("worker_running", "the autonomous worker runs already")
        self._worker = asyncio.create_task(self._autonomous_worker(interval_s, directive), name="autonomous_worker")

    async def stop_worker(self) -> None:
        """End the worker and the campaign that it is at; nothing happens when there is none."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.cancel()
            await asyncio.wait({worker})

    async def wait_worker(self) -> None:
        """Wait until the worker has ended by itself."""
        if self._worker is not None:
            await asyncio.shield(self._worker)

    async def close(self) -> None:
        """End the worker; may be called twice."""
        await self.stop_worker()

    async def __aenter__(self) -> MastermindAgent:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _autonomous_worker(self, interval_s: float, directive: str) -> None:
        text = (directive or DEFAULT_DIRECTIVE).strip()
        while not self.switch.stops():
            if not await self._slept(interval_s):
                break
            if self._repeats(text):
                _LOG.info("Worker: the directive was completed not long ago; nothing to do")
                continue
            try:
                await self.launch_campaign(text, autonomous=True)
            except MindxError as error:
                # A worker outlives what goes wrong in one round; the next is an interval away.
                _LOG.warning("Worker: no campaign: %s", error.message)
        _LOG.info("Worker: stopped by the switch")

    async def _slept(self, interval_s: float) -> bool:
        """Sleep; return False as soon as the switch is set."""
        tasks = [asyncio.ensure_future(self._sleep(interval_s)), asyncio.ensure_future(self.switch.wait(ALL))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return not self.switch.stops()

    def _repeats(self, directive: str) -> bool:
        since = self._now() - self.budget.repeat_after_s
        return any(
            one.status is CampaignStatus.COMPLETED and one.directive == directive and one.created_at > since
            for one in self.store.list()
        )

    def _may_begin(self, campaign_id: str = "") -> None:
        self._constitution.require(Layer.MASTERMIND, Act.START_CAMPAIGN)
        if self.switch.stops() or (campaign_id and self.switch.stops(campaign_id)):
            message = "campaigns are stopped; `mindx campaign stop --release` lets them be started again"
            raise DeniedError("campaigns_stopped", message)

    def _check_day(self) -> None:
        since, most = self._now() - DAY_S, self.budget.max_per_day
        if sum(one.created_at > since for one in self.store.list()) >= most:
            raise InputError("campaign_budget", f"the budget of {counted(most, 'campaign')} a day is spent")

    async def _conduct(self, campaign: StrategicCampaign, *, renewed: bool = False) -> StrategicCampaign:
        """Work on a campaign until it ends, and record how; what was kept meanwhile is never lost."""
        running = campaign.model_copy(update={"status": CampaignStatus.RUNNING, "outcome": None, "completed_at": None})
        self.store.save(running)
        strategist = self._make_strategist(running, self.store.save)
        began = self._clock()
        _LOG.info("Campaign %s: %s", running.campaign_id, running.directive)
        self._tell(running, "begun")
        status, outcome = CampaignStatus.STOPPED, CampaignOutcome(summary="stopped", exit_code=130)
        try:
            status, outcome = await self._within(strategist, running.campaign_id, renewed=renewed)
        finally:
            ended = self._ended(strategist.campaign, status, outcome, self._clock() - began)
        return ended

    async def _within(
        self, strategist: Strategist, campaign_id: str, *, renewed: bool
    ) -> tuple[CampaignStatus, CampaignOutcome]:
        """Work until the end, the stop switch, or the budget of seconds."""
        work = asyncio.create_task(self._worked(strategist, renewed=renewed))
        stop = asyncio.create_task(self.switch.wait(campaign_id))
        try:
            await asyncio.wait({work, stop}, timeout=self.budget.max_seconds, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            if stop.done():
                summary = "stopped by the switch; it can be taken up again"
                return CampaignStatus.STOPPED, CampaignOutcome(summary=summary, exit_code=130)
            summary = f"the budget of {self.budget.max_seconds:g} s is spent"
            return CampaignStatus.PARTIAL, CampaignOutcome(summary=summary, error_code="campaign_time", exit_code=5)
        finally:
            stop.cancel()
            work.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({work, stop})

    async def _worked(self, strategist: Strategist, *, renewed: bool) -> tuple[CampaignStatus, CampaignOutcome]:
        def told(text: str) -> None:
            _LOG.info("%s", text)
            self._tell(strategist.campaign, text)

        try:
            result = await strategist.pursue(told, renewed=renewed)
            await strategist.close_gaps(told)
        except MindxError as error:
            outcome = CampaignOutcome(
                summary=error.message[:MAX_SUMMARY], error_code=error.code, exit_code=error.exit_code
            )
            return CampaignStatus.FAILED_INCOMPLETE, outcome
        return self._judged(strategist.campaign, result)

    def _judged(self, campaign: StrategicCampaign, result: BDIResult) -> tuple[CampaignStatus, CampaignOutcome]:
        """Say how a campaign ended by what it left, not by what its plan claims."""
        lacking = missing(campaign)
        final = result.status.value
        if not lacking:
            tools = ", ".join(f"{one.tool_id} {one.version}" for one in campaign.sub_tasks if one.registered)
            summary = f"registered and used: {tools}" if tools else "nothing is missing"
            return CampaignStatus.COMPLETED, CampaignOutcome(final_bdi_status=final, summary=summary[:MAX_SUMMARY])
        told = "; ".join([*lacking, *([result.message] if result.message else [])])[:MAX_SUMMARY]
        if final == "TIMED_OUT":
            outcome = CampaignOutcome(final_bdi_status=final, summary=told, error_code="budget_reached", exit_code=5)
            return CampaignStatus.PARTIAL, outcome
        outcome = CampaignOutcome(
            final_bdi_status=final,
            summary=told,
            error_code="campaign_incomplete",
            exit_code=1,
        )
        return CampaignStatus.FAILED_INCOMPLETE, outcome

    def _ended(
        self, campaign: StrategicCampaign, status: CampaignStatus, outcome: CampaignOutcome, seconds: float
    ) -> StrategicCampaign:
        ended = campaign.model_copy(
            update={
                "status": status,
                "outcome": outcome,
                "completed_at": self._now(),
                "seconds": round(campaign.seconds + seconds, 3),
            }
        )
        self.store.save(ended)
        _LOG.info("Campaign %s finished with final status: %s", ended.campaign_id, status.value)
        self._tell(ended, f"{status.value}: {outcome.summary}")
        return ended

    def _tell(self, campaign: StrategicCampaign, text: str) -> None:
        try:
            self._listener(campaign, text)
        except Exception:  # noqa: BLE001 - a bad listener hurts no campaign
            _LOG.exception("a listener failed")
