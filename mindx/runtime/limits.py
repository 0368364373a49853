"""Limits that a run reaches: it ends as PARTIAL and can be continued."""

from __future__ import annotations

from mindx.core.agent_error import AgentError, ErrorCode, ErrorPhase
from mindx.core.agent_state import AgentState
from mindx.core.checkpoint import BoundaryReason, BoundaryScope, ExecutionBoundary
from mindx.core.count import counted
from mindx.errors import MindxError


class LimitReachedError(MindxError):
    """A run reached a limit: `boundary` says which, `state` where it ends, `error_info` how it is told."""

    def __init__(self, code: ErrorCode, message: str, boundary: ExecutionBoundary, state: AgentState) -> None:
        super().__init__(code.value, message, recoverable=True)
        self.boundary = boundary
        self.state = state
        details = {"limit": boundary.limit, "scope": boundary.scope.value}
        self.error_info = AgentError(code, message, ErrorPhase.RUNTIME, True, details)


class StepTimeoutError(LimitReachedError):
    """A step took longer than step_timeout_s."""

    def __init__(self, limit_s: float) -> None:
        boundary = ExecutionBoundary(BoundaryScope.STEP, BoundaryReason.STEP_TIMEOUT, limit_s)
        message = f"a step took longer than {limit_s:g} s"
        super().__init__(ErrorCode.STEP_TIMEOUT, message, boundary, AgentState.TIMEOUT)


class RunTimeoutError(LimitReachedError):
    """The run took longer than total_timeout_s."""

    def __init__(self, limit_s: float) -> None:
        boundary = ExecutionBoundary(BoundaryScope.RUN, BoundaryReason.RUN_TIMEOUT, limit_s)
        message = f"the run took longer than {limit_s:g} s"
        super().__init__(ErrorCode.RUN_TIMEOUT, message, boundary, AgentState.TIMEOUT)


class MaxStepsError(LimitReachedError):
    """The run used all of max_steps: state ERROR, and PARTIAL all the same."""

    def __init__(self, limit: int) -> None:
        boundary = ExecutionBoundary(BoundaryScope.RUN, BoundaryReason.MAX_STEPS, limit)
        message = f"the run has used its {counted(limit, 'step')}"
        super().__init__(ErrorCode.MAX_STEPS_EXCEEDED, message, boundary, AgentState.ERROR)
