"""The coordinator's database: one SQLite file that several processes may have open, and one of them owns."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mindx.agents.database import Database
from mindx.errors import StateError

FILE = "coordinator.sqlite3"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS interactions (
  interaction_id TEXT PRIMARY KEY, key TEXT UNIQUE, type TEXT NOT NULL, status TEXT NOT NULL,
  created_at TEXT NOT NULL, document TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS interactions_by_status ON interactions (status);
CREATE TABLE IF NOT EXISTS agents (agent_id TEXT PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS backlog (
  item_id TEXT PRIMARY KEY, target TEXT NOT NULL, status TEXT NOT NULL, priority INTEGER NOT NULL,
  added_at TEXT NOT NULL, failed_at REAL, interaction_id TEXT NOT NULL, document TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS backlog_by_target ON backlog (target);
CREATE INDEX IF NOT EXISTS backlog_by_interaction ON backlog (interaction_id) WHERE interaction_id != '';
CREATE TABLE IF NOT EXISTS performance (
  model TEXT NOT NULL, task TEXT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (model, task));
"""


class CoordinatorDatabase(Database):
    """The file in `folder`, opened when it is made; any thread may use it.

    Raises StateError (coordinator_unusable, coordinator_corrupt).
    """

    def __init__(self, folder: Path) -> None:
        self._lock = threading.RLock()
        self._writing = False
        super().__init__(folder / FILE, "coordinator", _SCHEMA)
        try:
            # What was begun must be known after a loss of power too, or it would be done twice.
            self.rows("PRAGMA synchronous = FULL")
            found = self.rows("PRAGMA quick_check(1)")[0][0]
            if found != "ok":
                raise self.damaged("the file", ValueError(str(found)))
        except BaseException:
            self.close()
            raise

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement."""
        with self._lock:
            return super().rows(sql, values)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make what is done inside one transaction; inside of one it is part of that."""
        with self._lock:
            if self._writing:
                yield
                return
            self._writing = True
            try:
                with super().writing():
                    yield
            finally:
                self._writing = False

    def damaged(self, what: str, error: Exception) -> StateError:
        """Return the error for a row that is not what was written."""
        return self.failure(ValueError(f"{what} in it is not what was written ({str(error)[:200]})"))
