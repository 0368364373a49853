"""The table that holds beliefs."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from mindx.agents.beliefs.belief import Belief, BeliefSource
from mindx.agents.database import Database

_TABLE = """
CREATE TABLE IF NOT EXISTS beliefs (
    namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, confidence REAL NOT NULL, source TEXT NOT NULL,
    created REAL NOT NULL, updated REAL NOT NULL, ttl_s REAL, expires REAL, metadata TEXT NOT NULL,
    PRIMARY KEY (namespace, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS beliefs_found ON beliefs (namespace, key, confidence, source, expires);
CREATE INDEX IF NOT EXISTS beliefs_expire ON beliefs (expires) WHERE expires IS NOT NULL;
"""
_COLUMNS = "namespace, key, value, confidence, source, created, updated, ttl_s, metadata"
_LIVE = "(expires IS NULL OR expires > ?)"


class BeliefTable:
    """Rows in and out; the caller holds a lock around each use. Raises StateError."""

    def __init__(self, path: Path | None) -> None:
        self._db = Database(path, "beliefs", _TABLE)

    def writing(self) -> AbstractContextManager[None]:
        """Make what is done inside one transaction."""
        return self._db.writing()

    def get(self, namespace: str, key: str, now: float) -> Belief | None:
        """Return a belief, or None."""
        sql = f"SELECT {_COLUMNS} FROM beliefs WHERE namespace = ? AND key = ? AND {_LIVE}"
        return next(iter(self._beliefs(sql, (namespace, key, now))), None)

    def put(
        self,
        namespace: str,
        key: str,
        value: str,
        confidence: float,
        source: BeliefSource,
        created: float,
        updated: float,
        ttl_s: float | None,
        metadata: str,
    ) -> Belief:
        """Write a belief in the place of any other of this key and return it."""
        row = (namespace, key, value, confidence, source.value, created, updated, ttl_s, metadata)
        expires = None if ttl_s is None else updated + ttl_s
        sql = f"INSERT OR REPLACE INTO beliefs ({_COLUMNS}, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self._db.rows(sql, (*row, expires))
        return _belief(row)

    def delete(self, namespace: str, key: str) -> None:
        """Drop a belief, if it is there."""
        self._db.rows("DELETE FROM beliefs WHERE namespace = ? AND key = ?", (namespace, key))

    def query(
        self,
        text: str,
        namespace: str | None,
        min_confidence: float,
        source: BeliefSource | None,
        limit: int | None,
        now: float,
    ) -> tuple[Belief, ...]:
        """Return the beliefs that fit, by namespace and key."""
        where, values = [_LIVE], [now]
        bounds: list[tuple[str, Any, bool]] = [
            ("namespace = ?", namespace, namespace is not None),
            ("confidence >= ?", min_confidence, min_confidence > 0),
            ("source = ?", source and source.value, source is not None),
            ("key LIKE ? ESCAPE '!'", f"%{_escaped(text)}%", bool(text)),
        ]
        for clause, value, applies in bounds:
            if applies:
                where.append(clause)
                values.append(value)
        most = -1 if limit is None else max(0, limit)
        # An index that has all that is asked about is looked through, not the values beside it.
        found = f"SELECT namespace, key FROM beliefs INDEXED BY beliefs_found WHERE {' AND '.join(where)}"
        found = f"{found} ORDER BY namespace, key LIMIT ?"
        sql = f"SELECT {_COLUMNS} FROM beliefs WHERE (namespace, key) IN ({found}) ORDER BY namespace, key"
        return tuple(self._beliefs(sql, (*values, most)))

    def namespaces(self, now: float) -> dict[str, int]:
        """Return each namespace with its number of beliefs."""
        sql = f"SELECT namespace, COUNT(*) FROM beliefs WHERE {_LIVE} GROUP BY namespace ORDER BY namespace"
        return {str(namespace): int(count) for namespace, count in self._db.rows(sql, (now,))}

    def count(self, namespace: str, now: float) -> int:
        """Return the number of beliefs in a namespace."""
        sql = f"SELECT COUNT(*) FROM beliefs INDEXED BY beliefs_found WHERE namespace = ? AND {_LIVE}"
        return int(self._db.rows(sql, (namespace, now))[0][0])

    def expired(self, now: float) -> tuple[Belief, ...]:
        """Return what has outlived its time."""
        sql = f"SELECT {_COLUMNS} FROM beliefs WHERE expires <= ? ORDER BY expires, namespace, key"
        return tuple(self._beliefs(sql, (now,)))

    def drop_expired(self, now: float) -> None:
        """Drop what has outlived its time."""
        self._db.rows("DELETE FROM beliefs WHERE expires <= ?", (now,))

    def require_open(self) -> None:
        """Raise StateError (beliefs_closed) after `close`."""
        self._db.require_open()

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        self._db.close()

    def _beliefs(self, sql: str, values: tuple[Any, ...]) -> list[Belief]:
        rows = self._db.rows(sql, values)
        try:
            return [_belief(row) for row in rows]
        except (ValueError, TypeError, RecursionError) as error:
            raise self._db.failure(ValueError(f"a belief in it cannot be read ({type(error).__name__})")) from error


def _belief(row: tuple[Any, ...]) -> Belief:
    namespace, key, value, confidence, source, created, updated, ttl_s, metadata = row
    times = float(created), float(updated), None if ttl_s is None else float(ttl_s)
    origin = BeliefSource(source)
    return Belief(key, json.loads(value), float(confidence), origin, namespace, *times, json.loads(metadata))


def _escaped(text: str) -> str:
    """Return a text whose `%` and `_` stand for themselves in a LIKE."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
