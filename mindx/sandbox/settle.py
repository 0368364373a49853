"""Work that a cancellation must not tear: it runs to its end, then the cancellation goes on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` wholly, whatever cancels the caller meanwhile, and only then raise CancelledError.

    anyio's shield alone holds off anyio's own scopes, not `Task.cancel`: a thread that makes a container would go on
    with nobody left to take it.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    with _shield():
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


async def all_to_the_end(*works: Coroutine[Any, Any, Any]) -> list[Any]:
    """Do all at once and each to its end; return what they give, or raise the first error there was."""
    done = await asyncio.gather(*works, return_exceptions=True)
    for one in done:
        if isinstance(one, BaseException):
            raise one
    return done


def _shield() -> AbstractContextManager[object]:
    """Hold off anyio's scopes, if there can be any: a command that does without anyio does not load it (20 ms)."""
    if "anyio" not in sys.modules:
        return nullcontext()
    import anyio

    return anyio.CancelScope(shield=True)
