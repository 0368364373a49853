"""The BDI agent: beliefs, desires, intentions."""

from mindx.agents.bdi.agent import BDIAgent
from mindx.agents.bdi.budget import Budget, BudgetReachedError
from mindx.agents.bdi.criteria import CommandCriterion, Criterion, FileCriterion, StatementCriterion
from mindx.agents.bdi.failure import Diagnosis, FailureType
from mindx.agents.bdi.goals import Goal, GoalStatus
from mindx.agents.bdi.recovery_rules import RecoveryStrategy
from mindx.agents.bdi.result import BDIResult, GoalFailedError
from mindx.agents.bdi.status import BDIPhase, BDIStatus

__all__ = [
    "BDIAgent",
    "BDIPhase",
    "BDIResult",
    "BDIStatus",
    "Budget",
    "BudgetReachedError",
    "CommandCriterion",
    "Criterion",
    "Diagnosis",
    "FailureType",
    "FileCriterion",
    "Goal",
    "GoalFailedError",
    "GoalStatus",
    "RecoveryStrategy",
    "StatementCriterion",
]
