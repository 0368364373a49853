"""The record of what a run's model could be told: it only grows, and each run has its own.

What was left out of the model's view stays left out. When all texts come to more than MAX_CHARS, those of such records
are let go; the records stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mindx.core.message import ChatMessage, TextPart
from mindx.runtime.context.models import ContextBundle, ContextRecord, ContextScope, RecordKind

MAX_CHARS = 8 * 1024 * 1024
LET_GO = (TextPart("[left out of this conversation, and let go]"),)


@dataclass(slots=True)
class PackState:
    """What packing remembers from step to step: the epoch, what is left out, and how estimates compare to counts.

    `ceiling` is what a model has said is too much for it, in tokens, less one; None while none has.
    """

    epoch: int = 0
    dropped: frozenset[str] = frozenset()
    compacted: bool = False
    scale: float = 1.0
    estimated: int = 0
    ceiling: int | None = None


class ContextStore:
    """Append-only: records are added and never taken away. `state` belongs to the packing."""

    def __init__(self) -> None:
        self.state = PackState()
        self._records: list[ContextRecord] = []
        self._bundles: dict[str, ContextBundle] = {}
        self._chars = 0
        self._let_go: set[str] = set()

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
        self._chars += message.chars
        known = self._bundles.get(group)
        self._bundles[group] = ContextBundle(group, (*(known.records if known else ()), record))
        return record

    def let_go(self) -> None:
        """Let go of the texts of what is left out, if all texts are more than the memory of a run is meant for."""
        if self._chars <= MAX_CHARS:
            return
        for group in self.state.dropped - self._let_go:
            records = tuple(self._emptied(record) for record in self._bundles[group].records)
            self._bundles[group] = ContextBundle(group, records)
        self._let_go |= self.state.dropped

    def _emptied(self, record: ContextRecord) -> ContextRecord:
        calls = tuple(replace(call, arguments={}, arguments_text="") for call in record.message.tool_calls)
        emptied = replace(record, message=replace(record.message, parts=LET_GO, tool_calls=calls))
        self._chars -= record.message.chars - emptied.message.chars
        self._records[record.record_id] = emptied
        return emptied

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
        bundles = self._bundles.values()
        prefix = [bundle for bundle in bundles if bundle.records[0].stable_prefix]
        return (*prefix, *(bundle for bundle in bundles if not bundle.records[0].stable_prefix))
