"""A pipe from a process that does not keep us when somebody else holds it open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def pipe() -> AsyncIterator[tuple[asyncio.StreamReader, int]]:
    """Give a pipe: its reader, and the writing end for the process, which the caller closes.

    asyncio's own pipes of a process would keep its `wait` from returning while anybody holds them open.
    """
    reading, writing = os.pipe()
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
    )
    try:
        yield reader, writing
    finally:
        transport.close()
