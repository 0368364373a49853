"""The store of beliefs: SQLite, one per system; what has outlived its time is no longer believed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mindx.agents.beliefs.belief import (
    MAX_METADATA,
    MAX_VALUE,
    Belief,
    BeliefChange,
    BeliefEvent,
    BeliefSource,
    checked_confidence,
    checked_name,
    checked_ttl,
    encoded,
)
from mindx.agents.beliefs.table import BeliefTable
from mindx.errors import InputError

_LOG = logging.getLogger("mindx.agents.beliefs")
BELIEFS_FILE = "beliefs.sqlite3"  # in the folder of the society's state
Listener = Callable[[BeliefEvent], None]
_KEEP: Any = object()


class BeliefSystem:
    """All that the agents of one system believe, by namespace and key.

    `path` None keeps it in memory; a file is durable, and several processes may use it at once. `now` gives seconds
    since 1970. Methods are quick and may be called from any thread. All raise InputError (belief_invalid) for what
    is no belief, StateError (beliefs_corrupt, beliefs_unusable) when the file cannot be used: it is left as it is;
    beliefs_closed after `close`.
    """

    def __init__(self, path: Path | None = None, *, now: Callable[[], float] = time.time) -> None:
        self.path = path
        self._now = now
        self._table = BeliefTable(path)
        self._lock = threading.RLock()
        self._listeners: list[Listener] = []

    def add(
        self,
        key: str,
        value: Any,
        *,
        confidence: float = 1.0,
        source: BeliefSource = BeliefSource.PERCEPTION,
        namespace: str = "",
        ttl_s: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Belief:
        """Believe this; what was believed under the key is replaced, but keeps the time it was first believed.

        `confidence` outside of 0 to 1 is brought to the nearer end. `ttl_s` None: for ever.
        """
        names = checked_name(namespace, "namespace"), checked_name(key, "key")
        text = encoded(value, MAX_VALUE, "value")
        about = encoded(dict(metadata or {}), MAX_METADATA, "metadata")
        sure, living = checked_confidence(confidence), checked_ttl(ttl_s)
        with self._lock:
            now = self._now()
            expired = self._expire(now)
            with self._table.writing():
                before = self._table.get(*names, now)
                created = now if before is None else before.created
                belief = self._table.put(*names, text, sure, BeliefSource(source), created, now, living, about)
        change = BeliefChange.ADDED if before is None else BeliefChange.UPDATED
        self._tell(*expired, BeliefEvent(change, belief, before))
        return belief

    def update(
        self,
        key: str,
        value: Any = _KEEP,
        *,
        namespace: str = "",
        confidence: float | None = None,
        source: BeliefSource | None = None,
        ttl_s: float | None = _KEEP,
        metadata: Mapping[str, Any] | None = None,
    ) -> Belief:
        """Change what is given and keep the rest. Raises InputError (belief_unknown) when there is no such belief."""
        with self._lock:
            before = self.get(key, namespace=namespace)
            if before is None:
                raise InputError("belief_unknown", f"nothing is believed under {key!a}")
            return self.add(
                key,
                before.value if value is _KEEP else value,
                confidence=before.confidence if confidence is None else confidence,
                source=source or before.source,
                namespace=namespace,
                ttl_s=before.ttl_s if ttl_s is _KEEP else ttl_s,
                metadata=before.metadata if metadata is None else metadata,
            )

    def get(self, key: str, *, namespace: str = "") -> Belief | None:
        """Return the belief, or None."""
        with self._lock:
            return self._table.get(namespace, key, self._now())

    def value(self, key: str, default: Any = None, *, namespace: str = "") -> Any:
        """Return what is believed, or `default`."""
        found = self.get(key, namespace=namespace)
        return default if found is None else found.value

    def remove(self, key: str, *, namespace: str = "") -> bool:
        """Believe it no more; return False when it was not believed."""
        with self._lock, self._table.writing():
            before = self._table.get(namespace, key, self._now())
            self._table.delete(namespace, key)
        if before is not None:
            self._tell(BeliefEvent(BeliefChange.REMOVED, before))
        return before is not None

    def all(self, *, namespace: str | None = None) -> tuple[Belief, ...]:
        """Return everything that is believed, by namespace and key; `namespace` None takes all of them."""
        return self.query(namespace=namespace)

    def query(
        self,
        text: str = "",
        *,
        namespace: str | None = None,
        min_confidence: float = 0.0,
        source: BeliefSource | None = None,
        limit: int | None = None,
    ) -> tuple[Belief, ...]:
        """Return the beliefs whose key holds `text` (whatever the case), by namespace and key.

        `namespace` None, `source` None and `limit` None set no bound.
        """
        wanted = None if source is None else BeliefSource(source)
        with self._lock:
            return self._table.query(text, namespace, min_confidence, wanted, limit, self._now())

    def namespaces(self) -> dict[str, int]:
        """Return each namespace with the number of its beliefs."""
        with self._lock:
            return self._table.namespaces(self._now())

    def count(self, namespace: str) -> int:
        """Return how much is believed in a namespace."""
        with self._lock:
            return self._table.count(namespace, self._now())

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell `listener` of every change made through this object; return what ends that. What it raises is logged."""
        self._table.require_open()
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        with self._lock:
            self._table.close()

    def __enter__(self) -> BeliefSystem:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _expire(self, now: float) -> tuple[BeliefEvent, ...]:
        """Drop what has expired, within the lock."""
        gone = self._table.expired(now)
        if gone:
            with self._table.writing():
                self._table.drop_expired(now)
        return tuple(BeliefEvent(BeliefChange.EXPIRED, belief) for belief in gone)

    def _tell(self, *events: BeliefEvent) -> None:
        for event in events:
            for listener in tuple(self._listeners):
                try:
                    listener(event)
                except Exception:  # noqa: BLE001 - a bad listener hurts nobody else
                    _LOG.exception("a listener failed at the belief %s", event.belief.key)
