"""Work that a cancellation must not tear: it runs to its end, then the cancellation goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` wholly, whatever cancels the caller meanwhile, and only then raise CancelledError.

    anyio's shield alone holds off anyio's own scopes, not `Task.cancel`: a thread that makes a container would go on
    with nobody left to take it.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # the cancellation is what the caller hears of
        raise cancelled
    return task.result()
