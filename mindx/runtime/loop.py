"""The loop: asks a Reasoner what to do, has it done, and tells the Reasoner what became of it.

A fixed plan, and later every agent, is a Reasoner to this one loop; there is no second way in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Union

from mindx.core.observation import Observation, Status
from mindx.core.plan import Action, Plan
from mindx.runtime.dispatcher import Dispatcher


@dataclass(frozen=True, slots=True)
class Act:
    """Do these, in this order."""

    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """There is nothing more to do; `reason` is a sentence for people, or ""."""

    reason: str = ""


Decision = Union[Act, Finish]  # noqa: UP007 - an alias that Python 3.10 evaluates


class Reasoner(Protocol):
    """Decides the next step."""

    async def decide(self, observations: Sequence[Observation]) -> Decision:
        """Return what to do next. `observations` are those of the last decision's actions, none at first."""
        ...


class FixedPlan:
    """The Reasoner that does what a Plan says, action by action.

    A step that does not succeed ends it, unless `keep_going`.
    """

    def __init__(self, plan: Plan, *, keep_going: bool = False) -> None:
        self._actions = iter(plan.actions)
        self._keep_going = keep_going

    async def decide(self, observations: Sequence[Observation]) -> Decision:
        """Return the next action of the plan, or Finish."""
        failed = next((seen for seen in observations if seen.status is not Status.SUCCESS), None)
        if failed is not None and not self._keep_going:
            return Finish(f"{failed.action_id} ended with {failed.status.value}")
        following = next(self._actions, None)
        return Finish("the plan is done") if following is None else Act((following,))


@dataclass(frozen=True, slots=True)
class Step:
    """One Action and its Observation."""

    action: Action
    observation: Observation


StepListener = Callable[[Action, "Observation | None"], None]


class Loop:
    """Walks until the Reasoner finishes. `steps` holds all that was done so far, also after an exception.

    `on_step` is called before an action (with None) and after it (with its Observation).
    """

    def __init__(self, reasoner: Reasoner, dispatcher: Dispatcher, on_step: StepListener | None = None) -> None:
        self.steps: list[Step] = []
        self._reasoner = reasoner
        self._dispatcher = dispatcher
        self._on_step = on_step or (lambda action, observation: None)

    async def run(self) -> str:
        """Walk to the end; return the Reasoner's last word.

        Raises SandboxError when the sandbox breaks and CancelledError when the caller gives up; the action that was
        under way then has its step all the same, ERROR or CANCELLED.
        """
        seen: tuple[Observation, ...] = ()
        while True:
            decision = await self._reasoner.decide(seen)
            if isinstance(decision, Finish):
                return decision.reason
            seen = tuple([await self._do(action) for action in decision.actions])

    async def _do(self, action: Action) -> Observation:
        self._on_step(action, None)
        try:
            observation = await self._dispatcher.dispatch(action)
        except asyncio.CancelledError:
            self._keep(action, Observation(action.action_id, Status.CANCELLED, "cancelled while it ran"))
            raise
        except Exception as error:
            self._keep(action, Observation(action.action_id, Status.ERROR, str(error)))
            raise
        self._keep(action, observation)
        return observation

    def _keep(self, action: Action, observation: Observation) -> None:
        self.steps.append(Step(action, observation))
        self._on_step(action, observation)
