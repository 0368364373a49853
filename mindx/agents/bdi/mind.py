"""The mind of a BDI agent: perceive, deliberate, plan, execute; each step of the loop is one walk through the cycle."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from mindx.agents.bdi.budget import BudgetReachedError
from mindx.agents.bdi.checking import checks, somebody_approves, unfit
from mindx.agents.bdi.closing import Closing
from mindx.agents.bdi.failure import Diagnosis, FailureType
from mindx.agents.bdi.flight import Awaited, Flight, RunNotes
from mindx.agents.bdi.goals import Goal, GoalStatus
from mindx.agents.bdi.intention import Intention, PlanStatus, StepStatus
from mindx.agents.bdi.mind_parts import MindParts
from mindx.agents.bdi.own_actions import ASK_USER, DECOMPOSE_GOAL
from mindx.agents.bdi.perception import Perception
from mindx.agents.bdi.plan_dialogue import PlanningError
from mindx.agents.bdi.planner import Planner
from mindx.agents.bdi.prompts import MAX_LOGGED, shown
from mindx.agents.bdi.result import GoalFailedError
from mindx.agents.bdi.resuming import LOST, UNKNOWN, resume, settle
from mindx.agents.bdi.status import BDIPhase, BDIStatus
from mindx.agents.bdi.step_requests import StepRequests
from mindx.core.agent_context import AgentContext
from mindx.core.count import counted
from mindx.core.decision import AgentDecision, CompletionClaim
from mindx.core.observation import Observation
from mindx.errors import InputError, MindxError

LOG = logging.getLogger("bdi_agent")


class BDIMind:
    """Decides; `notes` tells of the latest run. It has no `tools` of its own to show: it asks its model by itself."""

    def __init__(self, parts: MindParts) -> None:
        self.parts = parts
        self.notes = RunNotes()
        self.same_container = False  # the coming run goes on in the container of the latest
        self._memory = parts.memory
        self._machine = parts.machine
        self._desires = parts.desires
        self._closing = Closing(parts.memory, parts.desires, parts.recovery, parts.trail)
        self._perception = Perception(parts, self._closing)
        self._planner = Planner(
            parts.dialogue,
            parts.memory,
            parts.desires,
            parts.beliefs,
            parts.namespace,
            parts.budget,
            self._before_model,
        )
        self._requests = StepRequests(
            parts.tools,
            parts.acts,
            parts.beliefs,
            parts.namespace,
            spend=self._spend_command,
        )
        self._spent = parts.memory.head.spent
        self.last_box: object = None
        self.last_opened = 0
        self._context: AgentContext | None = None
        self._run_id = ""
        self._flight: Flight | None = None
        self._began = self._base_s = 0.0

    @property
    def goal_in_flight(self) -> Goal | None:
        """The goal that is being pursued at this moment, or None."""
        return None if self._flight is None else self._flight.goal

    def spend(self, tokens: int, usage: Mapping[str, int]) -> None:
        """Count what an answer cost: its tokens for the budget, the rest for who asks."""
        self._spent.tokens += tokens
        for name, count in usage.items():
            self.notes.usage[name] = self.notes.usage.get(name, 0) + count
            if self._context is not None:
                self._context.usage[name] = self._context.usage.get(name, 0) + count

    async def decide(self, context: AgentContext) -> AgentDecision:
        """Return what to do next.

        Raises GoalFailedError, BudgetReachedError (the run is then PARTIAL), ProviderError, StateError.
        """
        try:
            if context.run_id != self._run_id:
                await self._begin(context)
            return await self._turn(context)
        except GoalFailedError:
            raise
        except BudgetReachedError as reached:
            self.end(BDIStatus.TIMED_OUT, reached.message)
            raise
        except MindxError as error:
            self.end(BDIStatus.FAILED_UNRECOVERABLE, error.message)
            raise
        finally:
            await self.parts.trail.tell(context)

    def settle(self, observations: Sequence[Observation]) -> None:
        """Take in the result of a step that the loop's own end kept from being perceived."""
        flight, self._flight = self._flight, None
        if flight is None or flight.awaited is not Awaited.STEP or flight.plan is None:
            return
        settle(self._memory, flight.plan, flight.index, observations)

    def wait_for_person(self, seconds: float) -> None:
        """Leave time that a person took out of what the run costs."""
        self._began += seconds

    def end(self, status: BDIStatus, message: str) -> None:
        """Note how a run ended. After an end nothing changes until the next run."""
        if self._machine.status.terminal:
            return
        if self._machine.status is not BDIStatus.RUNNING and status not in (BDIStatus.TIMED_OUT, BDIStatus.CANCELLED):
            self._machine.move(BDIStatus.RUNNING)
        self._machine.move(status)
        self._memory.end(status, message)
        LOG.info("BDI run finished with final status: %s", status.value)

    async def _begin(self, context: AgentContext) -> None:
        self._run_id, self._context = context.run_id, context
        self.notes = RunNotes()
        self._flight = None
        self._requests.begin()
        self._began, self._base_s = self.parts.clock(), self._spent.seconds
        self._machine.phase = BDIPhase.PERCEIVE
        self._machine.move(BDIStatus.RUNNING)
        head = self._memory.head
        head.runs += 1
        unknown = resume(self._memory, self._desires, self.parts.tools, kept=self.same_container)
        self._memory.save()
        for goal, plan, index in unknown:
            reason = UNKNOWN if self.same_container else f"{UNKNOWN}. {LOST}"
            found = Diagnosis(failure_type=FailureType.OUTCOME_UNKNOWN, reason=reason, action=plan.steps[index].label)
            await self._failed(goal, plan, index, found, context)

    async def _turn(self, context: AgentContext) -> AgentDecision:
        self._machine.enter(BDIPhase.PERCEIVE)
        await self._perceive(context)  # before the budget: what was done is not forgotten
        self._budget("cycles", "tokens", "seconds")
        self._spent.cycles += 1
        self.notes.cycles += 1
        while True:
            self._machine.enter(BDIPhase.DELIBERATE)
            goal = await self._deliberate(context)
            if goal is None:
                return await self._finish(context)
            decision = await self._pursue(goal, context)
            if decision is not None:
                self._machine.enter(BDIPhase.EXECUTE)
                self._machine.move(BDIStatus.EXECUTING_ACTION)
                if self._flight is not None and self._flight.waits_for_user:
                    self._machine.move(BDIStatus.WAITING_FOR_USER)
                return decision
            self._machine.enter(BDIPhase.PERCEIVE)

    def _budget(self, *names: str) -> None:
        self._spent.seconds = self._base_s + self.parts.clock() - self._began
        reached = self.parts.budget.reached(self._spent, names)
        if reached is not None:
            raise reached

    async def _perceive(self, context: AgentContext) -> None:
        """Take in what came of the last decision."""
        flight, self._flight = self._flight, None
        if self._machine.status is not BDIStatus.RUNNING:
            self._machine.move(BDIStatus.RUNNING)
        if flight is None:
            return
        if flight.waits_for_user:
            self.wait_for_person(self.parts.clock() - flight.began)
        await self._perception.take_in(flight, context, self.notes)

    async def _deliberate(self, context: AgentContext) -> Goal | None:
        """Return the goal to pursue now, None when none is open."""
        while True:
            goal = self._desires.next()
            if goal is None:
                return None
            lost = self._desires.failed_needs(goal)
            if not lost:
                break
            reason = f"{lost[0].goal_id} ({shown(lost[0].text, 100)}), which it depends on, failed: {lost[0].reason}"
            found = Diagnosis(failure_type=FailureType.SUBGOAL_FAILED, reason=reason[:2000], action=DECOMPOSE_GOAL)
            if all(item.parent_id != goal.goal_id for item in lost):
                self._closing.give_up(goal, GoalStatus.FAILED_EXECUTION, reason)
                continue
            goal.depends_on = [needed for needed in goal.depends_on if self._desires.get(needed).status.done]
            await self._failed(goal, self._memory.plan_of(goal), -1, found, context)
        if goal.status is not GoalStatus.ACTIVE:
            LOG.info("Deliberation: Selected goal '%s'", shown(goal.text, MAX_LOGGED))
            self.parts.trail.note("goal_selected", goal_id=goal.goal_id, goal=goal.text, priority=goal.priority)
            goal.status = GoalStatus.ACTIVE
            self._memory.save(goals=(goal,))
        return goal

    async def _pursue(self, goal: Goal, context: AgentContext) -> AgentDecision | None:
        """Return the next decision for a goal; None when deliberation has to look again."""
        question = self._closing.questions.pop(goal.goal_id, "")
        if question:
            self._flight = Flight(Awaited.DOUBT, goal, began=self.parts.clock())
            return AgentDecision.ask(question)
        plan = self._memory.plan_of(goal)
        if plan is None or not plan.open:
            problem = unfit(goal.criteria, context)
            if problem:
                self._closing.give_up(goal, GoalStatus.FAILED_EXECUTION, problem)
                return None
            plan = await self._plan(goal, context)
            if plan is None:
                return None
        return await self._execute_intention(goal, plan, context)

    async def _plan(self, goal: Goal, context: AgentContext) -> Intention | None:
        """Have a plan made and return it as the new intention; None when the goal is given up."""
        self._machine.enter(BDIPhase.PLAN)
        self._machine.move(BDIStatus.PLANNING)
        LOG.info("Generating plan for goal: %s", shown(goal.text, MAX_LOGGED))
        before = self._planner.continued(goal)
        keeps = before is not None and self._requests.is_active(before)
        try:
            states = context.tool_states if keeps else {}
            plan = await self._planner.make(goal, context, states, may_ask=somebody_approves(context))
        except PlanningError as error:
            self._machine.move(BDIStatus.RUNNING)
            LOG.error("Planning failed: %s", shown(error.message, MAX_LOGGED))
            self._closing.give_up(goal, GoalStatus.FAILED_PLANNING, error.message)
            return None
        self._machine.move(BDIStatus.RUNNING)
        LOG.info("Set new intention (Plan ID: %s) with %s", plan.plan_id, counted(len(plan.steps), "action"))
        self.notes.plan_ids.append(plan.plan_id)
        return plan

    def _before_model(self) -> None:
        self.parts.before_model()
        self._budget("tokens", "seconds")

    async def _execute_intention(self, goal: Goal, plan: Intention, context: AgentContext) -> AgentDecision | None:
        """Return the decision for the coming step; at the plan's end, for its criteria."""
        while plan.step is not None and plan.step.status is StepStatus.DONE:
            plan.index += 1
        plan.status = PlanStatus.EXECUTING
        step = plan.step
        if step is None:
            return self._verify(goal, plan)
        before = self._memory.before(goal, plan)
        if before is not None and not before.complete:
            self._requests.go_on(before, plan)
        self._requests.enter(plan, context)
        try:
            params = self._requests.params(plan, step)
        except InputError as error:
            found = Diagnosis(failure_type=FailureType.INVALID_PARAMETERS, reason=error.message, action=step.label)
            await self._failed(goal, plan, plan.index, found, context)
            return None
        LOG.info("Executing action '%s' with params: %s", step.type, shown(params, MAX_LOGGED))
        if step.type == ASK_USER:
            self._flight = Flight(Awaited.QUESTION, goal, plan, plan.index, self.parts.clock())
            return AgentDecision.ask(str(params["question"]))
        request = self._requests.request(plan.action_id, step, params)
        step.status = StepStatus.STARTED
        self._memory.save_step(plan, plan.index)
        self._flight = Flight(Awaited.STEP, goal, plan, plan.index)
        return AgentDecision.act(request)

    def _verify(self, goal: Goal, plan: Intention) -> AgentDecision | None:
        """Return the check of the goal's criteria; None when there is nothing to check.

        Without criteria the end of a complete plan is the proof; after another one the goal gets a further plan.
        """
        if not plan.complete:
            LOG.info("Plan %s is done; the goal gets a further one", plan.plan_id)
            plan.status = PlanStatus.COMPLETED
            self.parts.recovery.achieved(goal)
            self._memory.save(plan=plan)
            return None
        if not goal.criteria:
            self._closing.achieved(goal, plan)
            return None
        LOG.info("Plan %s is done; criteria to check: %d", plan.plan_id, len(goal.criteria))
        self._flight = Flight(Awaited.CRITERIA, goal, plan)
        return AgentDecision.verify(*checks(goal, self.notes.cycles))

    def _spend_command(self) -> None:
        self._budget("commands")
        self._spent.commands += 1

    async def _failed(
        self, goal: Goal, plan: Intention | None, index: int, found: Diagnosis, context: AgentContext
    ) -> None:
        await self._closing.failed(goal, plan, index, found, can_ask=context.config.interactive)

    async def _finish(self, context: AgentContext) -> AgentDecision:
        """Return the completion, when no goal is open. Raises GoalFailedError when the one that counts failed."""
        goal = self._desires.primary or next(iter(reversed(self._desires.all)), None)
        if goal is None:
            self.end(BDIStatus.IDLE_COMPLETE, "there is no goal to pursue")
            return AgentDecision.complete("there is no goal to pursue")
        if not goal.status.done:
            planning = goal.status is GoalStatus.FAILED_PLANNING
            status = BDIStatus.FAILED_PLANNING if planning else BDIStatus.FAILED_ACTION
            self.end(status, goal.reason)
            raise GoalFailedError(status, goal.goal_id, goal.reason)
        self.notes.answer = await self.parts.reporting.answer(goal, self._before_model)
        self.end(BDIStatus.GOAL_ACHIEVED, self.notes.answer)
        self._flight = Flight(Awaited.CLAIM, goal)
        cited = {
            name: ids for name, ids in self.notes.evidence.items() if all(item in context.evidence for item in ids)
        }
        return AgentDecision.complete(self.notes.answer, CompletionClaim(self.notes.answer[:500], cited))
