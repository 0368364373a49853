"""The runtime: runs and sessions of one Reasoner and its executors, and their end."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from mindx.core.action import ActionType
from mindx.core.agent_context import AgentContext
from mindx.core.agent_result import AgentResult, AgentRunStatus
from mindx.core.agent_session import SessionEnvironment, SessionPolicy
from mindx.core.checkpoint import TaskConstraint, TaskState
from mindx.core.decision import AcceptanceCriterion
from mindx.core.message import ChatMessage
from mindx.core.protocols import (
    ActionExecutor,
    CompletionGate,
    ContextManager,
    EventHandler,
    HumanApprovalHandler,
    PolicyEngine,
    Reasoner,
)
from mindx.core.run_config import RunConfig
from mindx.errors import InputError
from mindx.runtime.action_log import NO_LOG, ActionLog
from mindx.runtime.agent_run import AgentRun
from mindx.runtime.agent_session import AgentSession
from mindx.runtime.approval import ApprovalDesk, ApprovalMemory
from mindx.runtime.completion import DefaultCompletionGate
from mindx.runtime.context.manager import ContextManager as BundledContext
from mindx.runtime.conversation import ConversationStore
from mindx.runtime.dispatcher import ActionDispatcher, BugListener
from mindx.runtime.lazy_sandbox import LazySandbox, OpenSession, default_session
from mindx.runtime.loop import LoopParts
from mindx.runtime.reaping import CleanupFailure, CloseReport, Reaper
from mindx.runtime.run_ids import checked_id, new_id
from mindx.trace.recorder import utc_now

KEPT_STATUSES = 1000


class AgentRuntime:
    """Runs a Reasoner with its executors; many runs and sessions at once.

    `executor` does TOOL Actions, or is an ActionDispatcher, or a mapping from ActionType to executors. Without `policy`
    the executors' own knowledge of risk decides (DefaultPolicyEngine). `approval_handler` None: what needs a person's
    yes is refused with a structured Observation. `event_handler` gets every AgentEvent of every run. `state_dir` makes
    sessions outlive this process; None keeps them in memory. `open_session` makes a session's container. `clock`
    (seconds), `now` (UTC text) and `new_id` (from a prefix) are for tests.
    """

    def __init__(
        self,
        reasoner: Reasoner,
        executor: ActionExecutor | ActionDispatcher | Mapping[ActionType, ActionExecutor],
        *,
        context_manager: ContextManager | None = None,
        policy: PolicyEngine | None = None,
        approval_handler: HumanApprovalHandler | None = None,
        event_handler: EventHandler | None = None,
        config: RunConfig | None = None,
        completion_gate: CompletionGate | None = None,
        state_dir: Path | str | None = None,
        open_session: OpenSession = default_session,
        on_bug: BugListener | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], str] = utc_now,
        new_id: Callable[[str], str] = new_id,
    ) -> None:
        self.config = config or RunConfig()
        self.reasoner = reasoner
        self.dispatcher = executor if isinstance(executor, ActionDispatcher) else ActionDispatcher(executor, on_bug)
        self.now = now
        self.new_id = new_id
        self.state_dir = None if state_dir is None else Path(state_dir)
        self.reaper = Reaper()
        # What asks a model needs a context; what does not (a fixed plan, goals) has no schemas to show.
        asks_a_model = getattr(reasoner, "tools", None) is not None
        self._context_manager = context_manager or (BundledContext() if asks_a_model else None)
        self._policy = policy
        self._gate = completion_gate or DefaultCompletionGate()
        self._approval_handler = approval_handler
        self._event_handler = event_handler
        self._open_session = open_session
        self._clock = clock
        approvals = None if self.state_dir is None else self.state_dir / "approvals.jsonl"
        self._always = ApprovalMemory(approvals)
        self._runs: dict[str, AgentRun] = {}
        self._tasks: dict[str, asyncio.Task[AgentResult]] = {}
        self._ended: OrderedDict[str, AgentRunStatus] = OrderedDict()
        self._sessions: dict[str, AgentSession] = {}
        self._closing = False
        self._report: CloseReport | None = None

    async def run(
        self,
        task: str,
        *,
        run_id: str | None = None,
        config: RunConfig | None = None,
        artifacts: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        criteria: Sequence[AcceptanceCriterion] = (),
        constraints: Sequence[TaskConstraint] = (),
        history: Sequence[ChatMessage] = (),
        environment: SessionEnvironment | None = None,
        policy: SessionPolicy | None = None,
        event_handler: EventHandler | None = None,
    ) -> AgentResult:
        """Run one task outside of any session and return its result; a failed run is a result too.

        `artifacts` are things for the context (`images`: a list of URLs). A container that an Action asks for lives as
        long as the run. Raises InputError (run_exists, runtime_closed); when the caller is cancelled, the run is too.
        """
        box = LazySandbox(lambda: self._open_session(context.environment, policy))
        context = AgentContext(
            run_id=run_id or self.new_id("run"),
            task=task,
            task_state=TaskState(task, tuple(constraints), tuple(criteria)),
            config=config or self.config,
            policy=policy,
            environment=environment or self._environment(),
            history=history,
            messages=[ChatMessage.user(task)],
            artifacts=dict(artifacts or {}),
            metadata=dict(metadata or {}),
            open_sandbox=box.open,
            operator_engine=box.engine,
        )
        try:
            return await self.run_in(context, event_handler)
        finally:
            await box.close()

    async def run_in(self, context: AgentContext, event_handler: EventHandler | None = None) -> AgentResult:
        """Run over a context of the caller's, who also ends its container; else as `run`."""
        handlers = () if event_handler is None else (event_handler,)
        return await self._until_done(context.run_id, self.start(self.make_run(context, handlers)))

    def cancel(self, run_id: str) -> bool:
        """Interrupt a run's await at once; return False when there is no such run, or it has ended."""
        run = self._runs.get(run_id)
        return run is not None and run.cancel()

    def respond_to_user(self, run_id: str, text: str) -> None:
        """Answer the question that a run waits for. Raises InputError (run_unknown, run_not_waiting)."""
        run = self._runs.get(run_id)
        if run is None:
            raise InputError("run_unknown", f"there is no run {run_id} that goes on")
        if not run.loop.respond(text):
            raise InputError("run_not_waiting", f"the run {run_id} does not wait for an answer")

    def get_run_status(self, run_id: str) -> AgentRunStatus | None:
        """Return where a run stands, or how it ended; None when it is not known (any more)."""
        run = self._runs.get(run_id)
        return self._ended.get(run_id) if run is None else run.status

    @property
    def active_run_ids(self) -> tuple[str, ...]:
        """The runs that go on."""
        return tuple(self._runs)

    def create_session(
        self,
        session_id: str | None = None,
        *,
        environment: SessionEnvironment | None = None,
        policy: SessionPolicy | None = None,
        conversation_store: ConversationStore | None = None,
        config: RunConfig | None = None,
        event_queue_size: int = 1000,
    ) -> AgentSession:
        """Return a new session; with a `state_dir`, one that goes on where the session of this id stopped.

        Raises InputError: id_invalid, session_exists, session_in_use (by another process), runtime_closed.
        """
        self.check_open()
        name = checked_id(session_id or self.new_id("session"), "session id")
        if name in self._sessions:
            raise InputError("session_exists", f"there is a session {name} already")
        session = AgentSession(
            self,
            name,
            environment=environment or self._environment(),
            policy=policy or SessionPolicy(),
            open_session=self._open_session,
            conversation_store=conversation_store,
            config=config or self.config,
            event_queue_size=event_queue_size,
        )
        self._sessions[name] = session
        return session

    def _environment(self) -> SessionEnvironment:
        """Return what a run or session works with that names nothing: the folder that the tools were made for."""
        folders = (getattr(executor, "workspace", None) for executor in self.dispatcher.executors)
        return SessionEnvironment(workspace_root=next((folder for folder in folders if folder is not None), None))

    def get_session(self, session_id: str) -> AgentSession | None:
        """Return an open session, or None."""
        return self._sessions.get(session_id)

    async def close_session(self, session_id: str) -> None:
        """Cancel the session's run, end its container and close it; one that is not there is closed already."""
        session = self._sessions.get(session_id)
        if session is not None:
            await session.close()

    def forget_session(self, session_id: str) -> None:
        """Let go of a session that has closed (the session calls it)."""
        self._sessions.pop(session_id, None)

    async def close(self, *, close_dependencies: bool = False) -> CloseReport:
        """Refuse new work, close all sessions, cancel and await all runs; may be called twice.

        `close_dependencies` also closes the Reasoner and the executors, which are the caller's own otherwise.
        """
        self._closing = True
        if self._report is None or close_dependencies:
            await asyncio.gather(*(session.close() for session in list(self._sessions.values())))
            for run in list(self._runs.values()):
                run.cancel()
            if self._tasks:
                await asyncio.wait(list(self._tasks.values()))
            if close_dependencies:
                await self._close_dependencies()
            self._report = CloseReport(tuple(self.reaper.failures))
        return self._report

    async def _close_dependencies(self) -> None:
        for part in (self.reasoner, *self.dispatcher.executors):
            close = getattr(part, "close", None) or getattr(part, "aclose", None)
            try:
                answer = None if close is None else close()
                if inspect.isawaitable(answer):
                    await answer
            except Exception as error:  # noqa: BLE001 - the others are closed all the same
                self.reaper.failures.append(CleanupFailure(type(part).__name__, f"{type(error).__name__}: {error}"))

    def check_open(self) -> None:
        """Raise InputError (runtime_closed) once closing has begun."""
        if self._closing:
            raise InputError("runtime_closed", "the runtime is closing or closed; make a new one")

    def make_run(
        self,
        context: AgentContext,
        handlers: Sequence[EventHandler] = (),
        log: ActionLog = NO_LOG,
        session_approvals: ApprovalMemory | None = None,
    ) -> AgentRun:
        """Return a run of this runtime over `context`, not started yet. Raises InputError (run_exists, ...)."""
        self.check_open()
        checked_id(context.run_id, "run id")
        if context.run_id in self._runs:
            raise InputError("run_exists", f"there is a run {context.run_id} already")
        parts = LoopParts(
            self.reasoner,
            self.dispatcher,
            self._policy,
            self._context_manager,
            self._gate,
            ApprovalDesk(self._approval_handler, session_approvals or ApprovalMemory(), self._always),
            self.reaper,
            self._clock,
        )
        own = () if self._event_handler is None else (self._event_handler,)
        return AgentRun(parts, context, (*own, *handlers), log, self.now)

    def start(self, run: AgentRun) -> asyncio.Task[AgentResult]:
        """Start a run as a task; it is known to `cancel` and `get_run_status` from now on."""
        run_id = run.context.run_id
        self._runs[run_id] = run
        task = asyncio.create_task(run.run(), name=run_id)
        self._tasks[run_id] = task
        task.add_done_callback(lambda done: self._forget(run))
        return task

    def _forget(self, run: AgentRun) -> None:
        run_id = run.context.run_id
        self._runs.pop(run_id, None)
        self._tasks.pop(run_id, None)
        self._ended[run_id] = run.status
        while len(self._ended) > KEPT_STATUSES:
            self._ended.popitem(last=False)

    async def _until_done(self, run_id: str, task: asyncio.Task[AgentResult]) -> AgentResult:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.cancel(run_id)
            await asyncio.wait({task})
            raise

    async def __aenter__(self) -> AgentRuntime:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
