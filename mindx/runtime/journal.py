"""The journal of a session: written ahead, so that after a SIGKILL nothing is repeated that may have been done.

Each Action is `requested`, `started` (on the disk before it begins, unless it only reads) and `finished`. One that was
started and never finished is unknown: the next run is told so, and mindx does not do it again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mindx.core.action import ActionBatch, ActionRequest, ActionRisk
from mindx.core.agent_context import AgentContext
from mindx.core.agent_result import AgentResult
from mindx.core.checkpoint import BoundaryReason, BoundaryScope, ContinuationCheckpoint, ExecutionBoundary, TaskState
from mindx.core.evidence import ArtifactRef, Evidence
from mindx.core.lock_file import hold_lock
from mindx.core.message import ChatMessage
from mindx.core.observation import Observation
from mindx.core.output import plain_value
from mindx.errors import InputError, StateError
from mindx.runtime.append_file import AppendFile, read_lines
from mindx.runtime.checkpoints import Continuation, UnknownAction, checkpoint_of, progress
from mindx.runtime.conversation import ConversationStore
from mindx.runtime.loop import Step

MAX_RESULT_CHARS = 64 * 1024


class SessionJournal:
    """The journal of one session in `folder`, locked against other processes while it is open.

    `last` is what the last run left to be continued, or None. Raises InputError (session_in_use), StateError.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            handle = hold_lock(folder / "lock")
        except OSError as error:
            raise StateError("state_unwritable", f"{folder} cannot be used: {error.strerror}") from error
        if handle is None:
            raise InputError("session_in_use", f"the session {folder.name} is open in another process")
        self._lock = handle
        self._file = AppendFile(folder / "journal.jsonl")
        self.last: Continuation | None = None
        self.interrupted = False
        self._recover()

    def run(self, context: AgentContext) -> RunJournal:
        """Begin the journal of a run."""
        self._file.append(
            [
                {
                    "kind": "run",
                    "run_id": context.run_id,
                    "task": context.task,
                    "task_state": context.task_state.to_dict(),
                    "evidence": [item.to_dict() for item in context.evidence.values()],
                    "artifact_refs": [item.to_dict() for item in context.artifact_refs.values()],
                    "artifacts": plain_value(dict(context.artifacts)),
                }
            ]
        )
        return RunJournal(self._file, context.run_id)

    def close(self) -> None:
        """Let go of it; may be called twice."""
        self._file.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _recover(self) -> None:
        reading: _Reading | None = None
        for record in read_lines(self._file.path):
            try:
                if record["kind"] == "run":
                    reading = _Reading(record)
                elif reading is not None:
                    reading.take(record)
            except (KeyError, ValueError, TypeError, AttributeError):
                continue  # a line of another version, or a damaged one: what it says is not known
        if reading is not None:
            self.last = reading.continuation()
            self.interrupted = not reading.ended


class RunJournal:
    """The ActionLog of one run; what is said is the conversation's to keep."""

    def __init__(self, file: AppendFile, run_id: str) -> None:
        self._file = file
        self._run_id = run_id
        self._risks: dict[str, ActionRisk] = {}

    async def requested(self, batch: ActionBatch) -> None:
        """Write what was decided."""
        self._write("requested", actions=[request.to_dict() for request in batch])

    async def started(self, request: ActionRequest, risk: ActionRisk) -> None:
        """Write that it begins; on the disk before it can have an effect."""
        self._risks[request.action_id] = risk
        self._write("started", action=UnknownAction.of(request).to_dict(), risk=risk.value)
        if risk is not ActionRisk.READ_ONLY:
            await self._file.sync()

    async def finished(self, request: ActionRequest, observation: Observation) -> None:
        """Write its Observation."""
        value = observation.to_dict()
        if len(repr(value["result"])) + len(repr(value["value"])) > MAX_RESULT_CHARS:
            value["result"], value["value"] = {"status": observation.status.value, "note": "too large to keep"}, None
        self._write("finished", action_id=request.action_id, name=request.name, observation=plain_value(value))
        if self._risks.pop(request.action_id, ActionRisk.READ_ONLY) is not ActionRisk.READ_ONLY:
            await self._file.sync()

    async def said(self, message: ChatMessage) -> None:
        """Leave it to the conversation store."""

    async def ended(self, result: AgentResult, continuation: Continuation | None) -> None:
        """Write how the run ended, and what goes on from it."""
        unknown = () if continuation is None else continuation.unknown
        self._write(
            "ended",
            outcome=result.outcome.value,
            step=result.steps,
            checkpoint=None if result.checkpoint is None else result.checkpoint.to_dict(),
            task_state=None if result.task_state is None else result.task_state.to_dict(),
            evidence=[item.to_dict() for item in result.evidence],
            artifact_refs=[item.to_dict() for item in result.artifacts],
            unknown=[item.to_dict() for item in unknown],
        )
        await self._file.sync()

    def _write(self, kind: str, **data: Any) -> None:
        self._file.append([{"kind": kind, "run_id": self._run_id, **plain_value(data)}])


class Logs:
    """A run's journal (or None) together with its conversation."""

    def __init__(self, journal: RunJournal | None, session_id: str, store: ConversationStore | None) -> None:
        self.journal = journal
        self._session_id = session_id
        self._store = store

    async def requested(self, batch: ActionBatch) -> None:
        """Hand it on."""
        if self.journal is not None:
            await self.journal.requested(batch)

    async def started(self, request: ActionRequest, risk: ActionRisk) -> None:
        """Hand it on."""
        if self.journal is not None:
            await self.journal.started(request, risk)

    async def finished(self, request: ActionRequest, observation: Observation) -> None:
        """Hand it on."""
        if self.journal is not None:
            await self.journal.finished(request, observation)

    async def said(self, message: ChatMessage) -> None:
        """Keep it."""
        if self._store is not None:
            self._store.append(self._session_id, [message])


class _Reading:
    """What a journal tells of one run."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.run_id = str(record["run_id"])
        self.state = TaskState.from_dict(record["task_state"])
        self.evidence = {item["evidence_id"]: Evidence.from_dict(item) for item in record["evidence"]}
        self.refs = {item["artifact_id"]: ArtifactRef.from_dict(item) for item in record["artifact_refs"]}
        self.artifacts: dict[str, Any] = dict(record["artifacts"])
        self.started: dict[str, tuple[UnknownAction, ActionRisk]] = {}
        self.steps: list[Step] = []
        self.batches = 0
        self.ended = False
        self.checkpoint: ContinuationCheckpoint | None = None
        self.unknown: tuple[UnknownAction, ...] = ()

    def take(self, record: Mapping[str, Any]) -> None:
        kind = record["kind"]
        if record["run_id"] != self.run_id:
            return
        if kind == "requested":
            self.batches += 1
        elif kind == "started":
            action = UnknownAction.from_dict(record["action"])
            self.started[action.action_id] = (action, ActionRisk(record["risk"]))
        elif kind == "finished":
            self._finished(record)
        elif kind == "ended":
            self._ended(record)

    def _finished(self, record: Mapping[str, Any]) -> None:
        observation = Observation.from_dict(record["observation"])
        _, risk = self.started.pop(record["action_id"], (None, ActionRisk.READ_ONLY))
        self.steps.append(Step(ActionRequest(record["action_id"], str(record["name"])), observation, risk))
        self.evidence.update((item.evidence_id, item) for item in observation.evidence)
        self.refs.update((item.artifact_id, item) for item in observation.artifacts)

    def _ended(self, record: Mapping[str, Any]) -> None:
        self.ended = True
        if record["checkpoint"] is not None:
            self.checkpoint = ContinuationCheckpoint.from_dict(record["checkpoint"])
        self.state = TaskState.from_dict(record["task_state"])
        self.evidence = {item["evidence_id"]: Evidence.from_dict(item) for item in record["evidence"]}
        self.refs = {item["artifact_id"]: ArtifactRef.from_dict(item) for item in record["artifact_refs"]}
        self.unknown = tuple(UnknownAction.from_dict(item) for item in record["unknown"])

    def continuation(self) -> Continuation | None:
        """Return what goes on from this run: from its checkpoint, or from where its process died."""
        evidence, refs = tuple(self.evidence.values()), tuple(self.refs.values())
        if self.ended:
            if self.checkpoint is None:
                return None
            return Continuation(self.checkpoint, self.state, evidence, refs, self.artifacts, self.unknown)
        unknown = tuple(action for action, _ in self.started.values())
        state = progress(self.state, self.run_id, self.steps, unknown)
        boundary = ExecutionBoundary(BoundaryScope.RUN, BoundaryReason.INTERRUPTED)
        checkpoint = checkpoint_of(self.run_id, state, self.batches, boundary, evidence, refs, "")
        return Continuation(checkpoint, state, evidence, refs, self.artifacts, unknown)
