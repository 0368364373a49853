"""Background commands: each under a uid of its own, beside the foreground, until it ends, is stopped, or all ends."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable

from mindx.core.command import Exec, Terminal
from mindx.core.receipt import ExecResult
from mindx.errors import SandboxError
from mindx.sandbox.base import BackgroundState
from mindx.sandbox.channel import Channel
from mindx.sandbox.deadline import HostDeadline
from mindx.sandbox.execution import Execution

GRACE_S = 5.0
MAX_ENDED = 64  # ended ones that can still be asked about; the oldest are forgotten first


class BackgroundCommands:
    """The background commands of one session, at most `most` at a time; 0: the policy allows none."""

    def __init__(self, most: int, give_up: Callable[[], None]) -> None:
        self._most = most
        self._give_up = give_up
        self._all: dict[str, tuple[Execution, HostDeadline]] = {}
        self._started = 0

    def start(self, channel: Channel, command: Exec) -> str:
        """Start one and return its id. Raises SandboxError: background_off, background_full, bad_command."""
        if not self._most:
            raise SandboxError(
                "background_off", "The policy allows no background commands; `limits: background: N` allows N of them."
            )
        taken = {one.slot for one, _ in self._all.values() if not one.ended}
        free = [slot for slot in range(1, self._most + 1) if slot not in taken]
        if not free:
            raise SandboxError(
                "background_full", f"{self._most} background commands run already; stop one of them.", recoverable=True
            )
        try:
            execution = Execution(channel, command, None, free[0])
        except (ValueError, OverflowError, struct.error) as error:
            raise SandboxError("bad_command", f"The command cannot be sent: {error}.") from error
        late = HostDeadline(None if command.timeout_s is None else command.timeout_s + GRACE_S, self._give_up)
        execution.done.add_done_callback(lambda done: _settle(done, late))
        self._started += 1
        background_id = f"b{self._started}"
        self._all[background_id] = execution, late
        self._forget_oldest()
        return background_id

    def _forget_oldest(self) -> None:
        ended = [name for name, (one, _) in self._all.items() if one.ended]
        for name in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self._all[name]

    def _find(self, background_id: str) -> Execution:
        try:
            return self._all[background_id][0]
        except KeyError:
            raise SandboxError(
                "background_unknown", f"There is no background command {background_id[:40]!a}."
            ) from None

    def state(self, background_id: str) -> BackgroundState:
        """Say how one stands. Raises SandboxError (background_unknown, spawn_failed), SandboxLostError."""
        execution = self._find(background_id)
        if execution.done.done():
            result = execution.done.result()
            return BackgroundState(background_id, execution.command, result.stdout, result.stderr, result)
        stdout, stderr = execution.so_far()
        return BackgroundState(background_id, execution.command, stdout, stderr, None)

    def send(self, background_id: str, data: bytes) -> None:
        """Type into the terminal of one. Raises SandboxError as Sandbox.send_background does."""
        self._find_running(background_id).type(data)

    def resize(self, background_id: str, terminal: Terminal) -> None:
        """Give the terminal of one another size. Raises SandboxError as Sandbox.resize_background does."""
        execution = self._find_running(background_id)
        if not terminal.fits:
            raise SandboxError(
                "bad_command", f"A terminal cannot have {terminal.rows} rows and {terminal.cols} columns."
            )
        execution.resize(terminal)

    def _find_running(self, background_id: str) -> Execution:
        execution = self._find(background_id)
        if execution.ended:
            raise SandboxError("background_over", f"The background command {background_id} has ended.")
        return execution

    async def news(self, background_id: str, seen: int, timeout_s: float) -> None:
        """Wait until one has said more than `seen` bytes or ended, at most `timeout_s`."""
        execution = self._find(background_id)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(execution.more_than(seen), timeout_s)

    async def stop(self, background_id: str) -> None:
        """Kill one, if it still runs, and wait until nothing of it is left. Raises SandboxLostError."""
        execution = self._find(background_id)
        if execution.ended:
            return
        late = HostDeadline(GRACE_S, self._give_up)
        try:
            execution.cancel()
            await asyncio.wait({execution.done})
        finally:
            late.cancel()

    def pause(self) -> None:
        """Stop the host's clocks."""
        for execution, late in self._all.values():
            if not execution.ended:
                late.pause()

    def resume(self) -> None:
        """Let them go on."""
        for execution, late in self._all.values():
            if not execution.ended:
                late.resume()


def _settle(done: asyncio.Future[ExecResult], late: HostDeadline) -> None:
    late.cancel()
    if not done.cancelled():
        done.exception()  # heard by whoever asks for the state, which may be nobody
