"""What a mind is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mindx.agents.bdi.budget import Budget
from mindx.agents.bdi.goals import Desires
from mindx.agents.bdi.memory import AgentMemory
from mindx.agents.bdi.plan_dialogue import PlanDialogue
from mindx.agents.bdi.recovery import Recovery
from mindx.agents.bdi.reporting import Reporting
from mindx.agents.bdi.status import BDIStateMachine
from mindx.agents.bdi.trail import Trail
from mindx.agents.beliefs import BeliefSystem
from mindx.tools.base import BaseTool
from mindx.tools.registry import ToolRegistry


@dataclass(slots=True)
class MindParts:
    """`acts` are the action types but EXECUTE_TOOL; `before_model` may refuse that a model is asked, by raising."""

    memory: AgentMemory
    desires: Desires
    machine: BDIStateMachine
    dialogue: PlanDialogue
    recovery: Recovery
    reporting: Reporting
    tools: ToolRegistry
    acts: Mapping[str, BaseTool]
    beliefs: BeliefSystem
    namespace: str
    budget: Budget
    clock: Callable[[], float]
    trail: Trail
    before_model: Callable[[], None]
