"""What a mind takes in: the result of a step, an answer, what a check found, a claim that was not accepted."""

from __future__ import annotations

import logging

from mindx.agents.bdi.checking import judged
from mindx.agents.bdi.closing import Closing
from mindx.agents.bdi.failure import MAX_REASON, Diagnosis, FailureType, diagnose
from mindx.agents.bdi.flight import Awaited, Flight, RunNotes
from mindx.agents.bdi.goals import Goal, GoalStatus
from mindx.agents.bdi.intention import Intention, PlanStatus, PlanStep, step_result
from mindx.agents.bdi.mind_parts import MindParts
from mindx.agents.bdi.own_actions import ASK_USER, DECOMPOSE_GOAL
from mindx.agents.bdi.prompts import MAX_LOGGED, shown
from mindx.agents.bdi.resuming import note_effect
from mindx.core.agent_context import AgentContext
from mindx.core.observation import Observation, Status
from mindx.runtime.loop import NO_ANSWER, NOBODY

LOG = logging.getLogger("bdi_agent")
LAST_ACTION_TTL_S = 86_400.0


class Perception:
    """Takes in what came of a decision: plans go on, and failures are dealt with by `closing`."""

    def __init__(self, parts: MindParts, closing: Closing) -> None:
        self._parts = parts
        self._memory = parts.memory
        self._closing = closing

    async def take_in(self, flight: Flight, context: AgentContext, notes: RunNotes) -> None:
        """Take in what came of the decision `flight`; `notes` are the run's."""
        if flight.waits_for_user:
            await self._heard(flight, context, notes)
        elif flight.awaited is Awaited.CRITERIA:
            await self._judged(flight, context, notes)
        elif flight.awaited is Awaited.CLAIM:
            await self._doubted(flight, context)
        elif flight.plan is not None:
            observation = context.observations[0] if context.observations else None
            succeeded = observation is not None and observation.ok
            await self._on_action_completed(succeeded, observation, flight, context, notes)

    async def _on_action_completed(
        self, success: bool, result: Observation | None, flight: Flight, context: AgentContext, notes: RunNotes
    ) -> None:
        """Take in the result of a step: the plan goes on, or the failure is dealt with."""
        plan, goal = flight.plan, flight.goal
        assert plan is not None
        step = plan.steps[flight.index]
        if result is None:
            result = Observation(plan.action_id, Status.ERROR, "the action gave no result")
        step.message = result.message[:2000]
        given = step_result(result)
        self._believe(step, result)
        notes.note(result.action_id, given)
        if not success:
            LOG.warning("Action '%s' FAILED. Result: %s", step.type, shown(given or result.message, MAX_LOGGED))
            found = diagnose(result, step.type, step.label)
            if context.feedback:  # the policy refused it, and a person was asked how to go on
                said = f"{found.reason}; the user said: {' '.join(context.feedback)}"
                found = found.model_copy(update={"reason": said[:MAX_REASON]})
            await self._failed(goal, plan, flight.index, found, context)
            return
        LOG.info("Action '%s' SUCCEEDED. Result: %s", step.type, shown(given, MAX_LOGGED))
        plan.done(flight.index, given)
        note_effect(self._memory, self._parts.tools, plan, step)
        self._parts.recovery.stepped(goal)
        if step.type == DECOMPOSE_GOAL:
            plan.status, goal.status = PlanStatus.PAUSED, GoalStatus.PAUSED_DEPENDENCY
            self._memory.save(goals=(goal,))
        self._memory.save_step(plan, flight.index)

    def _believe(self, step: PlanStep, result: Observation) -> None:
        value = {"action": step.label, "status": result.status.value, "message": result.message[:500]}
        self._parts.beliefs.add(
            "last_action", value, namespace=self._parts.namespace, ttl_s=LAST_ACTION_TTL_S, confidence=1.0
        )

    async def _heard(self, flight: Flight, context: AgentContext, notes: RunNotes) -> None:
        """Take in the answer to a question: a step's own, or one that a recovery put."""
        answer = context.feedback[-1] if context.feedback else ""
        answered = bool(answer.strip()) and answer not in (NOBODY, NO_ANSWER)
        if flight.awaited is Awaited.DOUBT:
            tries = self._memory.tries(flight.goal)
            tries.trouble += f"\nThe user was asked how to go on and said: {answer if answered else 'nothing'}"
            self._memory.save()
            return
        assert flight.plan is not None
        action_id = flight.plan.action_id
        if answered:
            observation = Observation(action_id, Status.SUCCESS, result={"status": "SUCCESS", "answer": answer})
            await self._on_action_completed(True, observation, flight, context, notes)
            return
        notes.note(action_id, {"status": "FAILURE"})
        found = Diagnosis(failure_type=FailureType.NO_ANSWER, reason="nobody answered the question", action=ASK_USER)
        await self._failed(flight.goal, flight.plan, flight.index, found, context)

    async def _judged(self, flight: Flight, context: AgentContext, notes: RunNotes) -> None:
        """Take in what the check of the criteria found."""
        goal, plan = flight.goal, flight.plan
        assert plan is not None
        evidence, unmet = judged(goal, context.observations)
        notes.evidence.update(evidence)
        if not unmet:
            self._closing.achieved(goal, plan)
            return
        reason = "the plan is done, but this does not hold: " + "; ".join(unmet)
        found = Diagnosis(failure_type=FailureType.CRITERIA_UNMET, reason=reason[:4000], action="criteria")
        await self._failed(goal, plan, -1, found, context)

    async def _doubted(self, flight: Flight, context: AgentContext) -> None:
        """The runtime did not take the claim that all is done."""
        reason = "; ".join(context.feedback) or "the completion was not accepted"
        flight.goal.status = GoalStatus.ACTIVE
        found = Diagnosis(failure_type=FailureType.CRITERIA_UNMET, reason=reason[:4000], action="completion")
        plan = self._memory.plan_of(flight.goal)
        await self._failed(flight.goal, plan, -1, found, context)

    async def _failed(
        self, goal: Goal, plan: Intention | None, index: int, found: Diagnosis, context: AgentContext
    ) -> None:
        await self._closing.failed(goal, plan, index, found, can_ask=context.config.interactive)
