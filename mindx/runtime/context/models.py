"""The words of a context: records, the bundles that are never split, the budget, and what packing decided."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from mindx.core.agent_context import ContextPressure
from mindx.core.message import ChatMessage, Role
from mindx.errors import ContextOverflowError, InputError

NO_RESULT = "The outcome of this call is not known."

__all__ = [
    "NO_RESULT",
    "ContextBundle",
    "ContextConfig",
    "ContextOverflowError",
    "ContextPackResult",
    "ContextPressure",
    "ContextRecord",
    "ContextScope",
    "RecordKind",
]


class RecordKind(str, Enum):
    """What a record is."""

    SYSTEM = "system"
    HISTORY = "history"  # of the session's earlier runs
    TASK = "task"
    DECISION = "decision"
    OBSERVATION = "observation"
    IMAGE = "image"
    MESSAGE = "message"  # the user's, or the runtime's feedback


class ContextScope(str, Enum):
    """How long a record matters."""

    GLOBAL = "global"
    SESSION = "session"
    TURN = "turn"
    ITERATION = "iteration"


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """What a model is told besides the work itself, and how much of it. Sizes are in tokens.

    The budget is `max_tokens` less what is kept for the answer (`reserve_tokens`) and a margin for what an estimate
    misses. From `warning_ratio` of the budget the pressure is WARNING, from `compact_ratio` CRITICAL: then the oldest
    bundles are left out until `target_ratio` is reached. `max_observation_chars` bounds one result, `image_tokens` is
    what an image is taken to cost. Raises InputError (context_config_invalid).
    """

    system_prompt: str = ""
    max_tokens: int = 120_000
    reserve_tokens: int = 4096
    margin_tokens: int = 256
    warning_ratio: float = 0.70
    compact_ratio: float = 0.85
    target_ratio: float = 0.60
    image_tokens: int = 1024
    chars_per_token: float = 4.0
    max_observation_chars: int = 64_000
    max_images: int = 16
    use_tiktoken: bool = False
    tiktoken_encoding: str = "o200k_base"

    def __post_init__(self) -> None:
        if not 0 < self.target_ratio < self.warning_ratio < self.compact_ratio <= 1:
            _refuse("0 < target_ratio < warning_ratio < compact_ratio <= 1")
        if min(self.reserve_tokens, self.margin_tokens, self.max_images) < 0 or self.budget_tokens < 1:
            _refuse("max_tokens is more than reserve_tokens and margin_tokens, and none is below 0")
        if self.image_tokens < 1 or self.chars_per_token <= 0 or self.max_observation_chars < 200:
            _refuse("image_tokens and chars_per_token are above 0, max_observation_chars is 200 or more")

    @property
    def budget_tokens(self) -> int:
        """What the messages and the tool schemas may cost together."""
        return self.max_tokens - self.reserve_tokens - self.margin_tokens


def _refuse(rule: str) -> None:
    raise InputError("context_config_invalid", f"the context's limits do not fit: {rule}")


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """One message, as it was added. `record_id` counts from 0; records of one `group_id` are one bundle.

    `tokens` is the estimate when it was added. A bundle of lower `priority`, then lower `salience`, is left out first.
    `stable_prefix` records stand first, never change in a run and are never left out; nor are `pinned` ones.
    """

    record_id: int
    kind: RecordKind
    message: ChatMessage
    tokens: int
    group_id: str
    scope: ContextScope = ContextScope.TURN
    priority: int = 0
    salience: float = 0.0
    stable_prefix: bool = False
    pinned: bool = False


@dataclass(frozen=True)
class ContextBundle:
    """Records that stay together: a message by itself, or a model's calls with every result.

    Most bundles of a run are looked at in every step and never change again: what is computed is kept.
    """

    group_id: str
    records: tuple[ContextRecord, ...]

    @cached_property
    def tokens(self) -> int:
        """The estimate for all of it."""
        return sum(record.tokens for record in self.records)

    @cached_property
    def pinned(self) -> bool:
        """True when it is never left out."""
        return any(record.pinned or record.stable_prefix for record in self.records)

    @cached_property
    def messages(self) -> tuple[ChatMessage, ...]:
        """What a provider is sent of it."""
        return _as_sent(self.records)

    @cached_property
    def rank(self) -> tuple[int, float, int]:
        """The order in which bundles are left out: the least first."""
        first = self.records[0]
        return max(r.priority for r in self.records), max(r.salience for r in self.records), first.record_id


def _as_sent(records: tuple[ContextRecord, ...]) -> tuple[ChatMessage, ...]:
    """Return a bundle's messages as a provider takes them: each call followed by its one answer, images last.

    A call that was never answered gets an answer that says so; an answer without a call is left out.
    """
    head: list[ChatMessage] = []
    answers: dict[str, ChatMessage] = {}
    rest: list[ChatMessage] = []
    called = {call.call_id: call.name for record in records for call in record.message.tool_calls}
    for record in records:
        message = record.message
        if message.role is Role.TOOL:
            if message.tool_call_id in called:
                answers.setdefault(message.tool_call_id, message)
        elif answers or (head and head[-1].tool_calls):
            rest.append(message)
        else:
            head.append(message)
    paired = [answers.get(call_id) or ChatMessage.tool(call_id, NO_RESULT, name) for call_id, name in called.items()]
    return (*head, *paired, *rest)


@dataclass(frozen=True, slots=True)
class ContextPackResult:
    """What packing chose. `tokens` counts all that is sent, `tool_tokens` and `note_tokens` are parts of it.

    `decision` is kept, compacted or forced; `dropped` are the group ids that are left out, from this epoch on.
    """

    bundles: tuple[ContextBundle, ...]
    dropped: frozenset[str]
    decision: str
    pressure: ContextPressure
    epoch: int
    tokens: int
    tool_tokens: int
    prefix_tokens: int
    note_tokens: int
    budget_tokens: int

    def to_dict(self) -> dict[str, Any]:
        """Return the plain values that a CONTEXT_PACKED event carries."""
        return {
            "decision": self.decision,
            "pressure": self.pressure.value,
            "epoch": self.epoch,
            "budget_tokens": self.budget_tokens,
            "tokens": self.tokens,
            "tool_tokens": self.tool_tokens,
            "prefix_tokens": self.prefix_tokens,
            "ratio": round(self.tokens / self.budget_tokens, 4),
            "bundles": len(self.bundles),
            "dropped_bundles": len(self.dropped),
        }
