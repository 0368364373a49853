"""A provider that somebody else owns: it is used like the owner's, and closing it closes nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from mindx.providers.base import BaseProvider, ModelRequest, ProviderResponse, ProviderStreamChunk


class BorrowedProvider(BaseProvider):
    """Passes everything on to `owner`, but for `close`: agents that share a model close what they were given."""

    def __init__(self, owner: BaseProvider) -> None:
        self._owner = owner
        self.name, self.models, self.capabilities = owner.name, owner.models, owner.capabilities

    async def generate(self, request: ModelRequest) -> ProviderResponse:
        """Return the owner's answer. Raises ProviderError."""
        return await self._owner.generate(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderStreamChunk, None]:
        """Yield the owner's answer in pieces. Raises ProviderError."""
        async for chunk in self._owner.stream(request):
            yield chunk
