"""Validating the Actions of a batch, and asking a person about those that need a yes."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mindx.core.action import ActionBatch, ActionRequest, ActionValidation, ValidationDecision
from mindx.core.agent_context import AgentContext
from mindx.core.agent_error import AgentError, ErrorCode, ErrorPhase
from mindx.core.agent_event import AgentEventType
from mindx.core.approval import ApprovalRequest, ApprovalResult
from mindx.core.observation import Observation
from mindx.core.protocols import PolicyEngine
from mindx.runtime.approval import ApprovalDesk
from mindx.runtime.dispatcher import failed, refused
from mindx.runtime.event_stream import EventStream
from mindx.runtime.run_clock import RunClock
from mindx.runtime.scheduler import ScheduledAction

_LOG = logging.getLogger("mindx.runtime.judging")


@dataclass(frozen=True, slots=True)
class Judged:
    """One Action after judging: `ready` to run, or with the Observation of why not.

    `by_policy` is True when the policy refused it. `note` is what a person added, for the model.
    """

    request: ActionRequest
    ready: ScheduledAction | None = None
    observation: Observation | None = None
    by_policy: bool = False
    note: str = ""


class Judging:
    """Judges batches for one run. `pending_id` is the Action that a person is asked about, or ""."""

    def __init__(
        self,
        policy: PolicyEngine,
        approvals: ApprovalDesk,
        context: AgentContext,
        stream: EventStream,
        clock: RunClock,
    ) -> None:
        self.pending_id = ""
        self._policy = policy
        self._approvals = approvals
        self._context = context
        self._stream = stream
        self._clock = clock

    async def judge(self, batch: ActionBatch, need_approval: Callable[[], Awaitable[None]]) -> list[Judged]:
        """Return one Judged for each Action, in order; `need_approval` is called before a person is asked."""
        validations = [(request, await self._validate(request)) for request in batch]
        judged = []
        for request, validation in validations:
            if validation.decision is not ValidationDecision.ASK:
                judged.append(_settled(request, validation))
            elif self._approvals.remembered(validation.approval_key):
                judged.append(_ready(request, validation, approved=True))
            elif self._approvals.handler is None:
                judged.append(_unavailable(request, validation))
            else:
                await need_approval()
                judged.append(await self._asked(request, validation))
        return judged

    async def _validate(self, request: ActionRequest) -> ActionValidation:
        try:
            validation = self._policy.validate(request, self._context)
        except Exception as error:  # noqa: BLE001 - what cannot be judged is refused
            _LOG.exception("the policy failed on %s", request.action_id)
            reason = f"it could not be judged ({type(error).__name__})"
            validation = ActionValidation(request.action_id, ValidationDecision.DENY, rule="policy", reason=reason)
        if self._stream.heard:
            payload = {"action_id": request.action_id, "decision": validation.decision.value}
            payload |= {"risk": validation.risk.value, "rule": validation.rule, "reason": validation.reason}
            await self._stream.emit(AgentEventType.ACTION_VALIDATED, payload)
        return validation

    async def _asked(self, request: ActionRequest, validation: ActionValidation) -> Judged:
        context = self._context
        asked = ApprovalRequest(
            request, validation.risk, validation.reason, validation.approval_key, context.run_id, context.session_id
        )
        told = {"action_id": request.action_id, "key": asked.key, "risk": asked.risk.value, "reason": asked.reason}
        await self._stream.emit(AgentEventType.APPROVAL_REQUESTED, told)
        self.pending_id = request.action_id
        try:
            with self._clock.paused():
                answer = await self._approvals.ask(asked)
        except Exception:  # noqa: BLE001 - no answer is no yes
            _LOG.exception("the approval handler failed on %s", request.action_id)
            return _unavailable(request, validation)
        finally:
            self.pending_id = ""
        payload = {"approved": answer.approved, "scope": answer.scope.value, "feedback": answer.feedback}
        await self._stream.emit(AgentEventType.APPROVAL_RECEIVED, {"action_id": request.action_id, **payload})
        if not answer.approved:
            return _rejected(request, answer)
        return await self._approved(request, validation, answer)

    async def _approved(self, request: ActionRequest, validation: ActionValidation, answer: ApprovalResult) -> Judged:
        note = f"a person approved it and said: {answer.feedback}" if answer.feedback else ""
        if answer.modified_arguments is not None and answer.modified_arguments != request.arguments:
            request = dataclasses.replace(request, arguments=dict(answer.modified_arguments))
            validation = await self._validate(request)
            if validation.decision in (ValidationDecision.DENY, ValidationDecision.INVALID):
                return _settled(request, validation)
            changed = f"a person changed the arguments to {request.to_dict()['arguments']}"
            note = f"{changed}; {note}" if note else changed
        elif request.digest != validation.approval_key:  # somebody holds the same dict, and changed it meanwhile
            return _rejected(request, ApprovalResult(False, "the arguments changed while a person decided"))
        self._approvals.remember(answer, request)
        return dataclasses.replace(_ready(request, validation, approved=True), note=note)


def _ready(request: ActionRequest, validation: ActionValidation, *, approved: bool = False) -> Judged:
    return Judged(request, ScheduledAction(request, validation.risk, validation.concurrency_key, approved))


def _settled(request: ActionRequest, validation: ActionValidation) -> Judged:
    if validation.allowed:
        return _ready(request, validation)
    if validation.decision is ValidationDecision.INVALID:
        observation = failed(request, validation.reason, validation.code, phase=ErrorPhase.POLICY)
        return Judged(request, observation=observation)
    details = {"rule": validation.rule, "risk": validation.risk.value}
    message = f"denied by {validation.rule}: {validation.reason}" if validation.rule else validation.reason
    error = AgentError(ErrorCode.ACTION_REJECTED, message, ErrorPhase.POLICY, True, details)
    return Judged(request, observation=refused(request, error), by_policy=True)


def _unavailable(request: ActionRequest, validation: ActionValidation) -> Judged:
    message = f"it needs a person's yes and nobody can give it here: {validation.reason}"
    details = {"rule": validation.rule, "risk": validation.risk.value}
    error = AgentError(ErrorCode.HUMAN_APPROVAL_UNAVAILABLE, message, ErrorPhase.APPROVAL, True, details)
    return Judged(request, observation=refused(request, error))


def _rejected(request: ActionRequest, answer: ApprovalResult) -> Judged:
    message = f"a person said no: {answer.feedback}" if answer.feedback else "a person said no"
    error = AgentError(
        ErrorCode.HUMAN_APPROVAL_REJECTED, message, ErrorPhase.APPROVAL, True, {"feedback": answer.feedback}
    )
    return Judged(request, observation=refused(request, error))
