"""What is told of every Action as it is asked for, begins and ends: the record of a plan's run, an agent's journal."""

from __future__ import annotations

from typing import Protocol

from mindx.core.action import ActionBatch, ActionRequest, ActionRisk
from mindx.core.message import ChatMessage
from mindx.core.observation import Observation


class ActionLog(Protocol):
    """Is told before each thing happens; a MindxError that it raises stops the run before that."""

    async def requested(self, batch: ActionBatch) -> None:
        """A batch was decided on."""
        ...

    async def started(self, request: ActionRequest, risk: ActionRisk) -> None:
        """An Action is about to run, with its final arguments."""
        ...

    async def finished(self, request: ActionRequest, observation: Observation) -> None:
        """An Action has its Observation, whether it ran or not."""
        ...

    async def said(self, message: ChatMessage) -> None:
        """The user or the Reasoner has said something."""
        ...


class NoLog:
    """Tells nobody."""

    async def requested(self, batch: ActionBatch) -> None:
        """Do nothing."""

    async def started(self, request: ActionRequest, risk: ActionRisk) -> None:
        """Do nothing."""

    async def finished(self, request: ActionRequest, observation: Observation) -> None:
        """Do nothing."""

    async def said(self, message: ChatMessage) -> None:
        """Do nothing."""


NO_LOG = NoLog()
