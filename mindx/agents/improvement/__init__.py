"""The self-improvement agent: a command that builds a candidate in a container, and what the host does with it.

Names are loaded when they are asked for: the self test of a candidate runs where nothing else of mindx can be imported.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mindx.agents.improvement.agent import SelfImprovementAgent
    from mindx.agents.improvement.apply import ApplyStatus, ImprovementReport, apply_improvement, rollback_improvement
    from mindx.agents.improvement.call import call_improvement
    from mindx.agents.improvement.models import (
        CycleResult,
        Evaluation,
        ImplementationStatus,
        ImprovementData,
        ImprovementRequest,
        ImprovementResult,
        ImprovementStatus,
        OperationType,
    )

_HOMES = {
    "agent": ("SelfImprovementAgent",),
    "apply": ("ApplyStatus", "ImprovementReport", "apply_improvement", "rollback_improvement"),
    "call": ("call_improvement",),
    "models": (
        "CycleResult",
        "Evaluation",
        "ImplementationStatus",
        "ImprovementData",
        "ImprovementRequest",
        "ImprovementResult",
        "ImprovementStatus",
        "OperationType",
    ),
}

__all__ = [
    "ApplyStatus",
    "CycleResult",
    "Evaluation",
    "ImplementationStatus",
    "ImprovementData",
    "ImprovementReport",
    "ImprovementRequest",
    "ImprovementResult",
    "ImprovementStatus",
    "OperationType",
    "SelfImprovementAgent",
    "apply_improvement",
    "call_improvement",
    "rollback_improvement",
]


def __getattr__(name: str) -> object:
    import importlib

    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
