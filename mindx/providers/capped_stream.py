"""An HTTP body that breaks off at a limit. It is imported with the `openai` package only, whose HTTP client it fits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx2

from mindx.providers.failures import provider_error


class CappedStream(httpx2.AsyncByteStream):
    """Passes on what `stream` yields. Raises ProviderError (provider_answer_too_large) after `limit` bytes."""

    def __init__(self, stream: Any, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    @property
    def elapsed(self) -> timedelta | None:
        """The time that the client below has measured."""
        found: timedelta | None = self._stream.elapsed
        return found

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        pieces = self._stream.__aiter__()
        try:
            async for piece in pieces:
                size += len(piece)
                if size > self._limit:
                    raise provider_error("provider_answer_too_large", f"more than {self._limit:,} bytes")
                yield piece
        finally:
            await pieces.aclose()

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._stream.aclose()
