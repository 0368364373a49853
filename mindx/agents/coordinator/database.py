"""The coordinator's database: one SQLite file that several processes may have open, and one of them owns."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mindx.errors import StateError

FILE = "coordinator.sqlite3"
BUSY_TIMEOUT_S = 5.0
VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS interactions (
  interaction_id TEXT PRIMARY KEY, key TEXT UNIQUE, type TEXT NOT NULL, status TEXT NOT NULL,
  created_at TEXT NOT NULL, document TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS interactions_by_status ON interactions (status);
CREATE TABLE IF NOT EXISTS agents (agent_id TEXT PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS backlog (
  item_id TEXT PRIMARY KEY, target TEXT NOT NULL, status TEXT NOT NULL, priority INTEGER NOT NULL,
  added_at TEXT NOT NULL, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS performance (model TEXT NOT NULL, task TEXT NOT NULL, document TEXT NOT NULL,
  PRIMARY KEY (model, task));
"""


class Database:
    """One connection, opened when it is made. Raises StateError (coordinator_unusable) when the file cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._lock = threading.RLock()
        with self._told():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, check_same_thread=False, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        # What was begun must be known after a loss of power too, or it would be done twice.
        self._db.execute("PRAGMA synchronous = FULL")
        found = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise sqlite3.DatabaseError(str(found)[:200])
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"it was written by another version of mindx ({version})")
        self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        with self._told(), self._lock:
            return self._db.execute(query, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give the connection inside one transaction, which no other process can write into."""
        with self._told(), self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def close(self) -> None:
        """Close the file; may be called twice."""
        with self._lock:
            self._db.close()

    def damaged(self, what: str, error: Exception) -> StateError:
        """Return the error for a row that is not what was written."""
        return self._unusable(f"{what} in it is damaged ({str(error)[:200]})")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(str(error)) from error

    def _unusable(self, problem: str) -> StateError:
        message = f"the coordinator's database {self.path} cannot be used: {problem}; put it aside to begin a new one"
        return StateError("coordinator_unusable", message, details={"path": str(self.path)})
