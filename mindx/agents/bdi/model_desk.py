"""The agent's way to its model: schemas where the endpoint takes them, a few tries, and every token counted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mindx.agents.answer import json_of
from mindx.core.message import ChatMessage
from mindx.errors import InputError, ProviderError
from mindx.providers.base import BaseProvider, ModelRequest
from mindx.providers.router import ProviderRouter

TRIES = 3
FIRST_DELAY_S = 1.0


class ModelDesk:
    """Asks the models of `router`. `spend` hears the tokens of each answer; `sleep` waits between two tries."""

    def __init__(
        self,
        router: BaseProvider | ProviderRouter,
        *,
        model: str = "",
        spend: Callable[[Mapping[str, int]], None],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.router = ProviderRouter([router]) if isinstance(router, BaseProvider) else router
        self._model = model
        self._spend = spend
        self._sleep = sleep
        self._schemas = any(provider.capabilities.json_schema for provider in self.router.providers)

    async def ask(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any] | None = None) -> str:
        """Return the text of the answer. Raises ProviderError when it fails for good."""
        tries = 0
        while True:
            sent = schema if self._schemas else None
            try:
                response = await self.router.generate(
                    ModelRequest(tuple(messages), model=self._model, response_schema=sent)
                )
            except ProviderError as error:
                tries += 1
                if sent is not None and error.code == "provider_bad_request":
                    self._schemas = False  # it says that it takes schemas, and does not take this one
                elif not error.recoverable or tries >= TRIES:
                    raise
                else:
                    await self._sleep(FIRST_DELAY_S * 2.0 ** (tries - 1))
                continue
            self._spend(response.usage)
            return response.text

    async def ask_json(self, system: str, question: str) -> Any:
        """Return the JSON of an answer, None when it is none. Raises ProviderError."""
        text = await self.ask([ChatMessage.system(system), ChatMessage.user(question)])
        try:
            return json_of(text)
        except InputError:
            return None

    async def close(self) -> None:
        """Close the models."""
        await self.router.close()
