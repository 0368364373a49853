"""Tools that block: each call in a thread with a loop of its own, so that it holds up nobody and can be left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any

from mindx.core.agent_event import AgentEventType
from mindx.tools.base import BaseTool, ToolError
from mindx.tools.context import ToolContext

MAX_THREADS = 32


class Threads:
    """The threads of one executor. None can be stopped from outside: what does not end counts against the limit."""

    def __init__(self) -> None:
        self._alive = 0

    async def run(self, tool: BaseTool, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return what the tool returns, or raise what it raises. When it is cancelled the thread is left behind.

        Raises ToolError (tool_threads_full) when too many calls hang.
        """
        if self._alive >= MAX_THREADS:
            raise ToolError(
                f"{MAX_THREADS} calls of blocking tools have not ended; nothing more is started", "tool_threads_full"
            )
        main = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = main.create_future()
        call = _Call(tool, arguments, _bridged(context, main))

        def settle(value: Any, error: BaseException | None) -> None:
            self._alive -= 1
            if answer.done():
                return
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)

        def work() -> None:
            value, error = call.outcome()
            try:
                main.call_soon_threadsafe(settle, value, error)
            except RuntimeError:  # the loop has ended: nobody waits any more
                return

        self._alive += 1
        threading.Thread(target=work, name=f"tool-{tool.tool_id}", daemon=True).start()
        try:
            return await answer
        finally:
            call.cancel()


class _Call:
    """One call in its thread."""

    def __init__(self, tool: BaseTool, arguments: Mapping[str, Any], context: ToolContext) -> None:
        self._work: Coroutine[Any, Any, Any] = tool.execute(arguments, context)
        self._lock = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._cancelled = False

    def outcome(self) -> tuple[Any, BaseException | None]:
        try:
            return asyncio.run(self._main()), None
        except asyncio.CancelledError:
            return None, ToolError("the tool was cancelled", "tool_cancelled_itself")
        except Exception as error:  # noqa: BLE001 - it is raised again where the call is awaited
            # No future takes a StopIteration.
            return None, RuntimeError("StopIteration") if isinstance(error, StopIteration) else error
        except SystemExit:
            return None, RuntimeError("the tool called sys.exit")

    async def _main(self) -> Any:
        task = asyncio.ensure_future(self._work)
        with self._lock:
            self._running = asyncio.get_running_loop(), task
            if self._cancelled:
                task.cancel()
        try:
            return await task
        finally:
            with self._lock:
                self._running = None

    def cancel(self) -> None:
        """Ask it to end, if it still goes on."""
        with self._lock:
            self._cancelled = True
            if self._running is not None:
                loop, task = self._running
                loop.call_soon_threadsafe(task.cancel)


def _bridged(context: ToolContext, main: asyncio.AbstractEventLoop) -> ToolContext:
    """Return a context for another thread: its events go to the run's own loop, and it has no sandbox."""

    async def emit(event_type: AgentEventType, payload: Mapping[str, Any], cause_id: str = "") -> None:
        told = asyncio.run_coroutine_threadsafe(_emitted(context, event_type, payload, cause_id), main)
        await asyncio.wrap_future(told)

    return replace(context, emit=emit, open_sandbox=None, operator_engine=None)


async def _emitted(context: ToolContext, event_type: AgentEventType, payload: Mapping[str, Any], cause_id: str) -> None:
    await context.emit(event_type, payload, cause_id)
