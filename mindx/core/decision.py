"""Decisions: what a Reasoner answers. Act, ask the user, verify, or claim that the work is complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

from mindx.core.action import ActionBatch, ActionRequest, ExecutionMode
from mindx.core.frozen import dataclass
from mindx.core.message import ChatMessage
from mindx.errors import InputError


class DecisionKind(str, Enum):
    """What a Reasoner wants next; ActionType says what kind of Action it is."""

    ACTIONS = "actions"
    ASK_USER = "ask_user"
    VERIFY = "verify"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class UserInputOption:
    """One answer that the user may choose."""

    value: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class UserInputRequest:
    """A question for the user: information that is missing, never a permission (approval is for that)."""

    question: str
    options: tuple[UserInputOption, ...] = ()
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        options = [{"value": option.value, "label": option.label} for option in self.options]
        return {"question": self.question, "options": options, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class AcceptanceCriterion:
    """What must be true at the end; one that is `required` needs evidence."""

    criterion_id: str
    description: str = ""
    required: bool = True


@dataclass(frozen=True, slots=True)
class CompletionClaim:
    """The claim that the work is done: `cited` maps a criterion_id to the ids of the evidence for it."""

    summary: str = ""
    cited: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompletionValidationResult:
    """What the completion gate says; `problems` are sentences for the Reasoner."""

    accepted: bool
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentDecision:
    """One decision. Make it with `act`, `ask`, `verify` or `complete`.

    `text` is the final answer of a completion, or what the model said beside its calls. `message` is the assistant's
    message as the provider gave it, None when no model spoke. `usage` counts tokens, as the provider reported them.
    """

    kind: DecisionKind
    batch: ActionBatch | None = None
    question: UserInputRequest | None = None
    claim: CompletionClaim | None = None
    text: str = ""
    message: ChatMessage | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fits = {
            DecisionKind.ACTIONS: self.batch is not None and self.question is None and self.claim is None,
            DecisionKind.ASK_USER: self.question is not None and self.batch is None and self.claim is None,
            DecisionKind.VERIFY: self.question is None and (self.batch is not None or self.claim is not None),
            DecisionKind.COMPLETE: self.batch is None and self.question is None,
        }
        if not fits[self.kind]:
            raise InputError("decision_invalid", f"a decision of the kind {self.kind.value} has not the parts it needs")

    @classmethod
    def act(
        cls,
        *actions: ActionRequest,
        batch_id: str = "",
        mode: ExecutionMode = ExecutionMode.AUTO,
        text: str = "",
        message: ChatMessage | None = None,
        usage: Mapping[str, Any] | None = None,
    ) -> AgentDecision:
        """Do these Actions; `batch_id` "" takes the first Action's id. Raises InputError (batch_invalid)."""
        name = batch_id or (f"batch_{actions[0].action_id}" if actions else "")
        return cls(
            DecisionKind.ACTIONS, ActionBatch(name, actions, mode), text=text, message=message, usage=usage or {}
        )

    @classmethod
    def ask(
        cls,
        question: str,
        options: Sequence[UserInputOption] = (),
        *,
        message: ChatMessage | None = None,
        usage: Mapping[str, Any] | None = None,
    ) -> AgentDecision:
        """Ask the user for information."""
        request = UserInputRequest(question, tuple(options))
        return cls(DecisionKind.ASK_USER, question=request, message=message, usage=usage or {})

    @classmethod
    def verify(
        cls, *actions: ActionRequest, claim: CompletionClaim | None = None, message: ChatMessage | None = None
    ) -> AgentDecision:
        """Do Actions whose Observations verify something, or have a claim looked at without ending the run."""
        batch = ActionBatch(f"batch_{actions[0].action_id}", actions) if actions else None
        return cls(DecisionKind.VERIFY, batch, claim=claim, message=message)

    @classmethod
    def complete(
        cls,
        text: str = "",
        claim: CompletionClaim | None = None,
        *,
        message: ChatMessage | None = None,
        usage: Mapping[str, Any] | None = None,
    ) -> AgentDecision:
        """Claim that the work is done, with the final answer."""
        return cls(DecisionKind.COMPLETE, claim=claim, text=text, message=message, usage=usage or {})
