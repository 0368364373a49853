"""Conversations that outlive a process: what the user and the assistant said, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from mindx.core.message import ChatMessage, Role
from mindx.runtime.append_file import AppendFile, read_lines
from mindx.runtime.run_ids import checked_id


class ConversationStore(Protocol):
    """Keeps the messages of sessions."""

    def load(self, session_id: str) -> list[ChatMessage]:
        """Return the messages, oldest first."""
        ...

    def append(self, session_id: str, messages: Sequence[ChatMessage]) -> None:
        """Add messages."""
        ...

    def clear(self, session_id: str) -> None:
        """Forget them all."""
        ...


class LocalConversationStore:
    """One file of JSON lines for each session, in `folder`.

    It keeps texts of the user and the assistant only: no tool calls and results, no checkpoints, no feedback of the
    completion gate. What it gives back is history for a new run; nothing is revived by it. Raises InputError for a
    session id that is no plain name, and StateError.
    """

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)

    def load(self, session_id: str) -> list[ChatMessage]:
        """Return the messages, oldest first; a torn line is left out."""
        messages: list[ChatMessage] = []
        for record in read_lines(self._path(session_id)):
            if record.get("cleared") is True:
                messages.clear()
            role, text = record.get("role"), record.get("text")
            if role in (Role.USER.value, Role.ASSISTANT.value) and isinstance(text, str):
                messages.append(ChatMessage.user(text) if role == Role.USER.value else ChatMessage.assistant(text))
        return messages

    def append(self, session_id: str, messages: Sequence[ChatMessage]) -> None:
        """Add the messages that are the user's and the assistant's words."""
        self._write(session_id, [{"role": item.role.value, "text": item.text} for item in messages if spoken(item)])

    def clear(self, session_id: str) -> None:
        """Forget them all."""
        self._write(session_id, [{"cleared": True}])

    def _write(self, session_id: str, records: list[dict[str, object]]) -> None:
        if not records:
            return
        file = AppendFile(self._path(session_id))
        try:
            file.append(records)
        finally:
            file.close()

    def _path(self, session_id: str) -> Path:
        return self._folder / f"{checked_id(session_id, 'session id')}.jsonl"


def spoken(message: ChatMessage) -> bool:
    """Return whether a message is a person's or the assistant's words, not part of a tool call."""
    return message.role in (Role.USER, Role.ASSISTANT) and not message.tool_calls and bool(message.text)
