"""What is kept of an agent's session: its conversation, the journal of its runs, and the approvals that were given."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from mindx.core.agent_context import AgentContext
from mindx.core.agent_result import AgentResult
from mindx.core.message import ChatMessage
from mindx.errors import MindxError
from mindx.runtime.approval import ApprovalMemory
from mindx.runtime.checkpoints import Continuation
from mindx.runtime.conversation import ConversationStore, LocalConversationStore
from mindx.runtime.journal import Logs, SessionJournal

_LOG = logging.getLogger("mindx.runtime.agent_session")


class SessionRecord:
    """The record of one session, in `folder`; None: only the conversation is kept, by the caller's own `store`.

    `pending` is what the last run left to be continued, or None; `interrupted` says that its process ended in the
    middle of it. Raises InputError (session_in_use), StateError.
    """

    def __init__(self, session_id: str, folder: Path | None, store: ConversationStore | None) -> None:
        self.approvals = ApprovalMemory()
        self.pending: Continuation | None = None
        self.interrupted = False
        self._session_id = session_id
        self._store = store
        self._journal: SessionJournal | None = None
        self._logs: Logs | None = None
        if folder is not None:
            self._journal = SessionJournal(folder)
            self.approvals = ApprovalMemory(folder / "approvals.jsonl")
            self._store = store or LocalConversationStore(folder)
            self.pending, self.interrupted = self._journal.last, self._journal.interrupted

    def messages(self) -> list[ChatMessage]:
        """Return what was said before."""
        return [] if self._store is None else self._store.load(self._session_id)

    def begin(self, context: AgentContext) -> Logs:
        """Begin a run's journal, with what it adds to the conversation. Raises StateError."""
        journal = None if self._journal is None else self._journal.run(context)
        self._logs = Logs(journal, self._session_id, self._store)
        self.add(context.messages)
        return self._logs

    def add(self, messages: Sequence[ChatMessage]) -> None:
        """Add to the conversation."""
        if self._store is not None:
            self._store.append(self._session_id, messages)

    def clear(self) -> None:
        """Forget the conversation."""
        if self._store is not None:
            self._store.clear(self._session_id)

    async def ended(self, result: AgentResult, continuation: Continuation | None) -> None:
        """Write how the run ended. Where that fails it is logged: a restart finds the run interrupted."""
        try:
            if self._logs is not None and self._logs.journal is not None:
                await self._logs.journal.ended(result, continuation)
        except MindxError:
            _LOG.exception("the end of the run %s could not be written", result.run_id)

    def close(self) -> None:
        """Let go of the journal."""
        if self._journal is not None:
            self._journal.close()
