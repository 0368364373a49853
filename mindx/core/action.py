"""Requests for Actions: what a Reasoner wants done outside, one or several at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import Enum
from typing import Any

from mindx.core.agent_error import ErrorCode
from mindx.core.frozen import dataclass
from mindx.errors import InputError


class ActionType(str, Enum):
    """What kind of executor does it."""

    TOOL = "tool"
    MODEL = "model"
    MCP = "mcp"
    SKILL = "skill"
    AGENT = "agent"
    MEMORY = "memory"


class ActionRisk(str, Enum):
    """What an Action may do; computed from its arguments, and DANGEROUS where that is not known."""

    READ_ONLY = "read_only"
    WRITE = "write"
    DANGEROUS = "dangerous"

    @property
    def rank(self) -> int:
        """0 for the least, 2 for the worst."""
        return _RANKS[self]


_RANKS = {ActionRisk.READ_ONLY: 0, ActionRisk.WRITE: 1, ActionRisk.DANGEROUS: 2}


class ExecutionMode(str, Enum):
    """How a batch may be done."""

    AUTO = "auto"  # the scheduler decides
    PARALLEL = "parallel"  # as AUTO: no wish makes what writes run beside something else
    SEQUENTIAL = "sequential"  # one after the other


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """One Action that is asked for.

    `action_id` is unique in its run and stays the same in every event and Observation. `name` is the tool's (or
    agent's, ...) name. `call_id` is the model's own id for the call, "" when no model asked. `risk` is what the one
    who asks believes, None when it says nothing: it can raise the computed risk, never lower it. `concurrency_key`
    names the resource that is used: two Actions with one key never run at once. `timeout_s` None means the run's own.
    `problem` says why the arguments that a model wrote could not be read (then they are {}), or is "".
    """

    action_id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    action_type: ActionType = ActionType.TOOL
    risk: ActionRisk | None = None
    concurrency_key: str | None = None
    require_approval: bool = False
    call_id: str = ""
    timeout_s: float | None = None
    reason: str = ""
    problem: str = ""

    @property
    def digest(self) -> str:
        """The digest of type, name and exact arguments: what an approval is for."""
        text = json.dumps([self.action_type.value, self.name, self.arguments], sort_keys=True, default=_plain)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "action_id": self.action_id,
            "name": self.name,
            "arguments": self.arguments,
            "action_type": self.action_type.value,
            "risk": None if self.risk is None else self.risk.value,
            "concurrency_key": self.concurrency_key,
            "call_id": self.call_id,
        }


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, (tuple, set)) else str(value)


@dataclass(frozen=True, slots=True)
class ActionBatch:
    """At least one Action, each with an id of its own. Raises InputError (batch_invalid) otherwise."""

    batch_id: str
    actions: tuple[ActionRequest, ...]
    mode: ExecutionMode = ExecutionMode.AUTO

    def __post_init__(self) -> None:
        if not self.actions:
            raise InputError("batch_invalid", "a batch has at least one action")
        if len({action.action_id for action in self.actions}) != len(self.actions):
            raise InputError("batch_invalid", "two actions of one batch have the same action_id")

    def __iter__(self) -> Iterator[ActionRequest]:
        return iter(self.actions)

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True, slots=True)
class ActionTraits:
    """What an executor knows of an Action from its name and arguments, before anything is done.

    `problem` says why it cannot be done at all (no such tool, arguments that do not fit its schema), or is ""; `code`
    is the ErrorCode that its Observation then carries. `denial` says why the operator's policy refuses it, whoever says
    yes, or is ""; `rule` names the policy's rule behind a denial or a need of approval.
    """

    risk: ActionRisk = ActionRisk.DANGEROUS
    require_approval: bool = False
    concurrency_key: str | None = None
    problem: str = ""
    code: ErrorCode = ErrorCode.ACTION_EXECUTION_FAILED
    denial: str = ""
    rule: str = ""


class ValidationDecision(str, Enum):
    """What the policy says of one Action."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"
    INVALID = "invalid"  # no policy's matter: it cannot be done at all


@dataclass(frozen=True, slots=True)
class ActionValidation:
    """The policy's word on one Action. `rule` names what decided; `approval_key` is what a yes would be for."""

    action_id: str
    decision: ValidationDecision
    risk: ActionRisk = ActionRisk.DANGEROUS
    rule: str = ""
    reason: str = ""
    concurrency_key: str | None = None
    approval_key: str = ""
    code: ErrorCode = ErrorCode.ACTION_REJECTED

    @property
    def allowed(self) -> bool:
        """True only for allow."""
        return self.decision is ValidationDecision.ALLOW
