"""Commands on their way to a session, which obeys one after the other; whoever sent one gets its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindx.core.agent_session import SessionCommand, SessionCommandType
from mindx.errors import InputError

MAX_COMMANDS = 100


@dataclass(frozen=True, slots=True)
class Letter:
    """One command, and where its answer goes."""

    command: SessionCommand
    answer: asyncio.Future[Any]

    def settle(self, error: Exception | None, value: Any = None) -> None:
        """Give the answer, unless the one who asked has gone."""
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(value)
        else:
            self.answer.set_exception(error)


class CommandInbox:
    """The commands of one session, in the order they came."""

    def __init__(self) -> None:
        self._letters: asyncio.Queue[Letter] = asyncio.Queue()

    def put(self, command_type: SessionCommandType, payload: Mapping[str, Any]) -> asyncio.Future[Any]:
        """Take in a command of a user and return its answer. Raises InputError (session_commands_full)."""
        if self._letters.qsize() >= MAX_COMMANDS:
            raise InputError("session_commands_full", f"{MAX_COMMANDS} commands wait already; wait for their answers")
        return self.put_own(command_type, payload)

    def put_own(self, command_type: SessionCommandType, payload: Mapping[str, Any]) -> asyncio.Future[Any]:
        """Take in a command of the session itself, however many wait."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._letters.put_nowait(Letter(SessionCommand(command_type, payload), answer))
        return answer

    async def get(self) -> Letter:
        """Wait for the next command."""
        return await self._letters.get()

    def rest(self) -> list[Letter]:
        """Return the commands that wait, and forget them."""
        return [self._letters.get_nowait() for _ in range(self._letters.qsize())]
