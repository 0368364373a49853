"""An HTTP body that breaks off at a limit; imported only with the packages `openai` or `mcp`, whose client it fits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import httpx2


class CappedStream(httpx2.AsyncByteStream):
    """Passes on what `stream` yields; after `limit` bytes it raises what `too_large` makes."""

    def __init__(self, stream: Any, limit: int, too_large: Callable[[], Exception]) -> None:
        self._stream = stream
        self._limit = limit
        self._too_large = too_large

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
                    raise self._too_large()
                yield piece
        finally:
            await pieces.aclose()

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._stream.aclose()
