"""AGInt: the mind of a mission. Perceive, orient, decide, act, until every phase is achieved or a limit is there."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio

from mindx.agents.agint import prompts
from mindx.agents.agint.acts import Acts, Done, MakeAgent
from mindx.agents.agint.deciding import open_decisions
from mindx.agents.agint.life import AGIntDecision, AGIntStage, AGIntStatus, moved
from mindx.agents.agint.mission import MAX_DIRECTIVE, MAX_NOTES, CycleNote, Mission, MissionBudget, MissionStore, Spent
from mindx.agents.agint.phase import PhaseStatus
from mindx.agents.agint.readiness import readied
from mindx.agents.agint.watch import StuckDetector
from mindx.agents.beliefs import BeliefSource, BeliefSystem
from mindx.agents.constitution import Act, Constitution, Layer
from mindx.core.count import counted
from mindx.errors import InputError, MindxError, ProviderError
from mindx.providers.base import BaseProvider
from mindx.runtime.run_ids import new_id

_LOG = logging.getLogger("agint")
Listener = Callable[[Mission, CycleNote], None]
_EXIT_CODES = {AGIntStatus.COMPLETED: 0, AGIntStatus.PARTIAL: 5, AGIntStatus.STOPPED: 130}


@dataclass(frozen=True, slots=True)
class _Perception:
    """What a cycle begins with. `over` names the limit that is reached, or is ""."""

    mission: Mission
    trouble: MindxError | None
    over: str


class AGInt:
    """Sees missions through, one at a time. `make_agent` makes the BDI agent of each task.

    `listener` hears of each cycle. `now` (seconds since 1970), `clock` (seconds), `sleep` and `new_id` are for tests.
    """

    def __init__(
        self,
        provider: BaseProvider,
        make_agent: MakeAgent,
        store: MissionStore,
        *,
        beliefs: BeliefSystem,
        constitution: Constitution | None = None,
        budget: MissionBudget | None = None,
        model: str = "",
        listener: Listener = lambda mission, note: None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        new_id: Callable[[str], str] = new_id,
    ) -> None:
        self.store = store
        self.budget = budget or MissionBudget()
        self._provider, self._model, self._make_agent = provider, model, make_agent
        self._beliefs = beliefs
        self._constitution = constitution or Constitution.load()
        self._listener = listener
        self._now, self._clock, self._sleep, self._new_id = now, clock, sleep, new_id
        self._mission: Mission | None = None
        self._task: asyncio.Task[Mission] | None = None
        self._go = asyncio.Event()
        self._held = ExitStack()
        self._trouble: MindxError | None = None
        self._failure: MindxError | None = None
        self._began, self._before = 0.0, Spent()
        self._first_cycle = 0

    @property
    def mission(self) -> Mission:
        """The mission as it stands. Raises InputError (mission_state) before the first."""
        if self._mission is None:
            raise InputError("mission_state", "no mission has been started")
        return self._mission

    @property
    def failure(self) -> MindxError | None:
        """The error that ended the mission, if one did."""
        return self._failure

    @property
    def exit_code(self) -> int:
        """The exit code of the command line for how the mission stands."""
        known = _EXIT_CODES.get(self.mission.status)
        return known if known is not None else 1 if self._failure is None else self._failure.exit_code

    def start(self, directive: str, *, mission_id: str | None = None, workspace: Path | None = None) -> str:
        """Begin a mission in the background and return its id.

        Raises InputError: mission_state (one is going on), mission_directive, mission_exists, mission_in_use.
        """
        text = directive.strip()
        if not text or len(text) > MAX_DIRECTIVE:
            raise InputError("mission_directive", f"a directive has 1 to {MAX_DIRECTIVE:,} characters")
        name = mission_id or self._new_id("mission")
        self._constitution.require(Layer.AGINT, Act.START_MISSION)
        self._hold(name)
        try:
            if (self.store.path(name) / "mission.json").exists():
                raise InputError("mission_exists", f"there is a mission {name} already; resume it or name another")
            place = None if workspace is None else str(workspace.absolute())
            now = self._now()
            mission = Mission(mission_id=name, directive=text, workspace=place, created_at=now, updated_at=now)
            self._begin(mission)
        except BaseException:
            self._held.close()
            raise
        return name

    def take_up(self, mission_id: str, *, files_kept: bool = False) -> None:
        """Go on with a mission that was stopped, ran into a limit, failed, or whose process died.

        `files_kept` False: the container is a new one, so what achieved phases had left in it is done again; a phase
        in the middle goes on with its agent's plan. A mission that failed gets its attempts anew. Raises InputError:
        mission_unknown, mission_in_use, mission_state.
        """
        self._constitution.require(Layer.AGINT, Act.START_MISSION)
        self._hold(mission_id)
        try:
            mission = self.store.load(mission_id)
            self._begin(readied(mission, files_kept=files_kept))
        except BaseException:
            self._held.close()
            raise
        if mission.achieved and not files_kept:
            lost = counted(len(mission.achieved), "achieved phase")
            _LOG.warning("The container is new: what %s had left in the last one is done again", lost)

    def pause(self) -> None:
        """Let the act that goes on end, and begin no other. Raises InputError (mission_state)."""
        self._move(AGIntStatus.PAUSED)
        self._go.clear()

    def resume(self) -> None:
        """Go on after a pause. Raises InputError (mission_state)."""
        self._move(AGIntStatus.RUNNING)
        self._go.set()

    async def stop(self) -> Mission:
        """End the mission where it stands, also in the middle of a phase; it can be taken up again.

        One that has ended already stays as it is.
        """
        if self._task is not None and not self._task.done():
            self._move(AGIntStatus.STOPPING)
            self._task.cancel()
        return await self.wait()

    async def wait(self) -> Mission:
        """Return the mission when it has ended; when the caller is cancelled it goes on.

        Raises InputError (mission_state), StateError when it cannot be written.
        """
        if self._task is None:
            raise InputError("mission_state", "no mission has been started")
        return await asyncio.shield(self._task)

    async def run(self, directive: str, *, mission_id: str | None = None, workspace: Path | None = None) -> Mission:
        """Start a mission and wait for its end; when the caller is cancelled the mission is stopped."""
        self.start(directive, mission_id=mission_id, workspace=workspace)
        return await self.finish()

    async def finish(self) -> Mission:
        """Wait for the end; when the caller is cancelled the mission is stopped first."""
        try:
            return await self.wait()
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def close(self) -> None:
        """Stop what goes on; may be called twice."""
        if self._task is not None:
            await self.stop()

    async def __aenter__(self) -> AGInt:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _hold(self, mission_id: str) -> None:
        if self._task is not None and not self._task.done():
            raise InputError("mission_state", f"the mission {self.mission.mission_id} is going on; wait, or stop it")
        self._held.enter_context(self.store.writing(mission_id))

    def _begin(self, mission: Mission) -> None:
        status = moved(mission.status, AGIntStatus.RUNNING)
        self._trouble = self._failure = None
        self._began, self._before = self._clock(), mission.spent
        self._first_cycle = mission.cycle
        self._mission = mission.model_copy(update={"status": status, "message": "", "error_code": ""})
        self._keep(self._mission)
        self._go.set()
        self._task = asyncio.create_task(self._live(), name=mission.mission_id)

    async def _live(self) -> Mission:
        """The whole life of one mission in this process; the lock is held until its end is on the disk."""
        with self._held:
            try:
                status, message = await self._cognitive_loop()
            except asyncio.CancelledError:
                status, message = AGIntStatus.STOPPED, "stopped; it can be taken up again"
            except MindxError as error:
                self._failure = error
                status, message = AGIntStatus.FAILED, error.message
            code = "" if self._failure is None else self._failure.code
            ended = {"stage": AGIntStage.IDLE, "error_code": code, "message": message[:2000]}
            self._mission = self.mission.model_copy(update=ended)
            self._move(status)
        _LOG.info("Mission '%s' finished with final status: %s", self.mission.mission_id, status.name)
        return self.mission

    async def _cognitive_loop(self) -> tuple[AGIntStatus, str]:
        """Cycle until there is an end; return how it ended, and why."""
        stuck = StuckDetector()
        acts = Acts(
            self._provider,
            self._model,
            self._make_agent,
            self._beliefs,
            self._constitution,
            self.budget,
            self.store.path(self.mission.mission_id),
            self._keep,
            self._sleep,
        )
        try:
            return await self._cycles(acts, stuck)
        finally:
            await acts.close()

    async def _cycles(self, acts: Acts, stuck: StuckDetector) -> tuple[AGIntStatus, str]:
        while True:
            self._see(self.mission, AGIntStage.IDLE)
            await self._go.wait()
            perception = self._perceive(acts)
            if perception.over:
                return AGIntStatus.PARTIAL, f"{perception.over}; it can be taken up again"
            self._orient(perception)
            decision, reason, question = await self._decide(perception, acts)
            undone = await acts.still_holds(self.mission) if decision is AGIntDecision.COMPLETE else None
            if undone is not None:
                self._note(undone, decision, reason)
                continue
            if decision is AGIntDecision.COMPLETE:
                return AGIntStatus.COMPLETED, f"every phase is achieved, {len(self.mission.phases)} in all"
            if decision is AGIntDecision.GIVE_UP:
                self._failure = self._trouble
                return AGIntStatus.FAILED, reason
            error = ""
            with anyio.move_on_after(self.budget.max_seconds - (self._clock() - self._began)) as scope:
                error = await self._act(decision, reason, question, acts)
            if scope.cancelled_caught:  # a phase that was cut off goes on when the mission is taken up
                continue
            spent = self.mission.spent
            why = stuck.look(self.mission.phases, (spent.revisions, spent.researches, spent.repairs), error)
            if why:
                self._failure = self._trouble or MindxError("mission_stuck", f"the mission is stuck: {why}")
                return AGIntStatus.FAILED, f"the mission is stuck: {why}"

    def _perceive(self, acts: Acts) -> _Perception:
        mission, budget = self.mission, self.budget
        seconds = self._clock() - self._began
        tokens, acts.tokens = acts.tokens, 0
        spent = mission.spent.model_copy(
            update={"seconds": round(self._before.seconds + seconds, 3), "tokens": mission.spent.tokens + tokens}
        )
        mission = mission.model_copy(update={"spent": spent, "cycle": mission.cycle + 1})
        over = ""
        if mission.cycle - self._first_cycle > budget.max_cycles:
            over = f"the limit of {counted(budget.max_cycles, 'cycle')} is reached"
        elif seconds >= budget.max_seconds:
            over = f"the limit of {budget.max_seconds:g} s is reached"
        elif spent.tokens - self._before.tokens >= budget.max_tokens:
            over = f"the limit of {counted(budget.max_tokens, 'token')} is reached"
        self._see(mission, AGIntStage.PERCEIVE)
        return _Perception(mission, self._trouble, over)

    def _orient(self, perception: _Perception) -> None:
        """Put into one sentence how things stand; it is a belief of this mission too."""
        mission = perception.mission
        last = mission.notes[-1].message if mission.notes else ""
        trouble = "" if perception.trouble is None else " The model does not answer."
        phases = counted(len(mission.phases), "phase")
        so_far = f"{len(mission.achieved)} of {phases} achieved." if mission.phases else "New."
        text = f"{so_far}{trouble}{f' Last: {last}' if last else ''}"[:2000]
        self._see(mission.model_copy(update={"awareness": text}), AGIntStage.ORIENT)
        self._constitution.require(Layer.AGINT, Act.WRITE_BELIEF)
        self._beliefs.add("awareness", text, source=BeliefSource.INFERENCE, namespace=f"agint.{mission.mission_id}")

    async def _decide(self, perception: _Perception, acts: Acts) -> tuple[AGIntDecision, str, str]:
        """Return the decision, the reason, and the question of a research."""
        self._see(self.mission, AGIntStage.DECIDE)
        found = open_decisions(self.mission, self.budget, perception.trouble)
        if len(found.options) == 1:
            return found.options[0], found.reason, ""
        try:
            choice: prompts.Choice = await acts.ask(
                prompts.choose_prompt(found.options),
                prompts.standing(self.mission),
                prompts.read_choice(found.options),
                prompts.Choice.model_json_schema(),
            )
        except ProviderError as error:
            # Whatever ails the model, the rules have an answer; a failure that stays is met by the act itself.
            _LOG.warning("no usable choice (%s); by rule: %s", error.code, found.options[0].value)
            return found.options[0], found.reason, ""
        return choice.decision, choice.reason or found.reason, choice.question

    async def _act(self, decision: AGIntDecision, reason: str, question: str, acts: Acts) -> str:
        """Do it and note it; return the text of what failed, or ""."""
        self._see(self.mission, AGIntStage.ACT)
        _LOG.info("Decision: %s (%s)", decision.name, reason)
        error = ""
        try:
            done = await acts.do(decision, self.mission, question)
            if decision is not AGIntDecision.ENTER_COOLDOWN:
                self._trouble = None
        except ProviderError as failure:
            self._trouble, error = failure, failure.message
            mission = self.mission
            if decision is AGIntDecision.PERFORM_SELF_REPAIR:
                spent = mission.spent.model_copy(update={"repairs": mission.spent.repairs + 1})
                mission = mission.model_copy(update={"spent": spent})
            done = Done(mission, "failed", failure.message)
        self._note(done, decision, reason)
        if done.outcome == PhaseStatus.FAILED.value and not error:
            error = done.message
        return error

    def _note(self, done: Done, decision: AGIntDecision, reason: str) -> None:
        note = CycleNote(
            cycle=done.mission.cycle,
            at=self._now(),
            decision=decision,
            reason=reason[:2000],
            phase=done.phase,
            outcome=done.outcome,
            message=done.message[:2000],
        )
        _LOG.info("Action '%s' ended: %s. %s", decision.name, done.outcome, done.message)
        self._keep(done.mission.model_copy(update={"notes": (*done.mission.notes, note)[-MAX_NOTES:]}))
        try:
            self._listener(self.mission, note)
        except Exception:  # noqa: BLE001 - a bad listener hurts no mission
            _LOG.exception("a listener failed")

    def _see(self, mission: Mission, stage: AGIntStage) -> None:
        """Make this the mission in memory; a stage is not worth a write."""
        self._mission = mission.model_copy(update={"stage": stage})

    def _move(self, status: AGIntStatus) -> None:
        self._mission = self.mission.model_copy(update={"status": moved(self.mission.status, status)})
        self._keep(self._mission)

    def _keep(self, mission: Mission) -> None:
        """Make this the mission, in memory and on the disk.

        Its status may have changed while an act went on with what it knew (a pause): what stands now counts.
        """
        status = mission.status if self._mission is None else self._mission.status
        self._mission = mission.model_copy(update={"status": status, "updated_at": self._now()})
        self.store.save(self._mission)
