"""One run of an agent: the loop with its heartbeat, and one result however it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from mindx.core.agent_context import AgentContext
from mindx.core.agent_error import AgentError, ErrorCode, ErrorPhase
from mindx.core.agent_event import AgentEventType
from mindx.core.agent_result import AgentResult, AgentRunStatus
from mindx.core.agent_state import AgentState
from mindx.core.checkpoint import ExecutionBoundary, RunOutcome
from mindx.core.protocols import EventHandler
from mindx.errors import InputError, MindxError, ProviderError, SandboxError, StateError
from mindx.runtime.action_log import NO_LOG, ActionLog
from mindx.runtime.checkpoints import Continuation, UnknownAction, checkpoint_of, effect_unknown, progress
from mindx.runtime.event_stream import EventStream
from mindx.runtime.heartbeat import Heartbeat
from mindx.runtime.limits import LimitReachedError
from mindx.runtime.loop import LoopParts, ReActLoop
from mindx.trace.recorder import utc_now

_LOG = logging.getLogger("mindx.runtime.agent_run")
_PHASES = {
    AgentState.IDLE: ErrorPhase.RUNTIME,
    AgentState.CONTEXT_BUILDING: ErrorPhase.CONTEXT,
    AgentState.THINKING: ErrorPhase.REASONING,
    AgentState.ACTION_VALIDATING: ErrorPhase.POLICY,
    AgentState.NEED_HUMAN_APPROVAL: ErrorPhase.APPROVAL,
    AgentState.ACTION_EXECUTING: ErrorPhase.ACTION_EXECUTION,
    AgentState.OBSERVING: ErrorPhase.OBSERVATION,
    AgentState.CONTEXT_UPDATING: ErrorPhase.CONTEXT_UPDATE,
}


class AgentRun:
    """One run, used once. `result` is there as soon as it has ended, `continuation` when it can be continued."""

    def __init__(
        self,
        parts: LoopParts,
        context: AgentContext,
        handlers: Sequence[EventHandler] = (),
        log: ActionLog = NO_LOG,
        now: Callable[[], str] = utc_now,
    ) -> None:
        config = context.config
        self.context = context
        self.result: AgentResult | None = None
        self.continuation: Continuation | None = None
        self.stream = EventStream(
            context.run_id,
            handlers,
            session_id=context.session_id,
            timeout_s=config.event_handler_timeout_s,
            now=now,
        )
        self.loop = ReActLoop(parts, context, self.stream, log)
        self._now = now
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    @property
    def status(self) -> AgentRunStatus:
        """Where it stands."""
        return AgentRunStatus(
            self.context.run_id,
            self.loop.state,
            self.context.step,
            self.loop.pending_user_input,
            self.loop.pending_approval_id,
            None if self.result is None else self.result.outcome,
            self.context.session_id,
        )

    def cancel(self) -> bool:
        """Interrupt whatever is awaited; return False when it has ended or is being ended already."""
        if self._cancelled or self.result is not None or self.loop.state.terminal:
            return False
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()
        return True

    async def run(self) -> AgentResult:
        """Run to the end and return the result; raises nothing, not even when it is cancelled by `cancel`."""
        self._task = asyncio.current_task()
        answer, error = "", None
        boundary: ExecutionBoundary | None = None
        state, outcome = AgentState.FINAL, RunOutcome.FINAL
        try:
            if self._cancelled:
                raise asyncio.CancelledError
            async with Heartbeat(self.context.config.heartbeat_s, self._beat):
                answer = await self.loop.run()
        except asyncio.CancelledError:
            self._cancelled = True
            state, outcome = AgentState.CANCELLED, RunOutcome.CANCELLED
            error = AgentError(ErrorCode.CANCELLED, "the run was cancelled", self._phase())
        except LimitReachedError as limit:
            state, outcome, boundary, error = limit.state, RunOutcome.PARTIAL, limit.boundary, limit.error_info
        except MindxError as failure:
            state, outcome, error = (
                AgentState.ERROR,
                RunOutcome.ERROR,
                AgentError.of(_code(failure), failure, self._phase()),
            )
        except Exception as bug:  # noqa: BLE001 - the result tells of it
            _LOG.exception("the run %s ended by a mistake of mindx or of what is plugged in", self.context.run_id)
            state, outcome = AgentState.ERROR, RunOutcome.ERROR
            error = AgentError.of(ErrorCode.INTERNAL_ERROR, bug, self._phase())
        return await self._finish(answer, state, outcome, error, boundary)

    def _phase(self) -> ErrorPhase:
        return _PHASES.get(self.loop.state, ErrorPhase.RUNTIME)

    async def _beat(self) -> None:
        payload = {"state": self.loop.state.value, "worked_s": round(self.loop.worked_s, 3)}
        await self.stream.emit(AgentEventType.HEARTBEAT, payload)

    async def _finish(
        self,
        answer: str,
        state: AgentState,
        outcome: RunOutcome,
        error: AgentError | None,
        boundary: ExecutionBoundary | None,
    ) -> AgentResult:
        context = self.context
        unknown = tuple(UnknownAction.of(step.request) for step in self.loop.steps if effect_unknown(step))
        task_state = progress(context.task_state, context.run_id, self.loop.steps, unknown)
        evidence, refs = tuple(context.evidence.values()), tuple(context.artifact_refs.values())
        checkpoint = None
        if boundary is not None:
            checkpoint = checkpoint_of(context.run_id, task_state, context.step, boundary, evidence, refs, self._now())
            self.continuation = Continuation(checkpoint, task_state, evidence, refs, dict(context.artifacts), unknown)
        if state is not AgentState.FINAL:
            context.metadata["stopped_in"] = self.loop.state.value
        result = AgentResult(
            run_id=context.run_id,
            outcome=outcome,
            state=state,
            final_answer=answer,
            error_info=error,
            checkpoint=checkpoint,
            steps=context.step,
            observations=tuple(step.observation for step in self.loop.steps),
            evidence=evidence,
            artifacts=refs,
            messages=tuple(context.messages),
            task_state=task_state,
            usage=dict(context.usage),
            duration_s=self.loop.worked_s,
            session_id=context.session_id,
        )
        await self._tell(result)
        self.result = result
        return result

    async def _tell(self, result: AgentResult) -> None:
        await self.loop.end(result.state)
        if result.checkpoint is not None:
            await self.stream.emit(AgentEventType.CHECKPOINT_CREATED, result.checkpoint.to_dict())
        if result.error_info is not None:
            await self.stream.emit(AgentEventType.ERROR_CREATED, result.error_info.to_dict())
        else:
            await self.stream.emit(AgentEventType.FINAL_CREATED, {"final_answer": result.final_answer})
        await self.stream.emit(AgentEventType.RUN_FINISHED, result.to_dict())


def _code(error: MindxError) -> ErrorCode:
    if isinstance(error, ProviderError):
        return ErrorCode.PROVIDER_FAILED
    if isinstance(error, SandboxError):
        return ErrorCode.SANDBOX_FAILED
    if isinstance(error, InputError) and error.code == "decision_invalid":
        return ErrorCode.INVALID_DECISION
    if error.code == ErrorCode.GOAL_FAILED.value:
        return ErrorCode.GOAL_FAILED
    if isinstance(error, StateError):
        return ErrorCode.STATE_FAILED
    return ErrorCode.INTERNAL_ERROR
