"""The record of what a run's model could be told: it only grows, and each run has its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mindx.core.message import ChatMessage
from mindx.runtime.context.models import ContextBundle, ContextRecord, ContextScope, RecordKind


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
        self._bundles: dict[str, ContextBundle] = {}

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
        known = self._bundles.get(group)
        self._bundles[group] = ContextBundle(group, (*(known.records if known else ()), record))
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
        bundles = self._bundles.values()
        prefix = [bundle for bundle in bundles if bundle.records[0].stable_prefix]
        return (*prefix, *(bundle for bundle in bundles if not bundle.records[0].stable_prefix))
