"""Background commands of the fake sandbox: each a task of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mindx.core.command import Exec
from mindx.core.receipt import ExecResult, ExitCause, Receipt
from mindx.sandbox.base import BackgroundState, OutputListener

Runner = Callable[[Exec, OutputListener], Awaitable[ExecResult]]


class FakeBackground:
    """One program that runs beside the others."""

    def __init__(self, run: Runner, command: Exec) -> None:
        self._command = command
        self._output = {"stdout": b"", "stderr": b""}
        self._stopped = False
        self.task = asyncio.ensure_future(run(command, self._listen))
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())

    def _listen(self, stream: str, data: bytes) -> None:
        self._output[stream] += data

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
