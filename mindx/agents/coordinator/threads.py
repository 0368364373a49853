"""Blocking calls that may hang for ever: each in a daemon thread of its own, which is left behind.

Not `asyncio.to_thread`: a hung call would keep one of its few threads, and a loop that ends waits for all of them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T], ended: Callable[[], None], name: str) -> T:
    """Return what `work` returns or raise what it raises, SystemExit and the like as RuntimeError.

    `ended` is called in the loop when the thread has ended, also long after the caller was cancelled.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        ended()
        if not answer.done():
            answer.set_result((value, error))

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except BaseException as raised:  # noqa: BLE001 - it is raised again where the call is awaited
            error = raised
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:  # the loop has ended: nobody waits any more
            return

    threading.Thread(target=run, name=name, daemon=True).start()
    value, error = await answer
    if error is None:
        result: T = value
        return result
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        raise error
    raise RuntimeError(type(error).__name__) from error
