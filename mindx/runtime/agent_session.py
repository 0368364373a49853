"""The session: what outlives a run. Commands go in by a queue, events come out by one; one run at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mindx.core.agent_context import AgentContext
from mindx.core.agent_event import AgentEvent, AgentEventType
from mindx.core.agent_result import AgentResult
from mindx.core.agent_session import (
    SessionCommand,
    SessionCommandType,
    SessionEnvironment,
    SessionEvent,
    SessionEventType,
    SessionPolicy,
    SessionState,
)
from mindx.core.agent_state import AgentState
from mindx.core.checkpoint import RunOutcome, TaskConstraint, TaskState
from mindx.core.decision import AcceptanceCriterion
from mindx.core.message import ChatMessage
from mindx.core.run_config import RunConfig
from mindx.errors import InputError, MindxError
from mindx.runtime.agent_run import AgentRun
from mindx.runtime.checkpoints import Continuation
from mindx.runtime.command_inbox import CommandInbox
from mindx.runtime.conversation import ConversationStore
from mindx.runtime.event_queue import SessionEventQueue
from mindx.runtime.lazy_sandbox import LazySandbox, OpenSession
from mindx.runtime.session import Session
from mindx.runtime.session_record import SessionRecord
from mindx.sandbox.base import Sandbox

if TYPE_CHECKING:
    from mindx.runtime.agent_runtime import AgentRuntime

_LOG = logging.getLogger("mindx.runtime.agent_session")


class AgentSession:
    """Made by `AgentRuntime.create_session`. One container, opened when an Action first asks for it.

    `messages` are what the user and the assistant said, `artifacts` what was given and made. `pending` is what can be
    continued, or None. With the runtime's `state_dir` all of that, and the approvals, survive this process.
    """

    def __init__(
        self,
        runtime: AgentRuntime,
        session_id: str,
        *,
        environment: SessionEnvironment,
        policy: SessionPolicy,
        open_session: OpenSession,
        conversation_store: ConversationStore | None,
        config: RunConfig,
        event_queue_size: int,
    ) -> None:
        self.session_id = session_id
        self.environment = environment
        self.policy = policy
        self.state = SessionState.CREATED
        self.artifacts: dict[str, Any] = {}
        self._runtime = runtime
        self._config = config
        self._box = LazySandbox(lambda: open_session(environment, policy))
        folder = None if runtime.state_dir is None else runtime.state_dir / "sessions" / session_id
        self._record = SessionRecord(session_id, folder, conversation_store)
        self.pending: Continuation | None = self._record.pending
        self.messages: list[ChatMessage] = self._record.messages()
        self._inbox = CommandInbox()
        self._events = SessionEventQueue(session_id, event_queue_size)
        self._actor: asyncio.Task[None] | None = None
        self._run: AgentRun | None = None
        self._run_task: asyncio.Task[AgentResult] | None = None

    @property
    def box(self) -> Session | None:
        """The session of the container, when one is open."""
        return self._box.session

    @property
    def run_id(self) -> str:
        """The run that goes on, or ""."""
        return "" if self._run is None else self._run.context.run_id

    async def sandbox(self) -> Sandbox:
        """Return the session's sandbox behind the operator's policy, opening it if need be. Raises SandboxError."""
        return await self._box.open()

    async def submit_run(
        self,
        task: str,
        *,
        run_id: str | None = None,
        config: RunConfig | None = None,
        artifacts: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        criteria: Sequence[AcceptanceCriterion] = (),
        constraints: Sequence[TaskConstraint] = (),
        task_state: TaskState | None = None,
        opening: Sequence[str] = (),
        in_conversation: bool = True,
    ) -> str:
        """Start a run and return its id. Raises InputError (session_busy, session_closed, run_exists).

        `task_state` replaces the one made of task, criteria and constraints; `opening` is told to the Reasoner before
        its first step and stays out of the conversation, as does `task` when not `in_conversation`.
        """
        state = task_state or TaskState(task, tuple(constraints), tuple(criteria))
        payload = {
            "task": task,
            "run_id": run_id,
            "config": config,
            "artifacts": artifacts or {},
            "metadata": metadata or {},
            "task_state": state,
            "opening": tuple(opening),
            "in_conversation": in_conversation,
        }
        answer: str = await self._send(SessionCommandType.START_RUN, payload)
        return answer

    async def continue_run(self, checkpoint_id: str | None = None, *, config: RunConfig | None = None) -> str:
        """Go on from a checkpoint (None: the pending one) in a new run, and return its new id.

        It inherits task state, evidence, messages and artifacts. Raises InputError (checkpoint_unknown, session_busy).
        """
        payload = {"checkpoint_id": checkpoint_id, "config": config}
        answer: str = await self._send(SessionCommandType.CONTINUE_RUN, payload)
        return answer

    async def append_user_message(self, text: str) -> None:
        """Add a user's message to the conversation, without a run. Raises InputError (session_busy)."""
        await self._send(SessionCommandType.APPEND_USER_MESSAGE, {"text": text})

    async def submit_user_input(self, text: str) -> None:
        """Answer the run's question. Raises InputError (run_not_waiting)."""
        await self._send(SessionCommandType.SUBMIT_USER_INPUT, {"text": text})

    async def cancel_run(self) -> bool:
        """Interrupt the run; return False when there is none."""
        answer: bool = await self._send(SessionCommandType.CANCEL_RUN, {})
        return answer

    async def next_event(self) -> SessionEvent:
        """Wait for the next event. Raises InputError (session_closed) when the last one was read."""
        if self.state is SessionState.CLOSED and not len(self._events):
            raise InputError("session_closed", f"the session {self.session_id} is closed")
        self._wake()
        return await self._events.get()

    async def events(self) -> AsyncIterator[SessionEvent]:
        """Yield the events up to and with SESSION_CLOSED."""
        while True:
            event = await self.next_event()
            yield event
            if event.event_type is SessionEventType.SESSION_CLOSED:
                return

    def clear(self) -> None:
        """Forget the conversation. Raises InputError (session_busy)."""
        self._not_busy()
        self.messages.clear()
        self._record.clear()

    async def close(self) -> None:
        """Cancel the run, wait for it, and end the container; may be called twice, and while it is called."""
        if self.state is SessionState.CLOSED:
            return
        await self._send(SessionCommandType.CLOSE_SESSION, {})

    async def _send(self, command_type: SessionCommandType, payload: Mapping[str, Any]) -> Any:
        if self.state is SessionState.CLOSED:
            raise InputError("session_closed", f"the session {self.session_id} is closed")
        answer = self._inbox.put(command_type, payload)
        self._wake()
        return await answer

    def _wake(self) -> None:
        if self._actor is None and self.state is not SessionState.CLOSED:
            self._actor = asyncio.create_task(self._act(), name=self.session_id)

    async def _act(self) -> None:
        self.state = SessionState.READY
        self._events.put(SessionEventType.SESSION_READY)
        if self.pending is not None:
            if self._record.interrupted:
                payload = {"reason": "the process of the run ended in the middle of it"}
                self._events.put(SessionEventType.RUN_INTERRUPTED, payload, self.pending.checkpoint.source_run_id)
            self._offer()
        while self.state is not SessionState.CLOSED:
            letter = await self._inbox.get()
            name = letter.command.command_type.value
            try:
                value = await self._obey(letter.command)
            except MindxError as error:
                self._events.put(SessionEventType.COMMAND_REJECTED, {"command": name, "error": error.to_dict()})
                letter.settle(error)
            except Exception as error:  # noqa: BLE001 - whoever sent the command gets it
                _LOG.exception("the session %s failed at %s", self.session_id, name)
                self.state = SessionState.FAILED
                letter.settle(error)
            else:
                letter.settle(None, value)
        for letter in self._inbox.rest():
            closing = letter.command.command_type in (SessionCommandType.CLOSE_SESSION, SessionCommandType.RUN_FINISHED)
            late = None if closing else InputError("session_closed", f"the session {self.session_id} is closed")
            letter.settle(late)

    async def _obey(self, command: SessionCommand) -> Any:
        kind, payload = command.command_type, command.payload
        if kind is SessionCommandType.START_RUN:
            return self._start(**payload)
        if kind is SessionCommandType.CONTINUE_RUN:
            return self._continue(**payload)
        if kind is SessionCommandType.APPEND_USER_MESSAGE:
            return self._append(str(payload["text"]))
        if kind is SessionCommandType.SUBMIT_USER_INPUT:
            return self._answer(str(payload["text"]))
        if kind is SessionCommandType.CANCEL_RUN:
            return self._run is not None and self._run.cancel()
        if kind is SessionCommandType.RUN_FINISHED:
            return await self._finished(payload["run"])
        return await self._close()

    def _start(
        self,
        task: str,
        run_id: str | None,
        config: RunConfig | None,
        artifacts: Mapping[str, Any],
        metadata: Mapping[str, Any],
        task_state: TaskState,
        opening: tuple[str, ...],
        continuation: Continuation | None = None,
        in_conversation: bool = True,
    ) -> str:
        self._not_busy()
        name = run_id or self._runtime.new_id("run")
        self.artifacts.update(artifacts)
        context = self._context(name, task, task_state, config, metadata, opening)
        if continuation is not None:
            continuation.fill(context)
        elif in_conversation:
            context.messages.append(ChatMessage.user(task))
        logs = self._record.begin(context)
        run = self._runtime.make_run(context, (self._hear,), logs, self._record.approvals)
        self.pending = None
        self._run = run
        self._run_task = self._runtime.start(run)
        self._run_task.add_done_callback(lambda task: self._tell_finished(run))
        self.state = SessionState.RUNNING
        self._events.put(SessionEventType.RUN_ACCEPTED, {"run_id": name}, name)
        return name

    def _context(
        self,
        run_id: str,
        task: str,
        task_state: TaskState,
        config: RunConfig | None,
        metadata: Mapping[str, Any],
        opening: tuple[str, ...],
    ) -> AgentContext:
        return AgentContext(
            run_id=run_id,
            task=task,
            task_state=task_state,
            session_id=self.session_id,
            config=config or self._config,
            policy=self.policy,
            environment=self.environment,
            history=tuple(self.messages),
            opening=opening,
            artifacts=self.artifacts,
            metadata=dict(metadata),
            open_sandbox=self._box.open,
            operator_engine=self._box.engine,
        )

    def _continue(self, checkpoint_id: str | None, config: RunConfig | None) -> str:
        self._not_busy()
        found = self.pending
        if found is None or checkpoint_id not in (None, found.checkpoint.checkpoint_id):
            raise InputError("checkpoint_unknown", f"there is no checkpoint {checkpoint_id or ''} to go on from")
        self.artifacts = {**found.artifacts, **self.artifacts}
        fresh = self._box.opened == 0 and bool(found.checkpoint.completed_action_ids or found.unknown)
        note = " The workspace is a new copy: what earlier runs changed in it is not there." if fresh else ""
        task = found.task_state.objective
        return self._start(task, None, config, {}, {}, found.task_state, found.opening(note), found)

    def _append(self, text: str) -> None:
        self._not_busy()
        message = ChatMessage.user(text)
        self._record.add([message])
        self.messages.append(message)
        self._events.put(SessionEventType.USER_MESSAGE_APPENDED, {"text": text})

    def _answer(self, text: str) -> None:
        if self._run is None or not self._run.loop.respond(text):
            raise InputError("run_not_waiting", "no run of this session waits for an answer")
        self.state = SessionState.RUNNING

    def _hear(self, event: AgentEvent) -> None:
        if event.event_type is AgentEventType.STATE_CHANGED and self.state in (
            SessionState.RUNNING,
            SessionState.WAITING,
        ):
            waits = event.payload.get("to") == AgentState.WAITING_FOR_USER.value
            self.state = SessionState.WAITING if waits else SessionState.RUNNING
        self._events.put(SessionEventType.AGENT_EVENT, {"event": event}, event.run_id)

    def _tell_finished(self, run: AgentRun) -> None:
        self._inbox.put_own(SessionCommandType.RUN_FINISHED, {"run": run})

    async def _finished(self, run: AgentRun) -> None:
        if run is not self._run:
            return
        result, self._run, self._run_task = run.result, None, None
        if result is None:  # the whole program is being cancelled
            self._events.put(SessionEventType.RUN_INTERRUPTED, {"reason": "cancelled"}, run.context.run_id)
            return
        self.messages.extend(result.messages)
        self.pending = run.continuation
        await self._record.ended(result, run.continuation)
        if result.error_info is not None and result.error_info.code.value == "sandbox_failed":
            await self._box.close()  # the next run gets a new one
        if self.state is not SessionState.CLOSING:
            self.state = SessionState.READY if self.pending is None else SessionState.WAITING
        if result.outcome is RunOutcome.CANCELLED:
            self._events.put(SessionEventType.RUN_INTERRUPTED, {"reason": "cancelled"}, result.run_id)
        self._events.put(SessionEventType.RUN_COMPLETED, {"result": result}, result.run_id)
        self._offer()

    def _offer(self) -> None:
        """Say that the work can be continued; whether it is, is the user's to decide."""
        if self.pending is None:
            return
        if self.state is SessionState.READY:
            self.state = SessionState.WAITING
        found = self.pending.checkpoint
        payload = {"checkpoint_id": found.checkpoint_id, "checkpoint": found}
        self._events.put(SessionEventType.CONTINUATION_REQUIRED, payload, found.source_run_id)

    async def _close(self) -> None:
        if self.state is SessionState.CLOSED:
            return
        self.state = SessionState.CLOSING
        if self._run is not None and self._run_task is not None:
            run = self._run
            run.cancel()
            await asyncio.wait({self._run_task})
            await self._finished(run)
        await self._box.close()
        self._record.close()
        self.state = SessionState.CLOSED
        self._events.put(SessionEventType.SESSION_CLOSED, {"dropped_events": self._events.dropped})
        self._runtime.forget_session(self.session_id)

    def _not_busy(self) -> None:
        if self._run is not None:
            raise InputError("session_busy", f"the session {self.session_id} has a run that goes on: {self.run_id}")
        if self.state in (SessionState.CLOSING, SessionState.CLOSED, SessionState.FAILED):
            raise InputError("session_closed", f"the session {self.session_id} is {self.state.value}")
