"""The action types of a plan that are no tool's: thoughts, beliefs, goals, failures, questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mindx.agents.beliefs import BeliefSource, BeliefSystem
from mindx.core.action import ActionRisk
from mindx.core.observation import Status
from mindx.core.plan import EXECUTE_TOOL, FAIL, NO_OP, THINK
from mindx.errors import InputError
from mindx.tools.base import BaseTool, ToolDefinition, ToolResult
from mindx.tools.context import ToolContext

UPDATE_BELIEF, DECOMPOSE_GOAL, ANALYZE_FAILURE, ASK_USER = (
    "UPDATE_BELIEF",
    "DECOMPOSE_GOAL",
    "ANALYZE_FAILURE",
    "ASK_USER",
)
OWN_TYPES = (THINK, EXECUTE_TOOL, UPDATE_BELIEF, DECOMPOSE_GOAL, ANALYZE_FAILURE, NO_OP, FAIL, ASK_USER)
OWN_KEYS = ("recovery.", "last_action", "escalation")  # what the agent itself keeps among its beliefs
MAX_BELIEFS = 2000  # of one agent: a plan may not fill the disk
MAX_SUBGOALS = 8
_TEXT = {"type": "string", "minLength": 1, "maxLength": 20_000}

Split = Callable[[Sequence[str]], Awaitable[list[str]]]


def _definition(
    name: str, description: str, properties: Mapping[str, Any], required: Sequence[str] = ()
) -> ToolDefinition:
    schema = {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}
    return ToolDefinition(name, description, schema, ActionRisk.READ_ONLY)


class _Act(BaseTool):
    """An action type; what it changes is the agent's own, so to the policy it only reads."""


class Think(_Act):
    """A thought, kept with the plan."""

    definition = _definition(THINK, "Write down a thought.", {"thought": _TEXT}, ["thought"])

    def result_fields(self, arguments: Mapping[str, Any]) -> frozenset[str]:
        """Return the thought's name."""
        return frozenset({"thought"})

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the thought."""
        return {"thought": arguments["thought"]}


class NoOp(_Act):
    """Nothing."""

    definition = _definition(NO_OP, "Do nothing.", {})

    def result_fields(self, arguments: Mapping[str, Any]) -> frozenset[str]:
        """Return no name: it gives nothing."""
        return frozenset()

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return a success."""
        return {"status": "SUCCESS"}


class Fail(_Act):
    """The plan says that the goal cannot be reached."""

    definition = _definition(FAIL, "Give the goal up, because it cannot be reached.", {"message": _TEXT})

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return a failure."""
        return ToolResult({}, Status.FAILURE, str(arguments.get("message") or "the plan says FAIL"))


class UpdateBelief(_Act):
    """A belief that the agent takes in, under its own namespace."""

    definition = _definition(
        UPDATE_BELIEF,
        'Believe something from now on: later plans see it, and {"$ref": "beliefs.KEY"} stands for it.',
        {
            "key": {"type": "string", "minLength": 1, "maxLength": 256},
            "value": {},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "ttl_s": {"type": "number", "exclusiveMinimum": 0},
        },
        ["key", "value"],
    )

    def __init__(self, beliefs: BeliefSystem, namespace: str) -> None:
        self._beliefs = beliefs
        self._namespace = namespace

    def result_fields(self, arguments: Mapping[str, Any]) -> frozenset[str]:
        """Return the names of what is believed."""
        return frozenset({"key", "value"})

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Take it in. Raises InputError (belief_invalid, belief_reserved, beliefs_full)."""
        if arguments["key"].startswith(OWN_KEYS):
            raise InputError("belief_reserved", f"the agent itself keeps {', '.join(OWN_KEYS)}; choose another key")
        known = self._beliefs.get(arguments["key"], namespace=self._namespace)
        if known is None and self._beliefs.count(self._namespace) >= MAX_BELIEFS:
            raise InputError("beliefs_full", f"{MAX_BELIEFS:,} beliefs are enough; give some a `ttl_s`, or reuse a key")
        belief = self._beliefs.add(
            arguments["key"],
            arguments["value"],
            confidence=arguments.get("confidence", 0.8),
            source=BeliefSource.INFERENCE,
            namespace=self._namespace,
            ttl_s=arguments.get("ttl_s"),
        )
        return {"key": belief.key, "value": belief.value}


class DecomposeGoal(_Act):
    """The goal is split; its parts are pursued first, then the plan goes on."""

    definition = _definition(
        DECOMPOSE_GOAL,
        "Split the goal into parts that are pursued one after the other before this plan goes on; without `subgoals` "
        "they are thought of when it is this step's turn.",
        {"subgoals": {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": MAX_SUBGOALS}},
    )

    def __init__(self, split: Split) -> None:
        self._split = split

    def result_fields(self, arguments: Mapping[str, Any]) -> frozenset[str]:
        """Return the name of the parts."""
        return frozenset({"subgoals"})

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the parts. Raises InputError (goal_circular, goals_full, ...), ProviderError."""
        return {"subgoals": await self._split(arguments.get("subgoals") or ())}


class AnalyzeFailure(_Act):
    """What went wrong last, as it was diagnosed."""

    definition = _definition(ANALYZE_FAILURE, "Look at what went wrong last: its type, reason and action.", {})

    def __init__(self, failures: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        self._failures = failures

    def result_fields(self, arguments: Mapping[str, Any]) -> frozenset[str]:
        """Return the names of a diagnosis."""
        return frozenset({"failures", "failure_type", "reason"})

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the failures, the latest last."""
        found = [dict(failure) for failure in self._failures()]
        last = found[-1] if found else {"failure_type": "", "reason": "nothing has failed"}
        return {"failures": found, "failure_type": last["failure_type"], "reason": last["reason"]}


class AskUser(_Act):
    """A question; the loop asks it, so this is never executed."""

    definition = _definition(
        ASK_USER,
        "Ask the user for information; the result's `answer` is what they say.",
        {"question": _TEXT},
        ["question"],
    )

    def result_fields(self, arguments: Mapping[str, Any]) -> frozenset[str]:
        """Return the name of the answer."""
        return frozenset({"answer"})

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Say that nobody was asked."""
        return ToolResult({}, Status.FAILURE, "nobody was asked")
