"""Background commands of the fake sandbox: each a task of this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from mindx.core.command import Exec
from mindx.core.receipt import ExecResult, ExitCause, Receipt
from mindx.errors import SandboxError
from mindx.sandbox.base import BackgroundState, OutputListener
from mindx.sandbox.fake_terminal import FakeTerminal

Runner = Callable[[Exec, OutputListener, FakeTerminal | None], Awaitable[ExecResult]]


class FakeBackground:
    """One program that runs beside the others."""

    def __init__(self, run: Runner, command: Exec) -> None:
        self._command = command
        self._news = asyncio.Event()
        self._terminal = None if command.terminal is None else FakeTerminal(command.terminal)
        if self._terminal is not None:
            self._terminal.type(command.stdin)
        self._output = {"stdout": b"", "stderr": b""}
        self._stopped = False
        self.task = asyncio.ensure_future(run(command, self._listen, self._terminal))
        self.task.add_done_callback(self._settle)

    def _settle(self, task: asyncio.Future[ExecResult]) -> None:
        self._news.set()
        if not task.cancelled():
            task.exception()  # heard by whoever asks for the state, which may be nobody

    def _listen(self, stream: str, data: bytes) -> None:
        self._output[stream] += data
        self._news.set()

    def terminal(self, background_id: str) -> FakeTerminal:
        """Return the terminal of one that runs. Raises SandboxError: background_over, background_no_terminal."""
        if self.task.done():
            raise SandboxError("background_over", f"the background command {background_id} has ended")
        if self._terminal is None:
            raise SandboxError("background_no_terminal", "this background command has no terminal")
        return self._terminal

    async def news(self, seen: int, timeout_s: float) -> None:
        """Wait until more than `seen` bytes of stdout are kept, or it has ended."""

        async def more() -> None:
            while not self.task.done() and len(self._output["stdout"]) <= seen:
                self._news.clear()
                await self._news.wait()

        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(more(), timeout_s)

    def state(self, background_id: str) -> BackgroundState:
        """Say how it stands. Raises what ended it, if that was no end of its own."""
        stdout, stderr = self._output["stdout"], self._output["stderr"]
        result = None
        if self._stopped:
            result = ExecResult(self._command, Receipt(ExitCause.CANCELLED), stdout, stderr)
        elif self.task.done():
            result = self.task.result()
            stdout, stderr = result.stdout, result.stderr
        return BackgroundState(background_id, self._command, stdout, stderr, result)

    async def stop(self) -> None:
        """Kill it, if it still runs."""
        if not self.task.done():
            self._stopped = True
            self.task.cancel()
            await asyncio.wait({self.task})
