"""Dealing with a failure: the way is chosen, counted and prepared; a failure that repeats itself ends the goal."""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mindx.agents.bdi.failure import Diagnosis, FailureType
from mindx.agents.bdi.goals import Goal
from mindx.agents.bdi.intention import Intention, PlanStatus, StepStatus
from mindx.agents.bdi.memory import MAX_FAILURES, AgentMemory
from mindx.agents.bdi.prompts import shown
from mindx.agents.bdi.recovery_rules import RecoveryRules, RecoveryStrategy, delay_s
from mindx.agents.bdi.trail import Trail
from mindx.agents.beliefs import BeliefSource, BeliefSystem
from mindx.core.quote import quoted

LOG = logging.getLogger("bdi_agent")
MAX_REPEATS = 3  # of one failure of one action


@dataclass(frozen=True, slots=True)
class Way:
    """What was decided about a failure. `question` is for the user, "" for none."""

    strategy: RecoveryStrategy
    reason: str = ""
    question: str = ""

    @property
    def gives_up(self) -> bool:
        """True when the goal ends with it."""
        return self.strategy in (RecoveryStrategy.ESCALATE_TO_AGINT, RecoveryStrategy.ABORT_GRACEFULLY)


class Recovery:
    """Does what RecoveryRules choose to the goals and plans of one agent; `sleep` waits before a retry."""

    def __init__(
        self,
        rules: RecoveryRules,
        memory: AgentMemory,
        beliefs: BeliefSystem,
        namespace: str,
        sleep: Callable[[float], Awaitable[None]],
        trail: Trail,
    ) -> None:
        self._rules = rules
        self._memory = memory
        self._beliefs = beliefs
        self._namespace = namespace
        self._sleep = sleep
        self._trail = trail

    async def recover(self, goal: Goal, plan: Intention | None, index: int, found: Diagnosis, *, can_ask: bool) -> Way:
        """Choose what to do about a failure and prepare it: plan and step stand as the way needs them."""
        head, tries = self._memory.head, self._memory.tries(goal)
        head.failures = [*head.failures, found][-MAX_FAILURES:]
        repeats = self._repeats(goal, found)
        strategy = self._rules.choose(found, Counter(tries.used), can_ask=can_ask)
        self._learn(goal, helped=False)  # of what was tried last; it says nothing of this time
        reason = f"{found.failure_type.value}: {found.reason}"
        if repeats >= MAX_REPEATS:
            strategy = RecoveryStrategy.ABORT_GRACEFULLY
            reason = f"the same failure came {repeats} times, which is a loop: {reason}"
        LOG.warning("Failure %s; recovery: %s", found.failure_type.value, strategy.value)
        self._trail.note(
            "failure", goal_id=goal.goal_id, **found.model_dump(mode="json"), recovery=strategy.value, times=repeats
        )
        tries.used[strategy.value] = tries.used.get(strategy.value, 0) + 1
        tries.trying = (found.failure_type.value, strategy.value)
        if strategy is RecoveryStrategy.RETRY_WITH_DELAY and plan is not None and index >= 0:
            await self._retry(plan, index, tries.used[strategy.value] - 1)
            return Way(strategy, reason)
        if plan is not None:
            plan.status = PlanStatus.FAILED
            if index >= 0:
                plan.steps[index].status = StepStatus.FAILED
                plan.steps[index].attempts += 1
            if found.failure_type is not FailureType.OUTCOME_UNKNOWN:
                tries.failed_plans.append(plan.sha256)
            self._memory.save(plan=plan)
        tries.trouble = f"{found.failure_type.value} in {found.action or 'the plan'}: {found.reason}"
        tries.hint = strategy.value if strategy.plans else ""
        if strategy is RecoveryStrategy.ESCALATE_TO_AGINT:
            self._escalate(goal, found)
        self._memory.save(goals=(goal,))
        question = ""
        if strategy is RecoveryStrategy.ASK_USER:
            question = f"{quoted(goal.text, 200)} cannot go on: {shown(reason, 500)}. How shall I go on?"
        return Way(strategy, reason, question)

    def stepped(self, goal: Goal) -> None:
        """Take in that a step succeeded: a retry has helped."""
        trying = self._memory.tries(goal).trying
        if trying is not None and trying[1] == RecoveryStrategy.RETRY_WITH_DELAY.value:
            self._learn(goal, helped=True)

    def achieved(self, goal: Goal) -> None:
        """Take in that a goal was achieved: what was tried last has helped."""
        self._learn(goal, helped=True)

    async def _retry(self, plan: Intention, index: int, retries: int) -> None:
        step = plan.steps[index]
        step.status = StepStatus.PENDING
        step.attempts += 1
        self._memory.save_step(plan, index)
        await self._sleep(delay_s(retries))

    def _learn(self, goal: Goal, *, helped: bool) -> None:
        tries = self._memory.tries(goal)
        if tries.trying is not None:
            kind, strategy = tries.trying
            self._rules.learn(FailureType(kind), RecoveryStrategy(strategy), helped)
            tries.trying = None

    def _repeats(self, goal: Goal, found: Diagnosis) -> int:
        """Count how often this very failure of this very action came, whatever numbers its text holds."""
        same = re.sub(r"\d+", "0", f"{found.failure_type.value}\n{found.action}\n{found.reason}")
        signature = hashlib.sha256(same.encode("utf-8", "backslashreplace")).hexdigest()[:16]
        tries = self._memory.tries(goal)
        tries.repeated[signature] = tries.repeated.get(signature, 0) + 1
        return tries.repeated[signature]

    def _escalate(self, goal: Goal, found: Diagnosis) -> None:
        value = {"goal_id": goal.goal_id, "goal": goal.text[:1000], **found.model_dump(mode="json")}
        self._beliefs.add("escalation", value, source=BeliefSource.SELF_ANALYSIS, namespace=self._namespace)
