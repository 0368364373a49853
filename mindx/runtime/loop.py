"""The one loop: THINK, VALIDATE, (approval), EXECUTE, OBSERVE, UPDATE, until the Reasoner is done or a limit is there.

A fixed plan, a model and an agent with goals are Reasoners to it; there is no second way in.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mindx.core.action import ActionBatch, ActionRequest, ActionRisk
from mindx.core.agent_context import AgentContext
from mindx.core.agent_event import AgentEventType
from mindx.core.agent_state import AgentState, AgentStateMachine
from mindx.core.decision import AgentDecision, CompletionClaim, DecisionKind, UserInputRequest
from mindx.core.message import ChatMessage
from mindx.core.observation import Observation, ObservationBatch
from mindx.core.protocols import CompletionGate, ContextManager, PolicyEngine, Reasoner
from mindx.errors import ContextOverflowError, InputError, ProviderError
from mindx.runtime.action_log import NO_LOG, ActionLog
from mindx.runtime.approval import ApprovalDesk
from mindx.runtime.batch_listener import BatchListener
from mindx.runtime.completion import DefaultCompletionGate
from mindx.runtime.dispatcher import ActionDispatcher
from mindx.runtime.event_stream import EventStream
from mindx.runtime.judging import Judged, Judging
from mindx.runtime.kept import KeptObservations
from mindx.runtime.limits import MaxStepsError, RunTimeoutError, StepTimeoutError
from mindx.runtime.policy_engine import DefaultPolicyEngine
from mindx.runtime.reaping import OverdueError, Reaper
from mindx.runtime.run_clock import RunClock
from mindx.runtime.scheduler import ActionScheduler, BatchLimits

__all__ = ["LoopParts", "ReActLoop", "Step"]

T = TypeVar("T")
MAX_INVALID_DECISIONS = 3
CONTEXT_TOO_LONG = "provider_context_too_long"
NO_ANSWER = "(the user gave no answer)"  # what a person's silence is told as
NOBODY = "nobody is there to answer; decide by yourself, or end with what is known"


@dataclass(frozen=True, slots=True)
class Step:
    """One Action and its Observation."""

    request: ActionRequest
    observation: Observation
    risk: ActionRisk = ActionRisk.READ_ONLY


@dataclass(slots=True)
class LoopParts:
    """What a loop is made of. Without a `policy` the dispatcher's own knowledge of risk decides.

    `keeps_evidence` False saves the time for evidence where nothing will ever cite it (a plan's run). `keeps_output`
    False keeps of each Observation only its status, once it was told of: for plans, whose results lie in a spool.
    """

    reasoner: Reasoner
    dispatcher: ActionDispatcher
    policy: PolicyEngine | None = None
    context_manager: ContextManager | None = None
    gate: CompletionGate = field(default_factory=DefaultCompletionGate)
    approvals: ApprovalDesk = field(default_factory=lambda: ApprovalDesk(None))
    reaper: Reaper = field(default_factory=Reaper)
    clock: Callable[[], float] = time.monotonic
    keeps_evidence: bool = True
    keeps_output: bool = True


class ReActLoop:
    """One run of the loop over one AgentContext, used once.

    `steps` holds all that was done so far, also after an exception. `log` is told of Actions as they are asked for,
    begin and end. `state` and the two `pending_` fields say where it stands.
    """

    def __init__(
        self, parts: LoopParts, context: AgentContext, stream: EventStream | None = None, log: ActionLog = NO_LOG
    ) -> None:
        self.context = context
        self.steps: list[Step] = []
        self._kept = KeptObservations()
        self.pending_user_input: UserInputRequest | None = None
        self._parts = parts
        self._config = context.config
        self._stream = stream or EventStream(context.run_id)
        self._log = log
        self._machine = AgentStateMachine()
        self._clock = RunClock(self._config.total_timeout_s, parts.clock)
        self._step_left_s = self._config.step_timeout_s
        self._answer: asyncio.Future[str] | None = None
        self._action_ids: set[str] = set()
        self._invalid = 0
        policy = parts.policy or DefaultPolicyEngine(parts.dispatcher)
        self._judging = Judging(policy, parts.approvals, context, self._stream, self._clock)
        self._scheduler = ActionScheduler(parts.dispatcher, parts.reaper, parts.clock)
        context.emit = self._stream.emit

    @property
    def state(self) -> AgentState:
        """Where the run stands."""
        return self._machine.state

    @property
    def pending_approval_id(self) -> str:
        """The Action that a person is asked about, or ""."""
        return self._judging.pending_id

    @property
    def worked_s(self) -> float:
        """Seconds of work, without the time that people took."""
        return self._clock.worked_s

    def respond(self, text: str) -> bool:
        """Give the user's answer; return False when nobody waits for one."""
        if self._answer is None or self._answer.done():
            return False
        self._answer.set_result(text)
        self.pending_user_input = None
        return True

    async def run(self) -> str:
        """Walk to the end; return the Reasoner's final answer.

        Raises LimitReachedError (PARTIAL), SandboxError and other MindxErrors, and CancelledError; every Action that
        was asked for then has its Observation all the same. The state is left for `end` to move.
        """
        await self._move(AgentState.CONTEXT_BUILDING)
        if self._parts.context_manager is not None:
            await self._within_step(self._parts.context_manager.begin(self.context))
        for text in self.context.opening:
            await self._tell(text, None)
        await self._move(AgentState.THINKING)
        while True:
            if self.context.step >= self._config.max_steps:
                raise MaxStepsError(self._config.max_steps)
            self.context.step += 1
            self._stream.step = self.context.step
            self._step_left_s = self._config.step_timeout_s
            decision = await self._think()
            if decision is None:
                continue
            if await self._follow(decision):
                if decision.text:
                    await self._say(ChatMessage.assistant(decision.text))
                return decision.text

    async def end(self, state: AgentState) -> None:
        """Move to a terminal state."""
        await self._move(state)

    async def _think(self) -> AgentDecision | None:
        """Return the next decision, or None when it was none: the Reasoner has then been told so."""
        await self._compile()
        problem = ""
        try:
            decision = await self._decide()
        except InputError as error:
            if error.code not in ("decision_invalid", "batch_invalid"):
                raise
            problem = error.message
        else:
            problem = self._fault(decision)
            if not problem:
                self._invalid = 0
                await self._take(decision)
                return decision
        self._invalid += 1
        if self._invalid >= MAX_INVALID_DECISIONS:
            raise InputError("decision_invalid", f"{MAX_INVALID_DECISIONS} decisions in a row were invalid: {problem}")
        await self._tell(f"That was no valid decision: {problem}.", None)
        return None

    async def _compile(self) -> None:
        """Make the messages of this step, as far as there is a ContextManager."""
        context, manager = self.context, self._parts.context_manager
        if manager is not None:
            tools = getattr(self._parts.reasoner, "tools", ())
            context.view = await self._within_step(manager.compile(context, tools))
            if context.view.packed is not None:
                await self._stream.emit(AgentEventType.CONTEXT_PACKED, context.view.packed)

    async def _decide(self) -> AgentDecision:
        """Ask the Reasoner; once more, with less of what came before, when its model says that it was too much."""
        reasoner, context = self._parts.reasoner, self.context
        shrink = getattr(self._parts.context_manager, "shrink", None)
        try:
            return await self._within_step(reasoner.decide(context))
        except ProviderError as error:
            if error.code != CONTEXT_TOO_LONG or shrink is None:
                raise
            shrink(context)
            try:
                await self._compile()
            except ContextOverflowError:
                raise error from None  # there is nothing that could be left out
        return await self._within_step(reasoner.decide(context))

    def _fault(self, decision: object) -> str:
        if not isinstance(decision, AgentDecision):
            return f"a Reasoner answers an AgentDecision, not {type(decision).__name__}"
        for request in decision.batch or ():
            if not isinstance(request, ActionRequest) or not _sound(request):
                return "every action is an ActionRequest with an action_id, a name and a mapping of arguments"
            if request.action_id in self._action_ids:
                return f"the action_id {request.action_id} was used before in this run"
        return ""

    async def _take(self, decision: AgentDecision) -> None:
        """Record a valid decision."""
        context = self.context
        context.observations = ()
        context.feedback.clear()
        for name, count in decision.usage.items():
            if isinstance(count, int):
                context.usage[name] = context.usage.get(name, 0) + count
        self._action_ids.update(request.action_id for request in decision.batch or ())
        if self._stream.heard:
            payload = {"kind": decision.kind.value, "text": decision.text, "usage": dict(decision.usage)}
            actions = [request.to_dict() for request in decision.batch or ()]
            await self._stream.emit(AgentEventType.DECISION_CREATED, {**payload, "actions": actions})
        if self._parts.context_manager is not None:
            await self._within_step(self._parts.context_manager.add_decision(context, decision))

    async def _follow(self, decision: AgentDecision) -> bool:
        """Do what was decided; return True when that was the end."""
        if decision.batch is not None:
            await self._act(decision, decision.batch)
        elif decision.kind is DecisionKind.ASK_USER:
            assert decision.question is not None
            await self._ask(decision.question, decision)
        else:
            accepted = await self._check(decision.claim, decision)
            return accepted and decision.kind is DecisionKind.COMPLETE
        return False

    async def _act(self, decision: AgentDecision, batch: ActionBatch) -> None:
        await self._move(AgentState.ACTION_VALIDATING)
        await self._log.requested(batch)
        judged = await self._judging.judge(batch, self._need_approval)
        listener = BatchListener(self.context, self._log, self._stream)
        listener.verifies = decision.kind is DecisionKind.VERIFY
        listener.keeps_evidence = self._parts.keeps_evidence
        listener.notes = {item.request.action_id: item.note for item in judged if item.note}
        for item in judged:
            if item.observation is not None:
                await listener.settled(item.request, item.observation)
        failure: BaseException | None = None
        ready = [item.ready for item in judged if item.ready is not None]
        if ready:
            await self._move(AgentState.ACTION_EXECUTING)
            try:
                await self._scheduler.run(ready, self.context, self._limits(), listener, batch.mode)
            except BaseException as error:  # noqa: BLE001 - raised again, once every Action has its Observation
                failure = error
        observed = tuple(self._keep(item, listener.seen[item.request.action_id]) for item in judged)
        if failure is not None:
            raise failure
        await self._observe(decision, ObservationBatch(batch.batch_id, observed))
        if self._clock.left_s <= 0:
            raise RunTimeoutError(self._config.total_timeout_s)
        await self._after(judged)

    async def _need_approval(self) -> None:
        if self.state is not AgentState.NEED_HUMAN_APPROVAL:
            await self._move(AgentState.NEED_HUMAN_APPROVAL)

    def _limits(self) -> BatchLimits:
        config, policy = self._config, self.context.policy
        parallel = config.max_parallel_actions if config.parallel else 1
        if policy is not None:
            parallel = min(parallel, policy.max_parallel_actions)
        batch_s = min(config.batch_timeout_s, self._clock.left_s)
        return BatchLimits(config.action_timeout_s, batch_s, parallel)

    def _keep(self, item: Judged, observation: Observation) -> Observation:
        """Make an Observation the run's own: its evidence and artifacts are known from now on."""
        context = self.context
        context.evidence.update((evidence.evidence_id, evidence) for evidence in observation.evidence)
        context.artifact_refs.update((artifact.artifact_id, artifact) for artifact in observation.artifacts)
        risk = ActionRisk.READ_ONLY if item.ready is None else item.ready.risk
        bare = Observation(observation.action_id, observation.status)
        kept = self._kept.keep(observation) if self._parts.keeps_output else bare
        self.steps.append(Step(item.request, kept, risk))
        return observation

    async def _observe(self, decision: AgentDecision, batch: ObservationBatch) -> None:
        await self._move(AgentState.OBSERVING)
        if self._stream.heard:
            for observation in batch:
                await self._stream.emit(AgentEventType.OBSERVATION_CREATED, observation.to_dict())
        await self._move(AgentState.CONTEXT_UPDATING)
        self.context.observations = batch.observations
        if self._parts.context_manager is not None:
            await self._within_step(self._parts.context_manager.add_observations(self.context, decision, batch))

    async def _after(self, judged: Sequence[Judged]) -> None:
        """Think on; but when the policy refused all of it, the user says how to go on."""
        if self._config.interactive and all(item.by_policy for item in judged):
            reasons = "; ".join(item.observation.message for item in judged if item.observation is not None)
            await self._wait_for_user(UserInputRequest(f"{reasons}. How shall I go on?", reason="policy"), None)
        else:
            await self._move(AgentState.THINKING)

    async def _ask(self, question: UserInputRequest, decision: AgentDecision) -> None:
        if not self._config.interactive:
            await self._tell(NOBODY, decision)
            return
        await self._say(ChatMessage.assistant(question.question))
        await self._wait_for_user(question, decision)

    async def _wait_for_user(self, question: UserInputRequest, decision: AgentDecision | None) -> None:
        self._answer = asyncio.get_running_loop().create_future()
        self.pending_user_input = question
        try:
            await self._move(AgentState.WAITING_FOR_USER)
            await self._stream.emit(AgentEventType.USER_INPUT_REQUESTED, question.to_dict())
            with self._clock.paused():
                answer = await self._answer
        finally:
            self.pending_user_input = self._answer = None
        await self._stream.emit(AgentEventType.USER_INPUT_RECEIVED, {"text": answer})
        await self._say(ChatMessage.user(answer))
        await self._tell(answer, decision)
        await self._move(AgentState.THINKING)

    async def _check(self, claim: CompletionClaim | None, decision: AgentDecision) -> bool:
        """Have the gate look at a claim; what it misses, or a mere verification's result, goes to the Reasoner."""
        found = await self._within_step(self._parts.gate.check(claim, decision.text, self.context))
        kind = AgentEventType.COMPLETION_ACCEPTED if found.accepted else AgentEventType.COMPLETION_REJECTED
        await self._stream.emit(kind, {"problems": list(found.problems)})
        if not found.accepted:
            text = "The work is not complete yet: " + "; ".join(found.problems) + "."
            await self._tell(text, decision)
        elif decision.kind is DecisionKind.VERIFY:
            await self._tell("The claim holds.", decision)
        return found.accepted

    async def _say(self, message: ChatMessage) -> None:
        self.context.messages.append(message)
        await self._log.said(message)

    async def _tell(self, text: str, answers: AgentDecision | None) -> None:
        """Tell the Reasoner something that is no Observation."""
        self.context.feedback.append(text)
        if self._parts.context_manager is not None:
            message = ChatMessage.user(text)
            await self._within_step(self._parts.context_manager.add_message(self.context, message, answers=answers))

    async def _within_step(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns, within what is left of the step's time and of the run's."""
        limit_s = min(self._step_left_s, self._clock.left_s)
        if limit_s == math.inf:
            return await work
        began = self._parts.clock()
        try:
            return await self._parts.reaper.within(work, limit_s, f"step {self.context.step} of {self.context.run_id}")
        except OverdueError:
            if self._clock.left_s <= 0:
                raise RunTimeoutError(self._config.total_timeout_s) from None
            raise StepTimeoutError(self._config.step_timeout_s) from None
        finally:
            self._step_left_s -= self._parts.clock() - began

    async def _move(self, state: AgentState) -> None:
        before = self._machine.state
        self._machine.move(state)
        if self._stream.heard:
            await self._stream.emit(AgentEventType.STATE_CHANGED, {"from": before.value, "to": state.value})


def _sound(request: ActionRequest) -> bool:
    named = isinstance(request.action_id, str) and bool(request.action_id) and isinstance(request.name, str)
    return named and isinstance(request.arguments, Mapping)
