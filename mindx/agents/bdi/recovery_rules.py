"""The rules of recovery: what to do about a failure, chosen by rule and by what helped before; each way is bounded."""

from __future__ import annotations

from collections import Counter
from enum import Enum

from mindx.agents.bdi.failure import Diagnosis, FailureType
from mindx.agents.beliefs import BeliefSource, BeliefSystem

LEARNING_RATE, FIRST_RATE = 0.3, 0.5
FIRST_DELAY_S, MAX_DELAY_S = 0.5, 30.0


class RecoveryStrategy(str, Enum):
    """What may be done about a failure."""

    RETRY_WITH_DELAY = "RETRY_WITH_DELAY"
    ALTERNATIVE_TOOL = "ALTERNATIVE_TOOL"  # a new plan that does it in another way
    SIMPLIFIED_APPROACH = "SIMPLIFIED_APPROACH"  # a new plan that does less at once
    REPLAN = "REPLAN"  # a new plan from how things stand now
    ASK_USER = "ASK_USER"
    ESCALATE_TO_AGINT = "ESCALATE_TO_AGINT"  # whoever gave the goal is told, by a belief
    ABORT_GRACEFULLY = "ABORT_GRACEFULLY"

    @property
    def plans(self) -> bool:
        """True for those that make a new plan."""
        return self in (_S.ALTERNATIVE_TOOL, _S.SIMPLIFIED_APPROACH, _S.REPLAN, _S.ASK_USER)


_S, _F = RecoveryStrategy, FailureType
_PLANS = (_S.REPLAN, _S.SIMPLIFIED_APPROACH)
RULES: dict[FailureType, tuple[RecoveryStrategy, ...]] = {
    _F.TOOL_UNAVAILABLE: (_S.ALTERNATIVE_TOOL, *_PLANS, _S.ASK_USER),
    _F.TOOL_EXECUTION_ERROR: (*_PLANS, _S.ALTERNATIVE_TOOL),
    _F.INVALID_PARAMETERS: _PLANS,
    _F.RATE_LIMIT_ERROR: (_S.RETRY_WITH_DELAY, _S.REPLAN),
    _F.PERMISSION_ERROR: (_S.ALTERNATIVE_TOOL, _S.ASK_USER, _S.SIMPLIFIED_APPROACH),
    _F.NETWORK_ERROR: (_S.RETRY_WITH_DELAY, _S.ALTERNATIVE_TOOL, _S.REPLAN),
    _F.TIMEOUT_ERROR: (_S.RETRY_WITH_DELAY, _S.SIMPLIFIED_APPROACH, _S.REPLAN),
    _F.RESOURCE_ERROR: (_S.SIMPLIFIED_APPROACH, _S.REPLAN),
    _F.CRITERIA_UNMET: _PLANS,
    _F.SUBGOAL_FAILED: (_S.REPLAN,),
    _F.OUTCOME_UNKNOWN: (_S.REPLAN, _S.ASK_USER),
    _F.NO_ANSWER: (_S.REPLAN,),
    _F.GAVE_UP: (),
    _F.PLANNING_ERROR: (),
    _F.UNKNOWN_ERROR: (_S.REPLAN,),
}
# How often in one goal; REPLAN and all that make a plan share the goal's budget of replans besides.
BOUNDS = {
    _S.RETRY_WITH_DELAY: 2,
    _S.ALTERNATIVE_TOOL: 1,
    _S.SIMPLIFIED_APPROACH: 1,
    _S.ASK_USER: 1,
    _S.ESCALATE_TO_AGINT: 1,
}


class RecoveryRules:
    """Chooses strategies and learns from what came of them; the rates are beliefs, so they outlive the agent."""

    def __init__(self, beliefs: BeliefSystem, namespace: str, *, replans: int, escalates: bool) -> None:
        self._beliefs = beliefs
        self._namespace = namespace
        self._replans = replans
        self._escalates = escalates

    def choose(self, diagnosis: Diagnosis, used: Counter[str], *, can_ask: bool) -> RecoveryStrategy:
        """Return the way with the best record among those that the rules name and that are not used up.

        `used` counts the strategies of this goal by name; `can_ask` says whether somebody is there to answer.
        """
        plans = sum(used[item.value] for item in RecoveryStrategy if item.plans)
        open_ = [
            strategy
            for strategy in RULES[diagnosis.failure_type]
            if used[strategy.value] < BOUNDS.get(strategy, self._replans)
            and (not strategy.plans or plans < self._replans)
            and (strategy is not _S.ASK_USER or can_ask)
        ]
        if open_:
            return max(open_, key=lambda strategy: self.rate(diagnosis.failure_type, strategy))  # the first of equals
        return _S.ESCALATE_TO_AGINT if self._escalates else _S.ABORT_GRACEFULLY

    def rate(self, kind: FailureType, strategy: RecoveryStrategy) -> float:
        """Return how well a strategy did with such failures, from 0 to 1."""
        value = self._beliefs.value(_key(kind, strategy), FIRST_RATE, namespace=self._namespace)
        return value if isinstance(value, float) and 0.0 <= value <= 1.0 else FIRST_RATE

    def learn(self, kind: FailureType, strategy: RecoveryStrategy, helped: bool) -> None:
        """Take in whether a strategy helped."""
        rate = self.rate(kind, strategy) * (1 - LEARNING_RATE) + LEARNING_RATE * helped
        self._beliefs.add(_key(kind, strategy), round(rate, 6), source=BeliefSource.LEARNED, namespace=self._namespace)


def delay_s(retries: int) -> float:
    """Return how long to wait before retry number `retries` (from 0)."""
    return min(MAX_DELAY_S, FIRST_DELAY_S * 2.0**retries)


def _key(kind: FailureType, strategy: RecoveryStrategy) -> str:
    return f"recovery.{kind.value}.{strategy.value}"
