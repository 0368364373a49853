"""A task's memory on the disk: memory.md, which only `replace` writes, and events.jsonl, to which events are added."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mindx.core.agent_event import AgentEvent, AgentEventType
from mindx.errors import InputError, StateError
from mindx.runtime.append_file import AppendFile
from mindx.runtime.tasks.atomic import read_file, replace_file
from mindx.trace.redact import Redactor

MAX_MEMORY_BYTES = 256 * 1024
MAX_EVENTS_BYTES = 16 * 1024 * 1024  # then events.jsonl becomes events.1.jsonl, and that one goes
MAX_TAIL_BYTES = 2 * 1024 * 1024  # of the events that are read back
MAX_EVENT_CHARS = 32 * 1024
_NOISE = frozenset({AgentEventType.TEXT_DELTA, AgentEventType.HEARTBEAT})


class LocalTaskMemoryStore:
    """The memory of one task, in its `folder`.

    memory.md is what an agent knows of the task, in its own words: somebody (a child agent, say) writes a shorter one,
    the parent looks it over and calls `replace`, which puts it in place at once or not at all. Nothing of it reaches a
    model unless it asks (`memory_read`). `secrets` are texts that no event may hold. Raises StateError.
    """

    def __init__(self, folder: Path | str, secrets: tuple[str, ...] = ()) -> None:
        self.folder = Path(folder)
        self._events = AppendFile(self.folder / "events.jsonl")
        self._redactor = Redactor(secrets)

    def read(self) -> str:
        """Return the text of memory.md, "" when there is none yet."""
        data = read_file(self.folder / "memory.md", MAX_MEMORY_BYTES)
        return "" if data is None else data.decode("utf-8", "replace")

    @property
    def sha256(self) -> str:
        """The digest of memory.md as it is."""
        return hashlib.sha256(read_file(self.folder / "memory.md", MAX_MEMORY_BYTES) or b"").hexdigest()

    def replace(self, text: str, *, expected_sha256: str | None = None) -> str:
        """Put a new text in the place of memory.md and return its digest: the one way to write it.

        With `expected_sha256` only if it still is what was read. Raises InputError (memory_invalid, memory_changed).
        """
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError:
            raise InputError(
                "memory_invalid", "the memory holds half of a surrogate pair, which is no character"
            ) from None
        if len(data) > MAX_MEMORY_BYTES:
            message = f"the memory has {len(data):,} bytes; shorten it to {MAX_MEMORY_BYTES:,} at most"
            raise InputError("memory_invalid", message)
        if expected_sha256 is not None and expected_sha256 != self.sha256:
            raise InputError("memory_changed", "the memory was changed since it was read; read it again")
        replace_file(self.folder / "memory.md", data)
        return hashlib.sha256(data).hexdigest()

    def append_event(self, event: AgentEvent | Mapping[str, Any]) -> None:
        """Add one event: redacted, and bounded. Pieces of text and heartbeats are left out."""
        if isinstance(event, AgentEvent):
            if event.event_type in _NOISE:
                return
            names = ("run_id", "seq", "time", "step", "cause_id", "session_id")
            record = {"event_type": event.event_type.value, **{name: getattr(event, name) for name in names}}
            record["payload"] = self._redactor.clean(event.payload)
            if len(json.dumps(record)) > MAX_EVENT_CHARS:
                record["payload"] = {"note": "too large to keep; the trace has it"}
        else:
            record = self._redactor.clean(event)
        self._make_room()
        self._events.append([record])

    def recent_events(self, limit: int = 20) -> list[dict[str, Any]]:
        """Return the latest events, oldest first; a line that is no record is left out."""
        found: list[dict[str, Any]] = []
        for name in ("events.jsonl", "events.1.jsonl"):
            for line in reversed(_tail(self.folder / name)):
                if len(found) >= limit:
                    return found[::-1]
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(value, dict):
                    found.append(value)
        return found[::-1]

    async def sync(self) -> None:
        """Wait until the events are on the disk."""
        await self._events.sync()

    def close(self) -> None:
        """Let go of the events file; may be called twice."""
        self._events.close()

    def _make_room(self) -> None:
        """Put the events file aside when it has grown large."""
        path = self._events.path
        try:
            if path.exists() and path.stat().st_size >= MAX_EVENTS_BYTES:
                self._events.close()
                path.replace(path.with_name("events.1.jsonl"))
        except OSError as error:
            raise StateError("state_unwritable", f"{path} cannot be put aside: {error.strerror}") from error


def _tail(path: Path) -> list[bytes]:
    """Return the last lines of a file, as many as MAX_TAIL_BYTES hold."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_TAIL_BYTES))
            lines = file.read(MAX_TAIL_BYTES).split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError("state_unreadable", f"{path} cannot be read: {error.strerror}") from error
    return lines[1:] if size > MAX_TAIL_BYTES else lines
