"""The Run in the user's folder that tells of agents at work: its trace, its steps, its changes and its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from mindx.core.agent_error import AgentError, ErrorCode
from mindx.core.agent_event import AgentEvent, AgentEventType
from mindx.core.agent_result import AgentResult
from mindx.core.checkpoint import RunOutcome
from mindx.core.observation import Observation
from mindx.core.run import ChangeRecord, Outcome, PolicyRecord, RunResult, StepRecord, TraceHead
from mindx.errors import MindxError, StateError
from mindx.policy.load import LoadedPolicy
from mindx.runtime.change_records import collect_changes
from mindx.runtime.sandboxes import SandboxFactory, docker_sandbox
from mindx.runtime.session import Session
from mindx.runtime.step_book import StepBook
from mindx.trace.recorder import Recorder, utc_now
from mindx.trace.run_folder import RunFolder, RunStore
from mindx.workspace.folder import opened

Listener = Callable[[AgentEvent], None]
_PASSING = frozenset({AgentEventType.TEXT_DELTA, AgentEventType.HEARTBEAT})  # seen live, kept nowhere
_OUTCOMES = {
    RunOutcome.FINAL: Outcome.COMPLETED,
    RunOutcome.PARTIAL: Outcome.PARTIAL,
    RunOutcome.CANCELLED: Outcome.CANCELLED,
    RunOutcome.ERROR: Outcome.ERROR,
}


class WorkRecord:
    """One Run of one or several agents. `on_event` hears every AgentEvent after it was recorded.

    `outcome` and `error` are what `finish` will write; `result` is the Run's document, there when it was written.
    Raises WorkspaceError for a folder that cannot be read, StateError when the Run's cannot be made or written.
    """

    def __init__(
        self,
        policy: LoadedPolicy,
        store: RunStore,
        *,
        workspace: Path | None = None,
        on_event: Listener | None = None,
        open_sandbox: SandboxFactory = docker_sandbox,
    ) -> None:
        if workspace is not None:  # its container may open late; a folder that is none is told at once
            with opened(workspace):
                pass
        self.policy = policy
        self.folder: RunFolder = store.create()
        self.result: RunResult | None = None
        self.changes: tuple[ChangeRecord, ...] = ()
        self.outcome = Outcome.COMPLETED
        self.error: AgentError | MindxError | None = None
        self._recorder = Recorder(self.folder.trace_path)
        self._on_event = on_event or (lambda event: None)
        self._open_sandbox = open_sandbox
        self._began, self._started_at = time.monotonic(), utc_now()
        self._book = StepBook(self.folder.path, max_spool_bytes=policy.policy.limits.run_output_bytes)
        self._names: dict[str, str] = {}
        self._recorder.record(
            "run_started",
            run_id=self.folder.run_id,
            policy={"name": policy.name, "sha256": policy.sha256, "source": policy.source},
            image=policy.policy.image,
            workspace=None if workspace is None else str(workspace),
        )

    def session(self, workspace: Path | None) -> Session:
        """Return a session, not opened yet, whose Commands the trace tells of."""
        return Session(
            self.policy, workspace, recorder=self._recorder, tells_files=True, open_sandbox=self._open_sandbox
        )

    def hear(self, event: AgentEvent) -> None:
        """Record an event of an agent's run; an Observation is a step."""
        payload = event.payload
        if event.event_type is AgentEventType.DECISION_CREATED:
            self._names.update((action["action_id"], action["name"]) for action in payload["actions"])
        elif event.event_type is AgentEventType.OBSERVATION_CREATED:
            observation = Observation.from_dict(payload)
            name = self._names.get(observation.action_id, "")
            self._book.add(StepRecord.of(len(self._book.records), "TOOL", name, observation), observation)
        if event.event_type not in _PASSING:
            ended = event.event_type is AgentEventType.RUN_FINISHED  # of a task; the Run has an end of its own
            kind = "agent_run_finished" if ended else event.event_type.value
            self._recorder.record(kind, agent_run_id=event.run_id, step=event.step, payload=dict(payload))
        self._on_event(event)

    async def collect(self, session: Session | None) -> tuple[ChangeRecord, ...]:
        """Bring home what differs from the folder that was copied in; the container, if there is one, goes on."""
        if session is not None:
            self.changes = await collect_changes(session, self.folder)
            told = [change.model_dump() for change in self.changes]
            self._recorder.record("changes", count=len(told), changes=told)
        return self.changes

    def take(self, result: AgentResult) -> None:
        """Let the Run end as this result did."""
        self.outcome, self.error = _OUTCOMES[result.outcome], result.error_info
        if result.error_info is not None and result.error_info.code is ErrorCode.GOAL_FAILED:
            self.outcome = Outcome.FAILED

    def finish(self) -> None:
        """Close the trace and write the result, whatever happened before. Raises StateError when that fails."""
        failed: StateError | None = None
        error = None if self.error is None else self.error.to_dict()
        try:
            self._recorder.record("run_finished", outcome=self.outcome.value, error=error)
            self._recorder.close()
        except StateError as failure:
            failed, self.outcome = failure, Outcome.ERROR
            error = error or failure.to_dict()
        self.result = RunResult(
            run_id=self.folder.run_id,
            outcome=self.outcome,
            policy=PolicyRecord(name=self.policy.name, sha256=self.policy.sha256),
            started_at=self._started_at,
            duration_s=round(time.monotonic() - self._began, 6),
            steps=tuple(self._book.records),
            changes=self.changes,
            error=error,
            trace=str(self.folder.trace_path),
            trace_head=TraceHead(events=self._recorder.events, sha256=self._recorder.head),
        )
        self.folder.write("result.json", (piece.encode("ascii") for piece in self.result.json_pieces()))
        if failed is not None:
            raise failed
