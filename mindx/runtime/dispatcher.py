"""The dispatcher: each Action goes to the executor of its type and gives exactly one Observation."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping

from mindx.core.action import ActionRequest, ActionTraits, ActionType
from mindx.core.agent_context import AgentContext
from mindx.core.agent_error import AgentError, ErrorCode, ErrorPhase
from mindx.core.observation import Observation, Status
from mindx.core.protocols import ActionAssessor, ActionExecutor
from mindx.errors import DeniedError, MindxError, SandboxError

BugListener = Callable[[ActionRequest, Exception], None]


class ActionDispatcher:
    """Sends an Action to the executor of its ActionType and answers for the outcome.

    `executors` is one for each type, or a single one for TOOL Actions. `on_bug` is told of an exception that no
    executor should raise: its text stays out of the Observation, since a model reads that. `clock` gives seconds.
    """

    def __init__(
        self,
        executors: ActionExecutor | Mapping[ActionType, ActionExecutor],
        on_bug: BugListener | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._executors = dict(executors) if isinstance(executors, Mapping) else {ActionType.TOOL: executors}
        self._on_bug = on_bug or (lambda request, error: None)
        self._clock = clock

    @property
    def executors(self) -> tuple[ActionExecutor, ...]:
        """The executors, each once."""
        return tuple({id(executor): executor for executor in self._executors.values()}.values())

    def assess(self, request: ActionRequest, context: AgentContext) -> ActionTraits:
        """Return what the Action's executor knows of it; where nothing is known it is DANGEROUS."""
        executor = self._executors.get(request.action_type)
        if executor is None:
            return ActionTraits(problem=_unsupported(request), code=ErrorCode.ACTION_TYPE_UNSUPPORTED)
        if not isinstance(executor, ActionAssessor):
            return ActionTraits()
        try:
            return executor.assess(request, context)
        except Exception as error:  # noqa: BLE001 - what cannot be judged is refused, and a model must not end a run
            self._on_bug(request, error)
            return ActionTraits(problem="the arguments could not be judged")

    async def execute(self, request: ActionRequest, context: AgentContext) -> Observation:
        """Return the Action's one Observation. Raises SandboxError when the sandbox broke, and CancelledError."""
        began = self._clock()
        observation = await self._observe(request, context)
        taken = observation.duration_s or self._clock() - began
        return dataclasses.replace(observation, action_id=request.action_id, duration_s=taken)

    async def _observe(self, request: ActionRequest, context: AgentContext) -> Observation:
        executor = self._executors.get(request.action_type)
        if executor is None:
            return failed(request, _unsupported(request), ErrorCode.ACTION_TYPE_UNSUPPORTED)
        try:
            observation = await executor.execute(request, context)
        except SandboxError:
            raise
        except DeniedError as error:
            denied = AgentError(ErrorCode.ACTION_REJECTED, error.message, ErrorPhase.POLICY, True, error.details)
            return refused(request, denied)
        except MindxError as error:
            info = AgentError.of(ErrorCode.ACTION_EXECUTION_FAILED, error, ErrorPhase.ACTION_EXECUTION)
            return failed(request, error.message, info.code, details=dict(info.details))
        except Exception as error:  # noqa: BLE001 - a bug of a tool ends its step, never the run's record
            self._on_bug(request, error)
            return failed(request, "mindx made a mistake here; the run's folder has the details")
        if not isinstance(observation, Observation):
            self._on_bug(request, TypeError(f"the tool answered {type(observation).__name__}, not an Observation"))
            return failed(request, "the tool gave no result")
        return observation


def failed(
    request: ActionRequest,
    message: str,
    code: ErrorCode = ErrorCode.ACTION_EXECUTION_FAILED,
    *,
    status: Status = Status.ERROR,
    phase: ErrorPhase = ErrorPhase.ACTION_EXECUTION,
    recoverable: bool = True,
    details: Mapping[str, object] | None = None,
) -> Observation:
    """Return the Observation of an Action that gave none of its own."""
    error = AgentError(code, message, phase, recoverable, details or {})
    return Observation(request.action_id, status, message, {"status": "ERROR", "message": message}, error_info=error)


def refused(request: ActionRequest, error: AgentError) -> Observation:
    """Return the Observation of an Action that may not be done."""
    result = {"status": "ERROR", "message": error.message}
    return Observation(request.action_id, Status.DENIED, error.message, result, error_info=error)


def _unsupported(request: ActionRequest) -> str:
    return f"nothing here does actions of the type {request.action_type.value}"
