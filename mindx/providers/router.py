"""Which of several endpoints answers: the first that can do what is asked, and the next one when it fails."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from types import TracebackType

from typing_extensions import Self

from mindx.core.message import ChatMessage
from mindx.errors import ProviderError
from mindx.providers.base import (
    BaseProvider,
    ModelCapabilityRequest,
    ModelRequest,
    ProviderResponse,
    ProviderStreamChunk,
)
from mindx.providers.failures import provider_error

# What the next endpoint would refuse as well, for it is about the request.
_ABOUT_THE_REQUEST = frozenset(
    {"provider_bad_request", "provider_context_too_long", "provider_content_filtered", "script_exhausted"}
)


class ProviderRouter:
    """Routes each request by capability, in the order of `providers`; with `fallback` the next one is tried.

    Raises ProviderError (provider_no_match) when none fits; when all fail, the first failure, whose details tell the
    others (`also_failed`).
    """

    def __init__(self, providers: Iterable[BaseProvider], *, fallback: bool = True) -> None:
        self.providers: tuple[BaseProvider, ...] = tuple(providers)
        self.fallback = fallback

    def select(self, needs: ModelCapabilityRequest) -> list[BaseProvider]:
        """Return those that fit, in order. Raises ProviderError (provider_no_match)."""
        fitting = [provider for provider in self.providers if not self._lacking(provider, needs)]
        if fitting:
            return fitting
        tried = {f"{index}:{item.name}": self._lacking(item, needs) for index, item in enumerate(self.providers)}
        told = "; ".join(f"{name.split(':', 1)[1]} lacks {', '.join(lacking)}" for name, lacking in tried.items())
        raise provider_error("provider_no_match", told or "no provider is set up", lacking=tried)

    @staticmethod
    def _lacking(provider: BaseProvider, needs: ModelCapabilityRequest) -> list[str]:
        lacking = needs.missing(provider.capabilities)
        if needs.model and provider.models and needs.model not in provider.models:
            lacking.append(f"the model {needs.model}")
        return lacking

    async def generate(self, request: ModelRequest, needs: ModelCapabilityRequest | None = None) -> ProviderResponse:
        """Return the whole answer; `needs` None means what the request shows. Raises ProviderError."""
        failures: list[ProviderError] = []
        for provider in self.select(needs or request.needs):
            try:
                return await provider.generate(request)
            except ProviderError as error:
                self._note(failures, error)
        raise _first(failures)

    async def stream(
        self, request: ModelRequest, needs: ModelCapabilityRequest | None = None
    ) -> AsyncGenerator[ProviderStreamChunk, None]:
        """Yield the answer in pieces; once a piece is out, a failure is final. Raises ProviderError."""
        failures: list[ProviderError] = []
        for provider in self.select(needs or request.needs):
            begun = False
            try:
                async with aclosing(provider.stream(request)) as chunks:
                    async for chunk in chunks:
                        begun = True
                        yield chunk
                return
            except ProviderError as error:
                if begun:
                    raise
                self._note(failures, error)
        raise _first(failures)

    async def ask(
        self, prompt: str, images: Sequence[str] = (), *, system: str = "", model: str = "", api: str = ""
    ) -> ProviderResponse:
        """Ask one question, about images (http(s) or data URLs) if there are any. Raises ProviderError."""
        head = (ChatMessage.system(system),) if system else ()
        return await self.generate(ModelRequest((*head, ChatMessage.user(prompt, tuple(images))), model=model, api=api))

    def _note(self, failures: list[ProviderError], error: ProviderError) -> None:
        if not self.fallback or error.code in _ABOUT_THE_REQUEST:
            raise error
        failures.append(error)

    async def close(self) -> None:
        """Close all providers, whatever one of them raises."""
        failures: list[Exception] = []
        for provider in self.providers:
            try:
                await provider.close()
            except Exception as error:  # noqa: BLE001 - the others are closed first
                failures.append(error)
        if failures:
            raise failures[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _first(failures: list[ProviderError]) -> ProviderError:
    first, *others = failures
    if others:
        first.details["also_failed"] = [f"{error.code}: {error.message}" for error in others]
    return first
