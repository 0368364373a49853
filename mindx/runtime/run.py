"""One Run: a Reasoner's walk in a session of its own, recorded, and told in one document however it ends."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio

from mindx.core.action import ActionBatch, ActionRequest, ActionRisk
from mindx.core.agent_context import AgentContext
from mindx.core.checkpoint import TaskState
from mindx.core.message import ChatMessage
from mindx.core.observation import Observation, Status
from mindx.core.plan import Action
from mindx.core.protocols import ActionExecutor, Reasoner
from mindx.core.run import Outcome, PolicyRecord, RunResult, StepRecord, TraceHead, outcome_of
from mindx.errors import DeniedError, InputError, MindxError, SandboxError, StateError
from mindx.policy.approval import Approver
from mindx.policy.load import LoadedPolicy
from mindx.runtime.asking import NotedExecutor
from mindx.runtime.change_records import collect_changes
from mindx.runtime.dispatcher import ActionDispatcher
from mindx.runtime.fixed_plan import UNBOUNDED, action_of
from mindx.runtime.loop import LoopParts, ReActLoop
from mindx.runtime.policy_engine import AllowAll
from mindx.runtime.recorded import both_hear
from mindx.runtime.sandboxes import SandboxFactory, docker_sandbox
from mindx.runtime.session import Session
from mindx.runtime.step_book import StepBook, step_record
from mindx.sandbox.base import OutputListener
from mindx.trace.recorder import Recorder, utc_now
from mindx.trace.run_folder import RunFolder, RunStore

# How long an interrupted run may take to bring its changes home; the user waits.
CANCELLED_GRACE_S = 20.0
StepListener = Callable[[Action, "Observation | None"], None]


class Run(ABC):
    """One Run, used once. `result` is there as soon as it has ended, however it ended.

    `on_step` is told of each action's beginning and end, `on_output` of what its programs print while they run,
    `progress` of what takes time, `on_bug` of an exception that no tool should raise, with the run's folder.
    `approver` answers what the policy asks about; None: that is denied.
    `open_sandbox` is for tests. Raises StateError when the run's folder cannot be made.
    """

    def __init__(
        self,
        policy: LoadedPolicy,
        store: RunStore,
        *,
        workspace: Path | None = None,
        autonomous: bool = False,
        approver: Approver | None = None,
        open_sandbox: SandboxFactory = docker_sandbox,
        on_step: StepListener | None = None,
        on_output: OutputListener | None = None,
        progress: Callable[[str], None] | None = None,
        on_bug: Callable[[Exception, Path], None] | None = None,
    ) -> None:
        self.policy = policy
        self.folder: RunFolder = store.create()
        self.result: RunResult | None = None
        self.recorder = Recorder(self.folder.trace_path)
        self.session = Session(
            policy,
            workspace,
            autonomous=autonomous,
            recorder=self.recorder,
            approver=approver,
            tells_files=True,
            open_sandbox=open_sandbox,
        )
        self._on_step = on_step or (lambda action, observation: None)
        self._progress = progress or (lambda text: None)
        self._on_bug = on_bug or (lambda error, folder: None)
        self._started_at = utc_now()
        self._began = time.monotonic()
        self._book = StepBook(self.folder.path, max_spool_bytes=policy.policy.limits.run_output_bytes)
        self.session.on_output = self._book.hear if on_output is None else both_hear(self._book.hear, on_output)
        self._known: dict[str, Any] = {}  # what the result will hold
        self._error: MindxError | None = None
        self.recorder.record(
            "run_started",
            run_id=self.folder.run_id,
            policy={"name": policy.name, "sha256": policy.sha256, "source": policy.source},
            image=policy.policy.image,
            workspace=None if workspace is None else str(workspace),
            autonomous=autonomous,
        )

    async def run(self) -> RunResult:
        """Run it and return the result, which also lies in the folder.

        A broken sandbox or engine is a result (error), as is a bad workspace (invalid). Raises CancelledError when
        the caller gave up, and StateError when the record cannot be written; `result` is set all the same.
        """
        outcome = Outcome.ERROR
        try:
            outcome = await self._walk()
        except asyncio.CancelledError:
            outcome = Outcome.CANCELLED
            raise
        except MindxError as error:
            self._error = error
            outcome = outcome_of_error(error)
        except Exception as error:
            self._error = SandboxError("run_broke", f"a mistake in mindx itself ended the run: {type(error).__name__}")
            raise
        finally:
            self._finish(outcome)
        assert self.result is not None
        return self.result

    @abstractmethod
    async def _walk(self) -> Outcome:
        """Do what this kind of Run does, by `_in_session`."""

    def _outcome(self, statuses: Sequence[Status]) -> Outcome:
        return outcome_of(statuses)

    async def _in_session(
        self,
        reasoner: Reasoner,
        handler: Callable[[Session], ActionExecutor],
        planned: Sequence[Action] = (),
    ) -> Outcome:
        """Open the session, loop, collect the changes and close; `planned` actions not reached become SKIPPED."""
        session = self.session
        loop: ReActLoop | None = None
        try:
            await session.open(self._progress)
            attestation = session.sandbox.attestation
            self._known["accepted_gaps"] = () if attestation is None else attestation.gaps
            baseline = session.baseline
            self.recorder.record("session_started", workspace=baseline.folder, entries=len(baseline.entries))
            context = AgentContext(self.folder.run_id, "", TaskState(""), config=UNBOUNDED)
            dispatcher = self._dispatcher(handler(session))
            parts = LoopParts(reasoner, dispatcher, AllowAll(), keeps_evidence=False, keeps_output=False)
            loop = ReActLoop(parts, context, log=_StepLog(self._record_step))
            return await self._loop(loop)
        finally:
            done = self._book.records
            self._known["steps"] = (*done, *map(_skipped, planned[len(done) :]))
            with anyio.CancelScope(shield=True):
                await session.close()

    def _dispatcher(self, executor: ActionExecutor) -> ActionDispatcher:
        asking = self.session.asking
        if asking is None:
            return ActionDispatcher(executor, self._record_bug)
        return ActionDispatcher(NotedExecutor(executor, asking), self._record_bug, lambda: asking.clock.worked_s)

    async def _loop(self, loop: ReActLoop) -> Outcome:
        limit_s = self.policy.policy.limits.session_timeout_s
        try:
            with anyio.move_on_after(limit_s) as clock:
                if self.session.asking is not None:
                    self.session.asking.deadline = clock
                await loop.run()
        except asyncio.CancelledError:
            try:
                with anyio.move_on_after(CANCELLED_GRACE_S, shield=True):
                    await self._collect()
            except MindxError as error:
                self._error = self._error or error  # told in the result; the cancellation goes on
            raise
        await self._collect()
        reached = "session_timeout" if clock.cancelled_caught else self.session.limit_reached
        if reached:
            self.recorder.record("limit_reached", limit=reached)
            return Outcome.PARTIAL
        return self._outcome([step.observation.status for step in loop.steps])

    async def _collect(self) -> None:
        self._progress("collecting the changes")
        changes = await collect_changes(self.session, self.folder)
        self._known["changes"] = changes
        self.recorder.record("changes", count=len(changes), changes=[change.model_dump() for change in changes])

    def _finish(self, outcome: Outcome) -> None:
        """Close the trace and write the result, whatever happened before. Raises StateError when that fails."""
        self._book.close()
        failed: StateError | None = None
        cancelled = outcome is Outcome.CANCELLED
        try:
            error = None if self._error is None else self._error.to_dict()
            self.recorder.record("run_finished", outcome=outcome.value, error=error)
        except StateError as record_error:
            failed = record_error
        try:
            self.recorder.close()
        except StateError as close_error:
            failed = failed or close_error
        if failed is not None:
            outcome, self._error = Outcome.ERROR, self._error or failed
        self.result = self._document(outcome)
        try:
            self.folder.write("result.json", (piece.encode("ascii") for piece in self.result.json_pieces()))
        except StateError as write_error:
            failed = failed or write_error
        # A full disk must not hide from the caller that it was cancelled; the result tells of both.
        if failed is not None and not cancelled:
            raise failed

    def _document(self, outcome: Outcome) -> RunResult:
        return RunResult(
            run_id=self.folder.run_id,
            outcome=outcome,
            policy=PolicyRecord(name=self.policy.name, sha256=self.policy.sha256),
            started_at=self._started_at,
            duration_s=round(time.monotonic() - self._began, 6),
            error=None if self._error is None else self._error.to_dict(),
            trace=str(self.folder.trace_path),
            trace_head=TraceHead(events=self.recorder.events, sha256=self.recorder.head),
            **self._known,
        )

    def _record_step(self, action: Action, observation: Observation | None) -> None:
        if observation is None:
            self._book.begin(action)
            self.recorder.record("action_started", action_id=action.action_id, type=action.type, params=action.params)
        else:
            try:
                self.recorder.record("observation", **self._book.keep(action, observation).model_dump(mode="json"))
            except StateError as error:
                if observation.status is not Status.CANCELLED:
                    raise
                self._error = self._error or error  # the cancellation goes on
        self._on_step(action, observation)

    def _record_bug(self, request: ActionRequest, error: Exception) -> None:
        self._on_bug(error, self.folder.path)
        self.recorder.record("bug", action_id=request.action_id, error=type(error).__name__)


class _StepLog:
    """Tells of each Action's beginning and end."""

    def __init__(self, on_step: StepListener) -> None:
        self._on_step = on_step

    async def requested(self, batch: ActionBatch) -> None:
        """Nothing to tell yet."""

    async def started(self, request: ActionRequest, risk: ActionRisk) -> None:
        self._on_step(action_of(request), None)

    async def finished(self, request: ActionRequest, observation: Observation) -> None:
        self._on_step(action_of(request), observation)

    async def said(self, message: ChatMessage) -> None:
        """A plan's last word is in its outcome."""


def outcome_of_error(error: MindxError) -> Outcome:
    """Return the outcome of a run that an error ended."""
    if isinstance(error, InputError):
        return Outcome.INVALID
    return Outcome.DENIED if isinstance(error, DeniedError) else Outcome.ERROR


def _skipped(action: Action) -> StepRecord:
    return step_record(action, Observation(action.action_id, Status.SKIPPED, "not reached"))
