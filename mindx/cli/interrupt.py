"""Asynchronous work that a signal ends: once cleanly, twice at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mindx.cli.errors import INTERRUPTED, say, tell
from mindx.cli.prose import colours

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _take_line_away() -> None:
    """Remove the line that shows what runs, with the `^C` that the terminal has put there; a plain one is left."""
    if sys.stderr is not None and sys.stderr.isatty():
        tell("\r\x1b[2K" if colours(sys.stderr) else "\n", nl=False)


def run_async(work: Callable[[], Coroutine[Any, Any, T]], on_ctrl_c: Callable[[], bool] | None = None) -> T:
    """Run the work in a loop of its own and return its result. Raises KeyboardInterrupt when a signal ended it.

    Ctrl-C, SIGTERM or SIGHUP cancels the work, which cleans up and writes its result; a second one ends the process
    at once: then the container notices that its stream has closed, and ends by itself. `on_ctrl_c`, if given, may
    take a Ctrl-C for itself and return True.
    """
    interrupted = False

    async def watched() -> T:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()

        def on_signal(number: signal.Signals) -> None:
            nonlocal interrupted
            if number is signal.SIGINT and on_ctrl_c is not None and on_ctrl_c():
                return
            if interrupted:
                os._exit(INTERRUPTED)
            interrupted = True
            if number is signal.SIGINT:
                _take_line_away()
            say("stopping; once more to stop at once")
            task.cancel()

        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, on_signal, number)
        return await work()

    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
