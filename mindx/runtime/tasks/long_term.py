"""Long-term memory: texts that outlive tasks, by namespace, found by their words (SQLite FTS5)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from mindx.errors import InputError, StateError
from mindx.trace.recorder import utc_now

MAX_TEXT = 20_000  # characters
MAX_NAMESPACE = 200
MAX_WORDS = 32  # of a query
BUSY_TIMEOUT_S = 10.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS memories (
  id INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, text TEXT NOT NULL,
  source TEXT NOT NULL, created_at TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS memories_by_namespace ON memories (namespace, id);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text, content='memories', content_rowid='id');
CREATE TRIGGER IF NOT EXISTS remembered AFTER INSERT ON memories BEGIN
  INSERT INTO words (rowid, text) VALUES (new.id, new.text); END;
CREATE TRIGGER IF NOT EXISTS forgotten AFTER DELETE ON memories BEGIN
  INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text); END;
"""
_BY_WORDS = """SELECT m.id, m.text, m.source, m.created_at FROM words JOIN memories m ON m.id = words.rowid
  WHERE words MATCH ? AND m.namespace = ? ORDER BY bm25(words), m.id DESC LIMIT ?"""
_BY_PIECE = """SELECT id, text, source, created_at FROM memories
  WHERE namespace = ? AND text LIKE ? ESCAPE '!' ORDER BY id DESC LIMIT ?"""


class LongTermMemory:
    """One database file. Every call opens it anew, so that threads and processes may share it.

    Raises InputError (memory_invalid) and StateError (memory_unusable: it cannot be opened, or is damaged).
    """

    def __init__(self, path: Path | str, now: Callable[[], str] = utc_now) -> None:
        self.path = Path(path)
        self._now = now

    def remember(self, namespace: str, text: str, source: str = "") -> int:
        """Keep a text and return its id."""
        _check(namespace, text)
        row = (namespace, text, source[:MAX_NAMESPACE], self._now())
        with self._opened() as db, db:
            done = db.execute("INSERT INTO memories (namespace, text, source, created_at) VALUES (?, ?, ?, ?)", row)
            return int(done.lastrowid or 0)

    def search(self, namespace: str, query: str, limit: int = 10) -> list[dict[str, Any]]:
        """Return the texts of a namespace that hold words of the query, best first.

        Where no word is found the query is looked for as a piece of text: languages without spaces need it.
        """
        words = re.findall(r"\w+", query)[:MAX_WORDS]
        match = " OR ".join(f'"{word}"' for word in words)  # quoted: no operator of the query language is understood
        piece = re.sub(r"([!%_])", r"!\1", query.strip())
        with self._opened() as db:
            rows = db.execute(_BY_WORDS, (match, namespace, limit)).fetchall() if words else []
            if not rows and piece:
                rows = db.execute(_BY_PIECE, (namespace, f"%{piece}%", limit)).fetchall()
        names = ("memory_id", "text", "source", "created_at")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def forget(self, namespace: str, memory_id: int) -> bool:
        """Remove one text; return False when the namespace has none of that id."""
        with self._opened() as db, db:
            done = db.execute("DELETE FROM memories WHERE namespace = ? AND id = ?", (namespace, memory_id))
            return done.rowcount > 0

    def count(self, namespace: str) -> int:
        """Return how many texts a namespace has."""
        with self._opened() as db:
            return int(db.execute("SELECT count(*) FROM memories WHERE namespace = ?", (namespace,)).fetchone()[0])

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S)) as db:
                db.execute("PRAGMA journal_mode = WAL")
                db.executescript(_SCHEMA)
                yield db
        except (sqlite3.Error, OSError) as error:
            message = f"the memory {self.path} cannot be used: {error}; put it aside to begin a new one"
            raise StateError("memory_unusable", message, details={"path": str(self.path)}) from error


def _check(namespace: str, text: str) -> None:
    if not namespace or len(namespace) > MAX_NAMESPACE:
        raise InputError("memory_invalid", f"a namespace has 1 to {MAX_NAMESPACE} characters")
    if not text.strip() or len(text) > MAX_TEXT:
        raise InputError("memory_invalid", f"a memory has 1 to {MAX_TEXT:,} characters, and not only blanks")
    try:
        (namespace + text).encode("utf-8")
    except UnicodeEncodeError:
        raise InputError("memory_invalid", "a memory holds half of a surrogate pair, which is no character") from None
