"""The record of what a run's model could be told: it only grows, and each run has its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mindx.core.message import ChatMessage, Role
from mindx.runtime.context.models import ContextBundle, ContextRecord, ContextScope, RecordKind

NO_RESULT = "The outcome of this call is not known."


@dataclass(slots=True)
class PackState:
    """What packing remembers from step to step: the epoch, what is left out, and how estimates compare to counts."""

    epoch: int = 0
    dropped: frozenset[str] = frozenset()
    compacted: bool = False
    scale: float = 1.0
    estimated: int = 0


class ContextStore:
    """Append-only: records are added and never changed or taken away. `state` belongs to the packing."""

    def __init__(self) -> None:
        self.state = PackState()
        self._records: list[ContextRecord] = []
        self._groups: dict[str, list[ContextRecord]] = {}

    def append(
        self,
        kind: RecordKind,
        message: ChatMessage,
        tokens: int,
        *,
        group_id: str = "",
        scope: ContextScope = ContextScope.TURN,
        priority: int = 0,
        salience: float = 0.0,
        stable_prefix: bool = False,
        pinned: bool = False,
    ) -> ContextRecord:
        """Add a record and return it; `group_id` "" makes it a bundle by itself."""
        number = len(self._records)
        group = group_id or f"record:{number}"
        record = ContextRecord(number, kind, message, tokens, group, scope, priority, salience, stable_prefix, pinned)
        self._records.append(record)
        self._groups.setdefault(group, []).append(record)
        return record

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ContextRecord]:
        return iter(tuple(self._records))

    @property
    def records(self) -> tuple[ContextRecord, ...]:
        """All records, in the order they came."""
        return tuple(self._records)

    @property
    def bundles(self) -> tuple[ContextBundle, ...]:
        """All bundles: the stable prefix first, the rest in the order in which they began."""
        groups = [ContextBundle(name, tuple(records)) for name, records in self._groups.items()]
        prefix = [bundle for bundle in groups if bundle.records[0].stable_prefix]
        return (*prefix, *(bundle for bundle in groups if not bundle.records[0].stable_prefix))


def messages_of(bundle: ContextBundle) -> list[ChatMessage]:
    """Return a bundle's messages as a provider takes them: each call followed by its one answer, images last.

    A call that was never answered gets an answer that says so; an answer without a call is left out.
    """
    head: list[ChatMessage] = []
    answers: dict[str, ChatMessage] = {}
    rest: list[ChatMessage] = []
    called = {call.call_id: call.name for record in bundle.records for call in record.message.tool_calls}
    for record in bundle.records:
        message = record.message
        if message.role is Role.TOOL:
            if message.tool_call_id in called:
                answers.setdefault(message.tool_call_id, message)
        elif answers or (head and head[-1].tool_calls):
            rest.append(message)
        else:
            head.append(message)
    paired = [answers.get(call_id) or ChatMessage.tool(call_id, NO_RESULT, name) for call_id, name in called.items()]
    return [*head, *paired, *rest]
