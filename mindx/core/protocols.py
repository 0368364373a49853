"""The contracts between the loop and what is plugged into it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, Union, runtime_checkable

from mindx.core.action import ActionRequest, ActionTraits, ActionValidation
from mindx.core.agent_context import AgentContext, ContextView
from mindx.core.agent_event import AgentEvent
from mindx.core.approval import ApprovalRequest, ApprovalResult
from mindx.core.decision import AgentDecision, CompletionClaim, CompletionValidationResult
from mindx.core.message import ChatMessage
from mindx.core.observation import Observation, ObservationBatch


class Reasoner(Protocol):
    """Decides the next step: a fixed plan, a model, an agent with goals.

    It may also have `tools` (the schemas that its model sees, which the ContextManager counts) and `async close()`.
    """

    async def decide(self, context: AgentContext) -> AgentDecision:
        """Return what to do next. Raises ProviderError and other MindxErrors, which end the run."""
        ...


class ActionExecutor(Protocol):
    """Does Actions of one type. It may also have `assess` (see ActionAssessor) and `async close()`."""

    async def execute(self, request: ActionRequest, context: AgentContext) -> Observation:
        """Do one Action and return its one Observation; a failure is an Observation.

        Progress goes through `context.emit(ACTION_PROGRESS, {"action_id": ..., ...})`. Raises SandboxError when the
        sandbox broke. Must let CancelledError through, after it has cleaned up.
        """
        ...


@runtime_checkable
class ActionAssessor(Protocol):
    """What can tell an Action's traits from its name and arguments: every executor should."""

    def assess(self, request: ActionRequest, context: AgentContext) -> ActionTraits:
        """Return risk, need of approval and concurrency key, or the problem; pure and quick."""
        ...


class PolicyEngine(Protocol):
    """Says of every Action whether it may run."""

    def validate(self, request: ActionRequest, context: AgentContext) -> ActionValidation:
        """Return allow, ask or deny, with the computed risk; pure and quick."""
        ...


class CompletionGate(Protocol):
    """Says whether a claim of completion holds."""

    async def check(
        self, claim: CompletionClaim | None, text: str, context: AgentContext
    ) -> CompletionValidationResult:
        """Return accepted, or the problems as sentences for the Reasoner."""
        ...


class ContextManager(Protocol):
    """Keeps what a model gets to see. All its state for a run lies in `context.store`: one manager serves many runs.

    It may also have `shrink(context)`: a model has said that the last view is too much, and the next shall be less.
    """

    async def begin(self, context: AgentContext) -> None:
        """Take in the system prompt, the history, the task and its images."""
        ...

    async def compile(self, context: AgentContext, tools: Sequence[Mapping[str, Any]]) -> ContextView:
        """Return the messages for this step, within the budget."""
        ...

    async def add_decision(self, context: AgentContext, decision: AgentDecision) -> None:
        """Take in a decision (its `message`, if a model spoke)."""
        ...

    async def add_observations(self, context: AgentContext, decision: AgentDecision, batch: ObservationBatch) -> None:
        """Take in the one Observation of each Action, so that every tool call has its answer."""
        ...

    async def add_message(self, context: AgentContext, message: ChatMessage, *, answers: AgentDecision | None) -> None:
        """Take in what the user said or the runtime has to tell.

        `answers` is the decision (a question, a rejected completion, an invalid one) whose calls it answers, if any.
        """
        ...


HumanApprovalHandler = Callable[
    [ApprovalRequest], Union[bool, ApprovalResult, Awaitable[Union[bool, ApprovalResult]]]  # noqa: UP007
]
EventHandler = Callable[[AgentEvent], Union[Awaitable[None], None]]  # noqa: UP007
# Puts an agent's question to a person, and returns the answer, None for none.
Asker = Callable[[str], Awaitable[Union[str, None]]]  # noqa: UP007
