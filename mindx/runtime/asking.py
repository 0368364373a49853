"""Asking: the questions of one session to a person, one at a time, recorded, with the clocks stopped meanwhile."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mindx.core.action import ActionRequest
from mindx.core.agent_context import AgentContext
from mindx.core.command import Command
from mindx.core.observation import Observation
from mindx.core.protocols import ActionExecutor
from mindx.core.verdict import Verdict
from mindx.policy.approval import Approval, ApprovalRequest, Approvals, Approver, argv_of
from mindx.policy.engine import PolicyEngine
from mindx.runtime.run_clock import RunClock
from mindx.trace.recorder import Recorder

if TYPE_CHECKING:
    import anyio

_LOG = logging.getLogger("mindx.runtime.asking")


class Asking:
    """Decides what the policy asks about, by `approver`.

    `clock` tells the seconds without those that people took. `deadline` is the scope whose deadline moves on by as
    much, or None. `notes` says of each Command that was allowed by a yes how that came about. `now` gives seconds.
    """

    def __init__(
        self,
        engine: PolicyEngine,
        approver: Approver,
        recorder: Recorder | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = RunClock(math.inf, now)
        self.deadline: anyio.CancelScope | None = None
        self.notes: list[str] = []
        self._approver = approver
        self._approvals = Approvals(engine, self)
        self._recorder = recorder
        # Two questions at once could not be told apart, and the second may be answered by the first.
        self._turn = asyncio.Lock()

    async def decide(self, command: Command) -> tuple[Verdict, Command]:
        """Return the final Verdict, allow or deny, and the Command that it is about; see Approvals.decide."""
        async with self._turn:
            verdict, decided = await self._approvals.decide(command)
        changed = {} if decided is command else {"changed_to": argv_of(decided)}
        self._record(
            "approval_decided",
            argv=argv_of(command),
            decision=verdict.decision,
            rule=verdict.rule,
            reason=verdict.reason,
            **changed,
        )
        if verdict.allowed:
            told = f"; a person changed it to {list(argv_of(decided))}" if changed else ""
            self.notes.append(verdict.reason + told)
        return verdict, decided

    async def ask(self, request: ApprovalRequest) -> Approval:
        """Return the approver's answer; an approver that fails, or answers something else, has not said yes."""
        self._record(
            "approval_requested",
            digest=request.digest,
            argv=request.argv,
            cwd=request.cwd,
            risk=request.risk,
            rule=request.rule,
            reason=request.reason,
        )
        try:
            with self._stopped():
                answer = await self._approver.ask(request)
        except Exception as error:  # noqa: BLE001 - no answer is no yes
            _LOG.exception("the approver failed")
            answer = Approval("deny", f"whoever should be asked could not be ({type(error).__name__})")
        if not isinstance(answer, Approval) or answer.choice not in ("once", "session", "deny"):
            answer = Approval("deny", "the answer was neither a yes nor a no")
        self._record("approval_received", digest=request.digest, choice=answer.choice, feedback=answer.feedback)
        return answer

    @contextmanager
    def _stopped(self) -> Iterator[None]:
        scope = self.deadline
        left_s = math.inf
        if scope is not None:
            left_s, scope.deadline = scope.deadline - _loop_time(), math.inf
        try:
            with self.clock.paused():
                yield
        finally:
            if scope is not None:
                scope.deadline = _loop_time() + left_s

    def _record(self, kind: str, **data: Any) -> None:
        if self._recorder is not None:
            self._recorder.record(kind, **data)


def _loop_time() -> float:
    """Return the time by which anyio counts the deadlines of scopes."""
    return asyncio.get_running_loop().time()


class NotedExecutor:
    """Does what `inner` does, and adds to the Observation's message how its Commands came to be allowed."""

    def __init__(self, inner: ActionExecutor, asking: Asking) -> None:
        self._inner = inner
        self._asking = asking

    async def execute(self, request: ActionRequest, context: AgentContext) -> Observation:
        """Do one Action; a plan has them one after the other, so the new notes are its own."""
        before = len(self._asking.notes)
        observation = await self._inner.execute(request, context)
        notes = self._asking.notes[before:]
        if not notes:
            return observation
        return replace(observation, message="; ".join(filter(None, (observation.message, *notes))))
