"""The scheduler: what only reads runs side by side, all else alone; one Observation each, in the order asked."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from mindx.core.action import ActionRequest, ActionRisk, ExecutionMode
from mindx.core.agent_context import AgentContext
from mindx.core.agent_error import ErrorCode
from mindx.core.observation import Observation, Status
from mindx.errors import MindxError
from mindx.runtime.consent import consent
from mindx.runtime.dispatcher import ActionDispatcher, failed
from mindx.runtime.reaping import OverdueError, Reaper


@dataclass(frozen=True, slots=True)
class ScheduledAction:
    """An Action that may run, with the risk and the key that were computed for it.

    `approved` is True when a person said yes to its exact arguments.
    """

    request: ActionRequest
    risk: ActionRisk
    concurrency_key: str | None = None
    approved: bool = False


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Seconds for one Action and for the batch, and how many may run at once; infinity means no limit."""

    action_timeout_s: float = math.inf
    batch_timeout_s: float = math.inf
    parallel: int = 1


class ActionListener(Protocol):
    """Is told when an Action begins and when it has ended."""

    async def started(self, action: ScheduledAction) -> None:
        """It is about to run."""
        ...

    async def finished(self, action: ScheduledAction, observation: Observation) -> None:
        """It has run, or was ended."""
        ...


def groups(actions: Sequence[ScheduledAction], parallel: int, mode: ExecutionMode) -> list[list[ScheduledAction]]:
    """Return the actions in groups that run one after the other; the members of a group may run at once.

    Only consecutive READ_ONLY Actions with different keys share a group; one without a key uses no resource.
    """
    found: list[list[ScheduledAction]] = []
    keys: set[str] = set()
    may_share = parallel > 1 and mode is not ExecutionMode.SEQUENTIAL
    for action in actions:
        key = action.concurrency_key
        joins = (
            may_share
            and bool(found)
            and action.risk is ActionRisk.READ_ONLY
            and found[-1][-1].risk is ActionRisk.READ_ONLY
            and key not in keys
        )
        if joins:
            found[-1].append(action)
        else:
            found.append([action])
            keys = set()
        if key is not None:
            keys.add(key)
    return found


class ActionScheduler:
    """Runs the Actions of a batch through the dispatcher. `clock` gives seconds."""

    def __init__(
        self,
        dispatcher: ActionDispatcher,
        reaper: Reaper | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dispatcher = dispatcher
        self._reaper = reaper or Reaper()
        self._clock = clock

    async def run(
        self,
        actions: Sequence[ScheduledAction],
        context: AgentContext,
        limits: BatchLimits,
        listener: ActionListener,
        mode: ExecutionMode = ExecutionMode.AUTO,
    ) -> tuple[Observation, ...]:
        """Return one Observation for each Action, in order.

        What the batch's time does not reach gets a batch_timeout Observation. Raises SandboxError when the sandbox
        broke and CancelledError when the caller gave up: then everything that ran has ended, and the listener has had
        an Observation for each Action.
        """
        batch = _Batch(self._dispatcher, self._reaper, self._clock, context, limits, listener)
        try:
            for group in groups(actions, limits.parallel, mode):
                await batch.group(group)
        except BaseException as error:
            await batch.fill(actions, error)
            raise
        return tuple(batch.seen[action.request.action_id] for action in actions)


class _Batch:
    def __init__(
        self,
        dispatcher: ActionDispatcher,
        reaper: Reaper,
        clock: Callable[[], float],
        context: AgentContext,
        limits: BatchLimits,
        listener: ActionListener,
    ) -> None:
        self.seen: dict[str, Observation] = {}
        self._dispatcher = dispatcher
        self._reaper = reaper
        self._clock = clock
        self._context = context
        self._limits = limits
        self._listener = listener
        self._until = clock() + limits.batch_timeout_s
        self._begun: set[str] = set()

    async def group(self, group: Sequence[ScheduledAction]) -> None:
        if len(group) == 1:
            await self._one(group[0])
            return
        turn = asyncio.Semaphore(self._limits.parallel)

        async def in_turn(action: ScheduledAction) -> None:
            async with turn:
                await self._one(action)

        tasks = [asyncio.create_task(in_turn(action), name=action.request.action_id) for action in group]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            await self._reaper.reap(tasks)
            broken = [task.exception() for task in tasks if task.done() and not task.cancelled()]
        for error in broken:
            if error is not None:
                raise error

    async def fill(self, actions: Sequence[ScheduledAction], error: BaseException) -> None:
        """Give what has no Observation yet the one that the batch's end means for it."""
        for action in actions:
            name = action.request.action_id
            if name in self.seen:
                continue
            if not isinstance(error, asyncio.CancelledError) and name in self._begun:
                observation = failed(action.request, str(error), recoverable=False)
            elif isinstance(error, asyncio.CancelledError):
                observation = _cancelled(action.request, name in self._begun)
            else:
                observation = failed(action.request, "not reached: the run broke before", status=Status.SKIPPED)
            with suppress(MindxError):  # the log itself may be what broke
                await self._keep(action, observation)

    async def _one(self, action: ScheduledAction) -> None:
        request = action.request
        limit_s, code = self._limit(request)
        if limit_s <= 0:
            await self._keep(
                action, _timed_out(request, ErrorCode.BATCH_TIMEOUT, "the batch's time was up before it ran")
            )
            return
        self._begun.add(request.action_id)
        await self._listener.started(action)
        work = self._execute(action)
        if limit_s == math.inf:
            await self._keep(action, await work)
            return
        try:
            observation = await self._reaper.within(work, limit_s, request.action_id)
        except OverdueError:
            text = f"it did not end within {limit_s:.3g} s and was stopped; what it had done by then is not known"
            observation = _timed_out(request, code, text, began=True)
        await self._keep(action, observation)

    async def _execute(self, action: ScheduledAction) -> Observation:
        with consent(action.request.action_id if action.approved else ""):
            return await self._dispatcher.execute(action.request, self._context)

    def _limit(self, request: ActionRequest) -> tuple[float, ErrorCode]:
        own = self._limits.action_timeout_s if request.timeout_s is None else request.timeout_s
        own = min(own, self._limits.action_timeout_s)
        left = self._until - self._clock()
        return (own, ErrorCode.ACTION_TIMEOUT) if own <= left else (left, ErrorCode.BATCH_TIMEOUT)

    async def _keep(self, action: ScheduledAction, observation: Observation) -> None:
        self.seen[action.request.action_id] = observation
        await self._listener.finished(action, observation)


def _timed_out(request: ActionRequest, code: ErrorCode, message: str, *, began: bool = False) -> Observation:
    return failed(request, message, code, details={"began": began})


def _cancelled(request: ActionRequest, began: bool) -> Observation:
    text = "cancelled while it ran" if began else "cancelled before it ran"
    return failed(request, text, ErrorCode.ACTION_CANCELLED, status=Status.CANCELLED, details={"began": began})
