"""The way to a server at an address: streamable HTTP by the official client, with a limit on what is read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from mindx.core.capped_stream import CappedStream
from mindx.tools.mcp.config import MCPServerConfig

MAX_EVENT_BYTES = 8 * 1024 * 1024
MAX_BODY_BYTES = 64 * 1024 * 1024  # of one answer, or of one stream of the server's own words


@asynccontextmanager
async def http_streams(config: MCPServerConfig) -> AsyncIterator[tuple[Any, Any]]:
    """Give the streams of the server at `config.url`. Redirects are followed on its own scheme, host and port only."""
    assert config.url is not None

    async def cap(response: httpx2.Response) -> None:
        # A few compressed kilobytes can hold gigabytes; none was asked for.
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise httpx2.DecodingError("the server sends a compressed answer", request=response.request)
        response.stream = CappedStream(response.stream, MAX_BODY_BYTES, too_large)

    def too_large() -> Exception:
        return httpx2.StreamError(f"the server sends more than {MAX_BODY_BYTES:,} bytes")

    client = httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", **config.headers},
        timeout=httpx2.Timeout(config.start_timeout_s, read=config.timeout_s),
        event_hooks={"response": [cap]},
    )
    async with (
        client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=MAX_EVENT_BYTES) as streams,
    ):
        yield streams
