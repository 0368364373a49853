"""A SQLite file of an agent: made private, durable, and with errors that say what to do."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mindx.errors import StateError

BUSY_S = 10.0


class Database:
    """One file (None: memory) with the tables of `schema`; the caller holds a lock around each use.

    `what` names it in messages, and in the codes of StateError: `{what}_unusable`, `{what}_corrupt`, and
    `{what}_closed` for what is used after `close`. A damaged file is left as it is.
    """

    def __init__(self, path: Path | None, what: str, schema: str, version: int = 1) -> None:
        self.path = path
        self.what = what
        self._closed = False
        try:
            if path is not None:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            place = ":memory:" if path is None else path
            self._db = sqlite3.connect(place, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self.failure(error) from error
        self._closing = weakref.finalize(self, self._db.close)  # whoever has it forgets to, and so does who was cut off
        try:
            self._open(schema, version)
        except (ValueError, sqlite3.Error) as error:
            self._closing()
            raise self.failure(error) from error

    def _open(self, schema: str, version: int) -> None:
        if self.path is not None:
            self._db.execute("PRAGMA journal_mode = WAL")
            # A crash of this process loses nothing; one of the machine, the last moments at most.
            self._db.execute("PRAGMA synchronous = NORMAL")
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, version):
            raise ValueError(f"its version is {found}, and this mindx knows {version}")
        self._db.executescript(schema)
        if found != version:
            self._db.execute(f"PRAGMA user_version = {version}")

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement."""
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self.failure(error) from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make what is done inside one transaction, which other processes see whole or not at all."""
        self.rows("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.rows("ROLLBACK")
            raise
        self.rows("COMMIT")

    def failure(self, error: Exception) -> StateError:
        """Return what a failure of the file, or of what is written in it, is told as."""
        where = f"the {self.what} in memory" if self.path is None else str(self.path)
        details = {"path": None if self.path is None else str(self.path)}
        if self._closed:
            message = f"{where} cannot be used: it was closed here before; open it anew"
            return StateError(f"{self.what}_closed", message, details=details)
        if isinstance(error, (sqlite3.OperationalError, sqlite3.ProgrammingError, OSError)):
            reason = getattr(error, "strerror", None) or str(error)
            return StateError(f"{self.what}_unusable", f"{where} cannot be used: {reason}", details=details)
        message = f"{where} is damaged: {error}; move it away, and the next start begins a new one"
        return StateError(f"{self.what}_corrupt", message, details=details)

    def require_open(self) -> None:
        """Raise StateError (`{what}_closed`) after `close`."""
        if self._closed:
            raise self.failure(ValueError("closed"))

    def close(self) -> None:
        """Let go of the file; may be called twice. What nobody holds any more is closed by itself."""
        self._closing()
        self._closed = True
