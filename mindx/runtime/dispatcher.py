"""The dispatcher: each Action gives exactly one Observation, whatever its tool does."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Protocol

from mindx.core.observation import Observation, Status
from mindx.core.plan import Action
from mindx.errors import DeniedError, MindxError, SandboxError


class ActionHandler(Protocol):
    """What turns Actions into Observations: the tools."""

    async def execute(self, action: Action) -> Observation:
        """Do one Action. A failure is an Observation; a broken sandbox is a SandboxError."""
        ...


class Dispatcher:
    """Sends an Action to its tool and answers for the outcome.

    `on_bug` is told of an exception that no tool should raise: its text stays out of the Observation, since a
    plan's author reads that. `clock` gives seconds.
    """

    def __init__(
        self,
        handler: ActionHandler,
        on_bug: Callable[[Action, Exception], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._handler = handler
        self._on_bug = on_bug or (lambda action, error: None)
        self._clock = clock

    async def dispatch(self, action: Action) -> Observation:
        """Return the Action's one Observation. Raises SandboxError when the sandbox broke, and CancelledError."""
        began = self._clock()
        observation = await self._observe(action)
        taken = observation.duration_s or self._clock() - began
        return dataclasses.replace(observation, action_id=action.action_id, duration_s=taken)

    async def _observe(self, action: Action) -> Observation:
        name = action.action_id
        try:
            observation = await self._handler.execute(action)
        except SandboxError:
            raise
        except DeniedError as error:
            return Observation(name, Status.DENIED, error.message, {"status": "ERROR", "message": error.message})
        except MindxError as error:
            return Observation(name, Status.ERROR, error.message, {"status": "ERROR", "message": error.message})
        except Exception as error:  # noqa: BLE001 - a bug of a tool ends its step, never the run's record
            self._on_bug(action, error)
            message = "mindx made a mistake here; the run's folder has the details"
            return Observation(name, Status.ERROR, message, {"status": "ERROR", "message": message})
        if not isinstance(observation, Observation):
            self._on_bug(action, TypeError(f"the tool answered {type(observation).__name__}, not an Observation"))
            return Observation(name, Status.ERROR, "the tool gave no result")
        return observation
