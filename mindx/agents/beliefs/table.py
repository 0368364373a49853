"""The table that holds beliefs, and what becomes of SQLite's errors."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from mindx.agents.beliefs.belief import Belief, BeliefSource
from mindx.errors import StateError

VERSION = 1
BUSY_S = 10.0
_TABLE = """
CREATE TABLE IF NOT EXISTS beliefs (
    namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, confidence REAL NOT NULL, source TEXT NOT NULL,
    created REAL NOT NULL, updated REAL NOT NULL, ttl_s REAL, expires REAL, metadata TEXT NOT NULL,
    PRIMARY KEY (namespace, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS beliefs_expire ON beliefs (expires) WHERE expires IS NOT NULL;
"""
_COLUMNS = "namespace, key, value, confidence, source, created, updated, ttl_s, metadata"
_LIVE = "(expires IS NULL OR expires > ?)"
F = TypeVar("F", bound=Callable[..., Any])


def _told(method: F) -> F:
    """Turn what SQLite and a damaged row raise into a StateError that says what to do."""

    @wraps(method)
    def wrapped(self: BeliefTable, *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise _failure(self.path, error) from error

    return wrapped  # type: ignore[return-value]


class BeliefTable:
    """Rows in and out; the caller holds a lock around each use. Raises StateError."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        try:
            if path is not None:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            self._db = sqlite3.connect(
                ":memory:" if path is None else path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise _failure(path, error) from error
        try:
            self._open()
        except BaseException:
            self._db.close()
            raise

    @_told
    def _open(self) -> None:
        if self.path is not None:
            self._db.execute("PRAGMA journal_mode = WAL")
            # A crash of this process loses nothing; one of the machine, the last moments at most.
            self._db.execute("PRAGMA synchronous = NORMAL")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise ValueError(f"its version is {version}, and this mindx knows {VERSION}")
        self._db.executescript(_TABLE)
        if version == 0:
            self._db.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make what is done inside one transaction, which other processes see whole or not at all."""
        self._run("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._run("ROLLBACK")
            raise
        self._run("COMMIT")

    @_told
    def get(self, namespace: str, key: str, now: float) -> Belief | None:
        """Return a belief, or None."""
        sql = f"SELECT {_COLUMNS} FROM beliefs WHERE namespace = ? AND key = ? AND {_LIVE}"
        row = self._db.execute(sql, (namespace, key, now)).fetchone()
        return None if row is None else _belief(row)

    @_told
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
        self._db.execute(sql, (*row, expires))
        return _belief(row)

    @_told
    def delete(self, namespace: str, key: str) -> None:
        """Drop a belief, if it is there."""
        self._db.execute("DELETE FROM beliefs WHERE namespace = ? AND key = ?", (namespace, key))

    @_told
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
        sql = f"SELECT {_COLUMNS} FROM beliefs WHERE {' AND '.join(where)} ORDER BY namespace, key LIMIT ?"
        return tuple(_belief(row) for row in self._db.execute(sql, (*values, most)))

    @_told
    def namespaces(self, now: float) -> dict[str, int]:
        """Return each namespace with its number of beliefs."""
        sql = f"SELECT namespace, COUNT(*) FROM beliefs WHERE {_LIVE} GROUP BY namespace ORDER BY namespace"
        return dict(self._db.execute(sql, (now,)).fetchall())

    @_told
    def expired(self, now: float) -> tuple[Belief, ...]:
        """Return what has outlived its time."""
        sql = f"SELECT {_COLUMNS} FROM beliefs WHERE expires <= ? ORDER BY expires, namespace, key"
        return tuple(_belief(row) for row in self._db.execute(sql, (now,)))

    @_told
    def drop_expired(self, now: float) -> None:
        """Drop what has outlived its time."""
        self._db.execute("DELETE FROM beliefs WHERE expires <= ?", (now,))

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        self._db.close()

    @_told
    def _run(self, sql: str) -> None:
        self._db.execute(sql)


def _belief(row: tuple[Any, ...]) -> Belief:
    namespace, key, value, confidence, source, created, updated, ttl_s, metadata = row
    return Belief(
        key,
        json.loads(value),
        confidence,
        BeliefSource(source),
        namespace,
        created,
        updated,
        ttl_s,
        json.loads(metadata),
    )


def _failure(path: Path | None, error: Exception) -> StateError:
    where = "the beliefs in memory" if path is None else str(path)
    if isinstance(error, (sqlite3.OperationalError, sqlite3.ProgrammingError, OSError)):
        reason = getattr(error, "strerror", None) or str(error)
        return StateError("beliefs_unusable", f"{where} cannot be used: {reason}", details={"path": str(path)})
    message = f"{where} is damaged: {error}; move it away, and the next start begins a new one"
    return StateError("beliefs_corrupt", message, details={"path": str(path)})


def _escaped(text: str) -> str:
    """Return a text whose `%` and `_` stand for themselves in a LIKE."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
