"""An agent whose runtime is in a process of its own: spoken to over a local socket, killed with all it starts."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from mindx.agents.process_keeper import kept
from mindx.agents.process_pipe import pipe
from mindx.agents.process_wire import (
    SOCKET_VARIABLE,
    VERSION,
    WireError,
    encode,
    event_from,
    read_message,
    result_from,
    run_message,
)
from mindx.agents.worker import Bounds
from mindx.core.agent_error import AgentError, ErrorCode, ErrorPhase
from mindx.core.agent_event import AgentEventType
from mindx.core.agent_result import AgentResult
from mindx.core.agent_session import SessionEnvironment, SessionPolicy
from mindx.core.agent_state import AgentState
from mindx.core.checkpoint import RunOutcome
from mindx.core.output import plain_text
from mindx.core.own_process import own_module
from mindx.core.protocols import EventHandler
from mindx.core.run_config import RunConfig
from mindx.errors import InputError
from mindx.runtime.event_stream import hand
from mindx.runtime.reaping import CloseReport
from mindx.runtime.run_ids import checked_id, new_id

_LOG = logging.getLogger("mindx.agents.process")
GRACE_S = 10.0  # what a worker has beyond its run's own time, and to end after a cancel
EXIT_S = 1.0
MAX_STDERR_BYTES = 16 * 1024
MAX_SOCKET_PATH = 100  # bytes; the system takes 107
# What comes of reading words that are none of the protocol's, however odd.
_NO_MESSAGE = (ArithmeticError, AttributeError, InputError, LookupError, RecursionError, TypeError, ValueError)


class AgentProcess:
    """Runs each task in a new process; an AgentWorkerSpec takes it in place of an AgentRuntime.

    `factory` is `module:function` or `path/to/file.py:function`: called without arguments in the worker, it returns the
    AgentRuntime (or a coroutine that does). Or `command` is the argv of a program that calls `serve_agent`. `config`
    bounds each run beside what is above it. `env` None hands on this process's variables. A worker that is killed, ends
    too early, says what is no message, or does not end in its time gives a result with the error `worker_failed`; what
    it wrote to stderr goes to the log `mindx.agents.process`. Raises InputError (worker_invalid).
    """

    def __init__(
        self,
        factory: str | None = None,
        *,
        command: Sequence[str] = (),
        config: RunConfig | None = None,
        env: Mapping[str, str] | None = None,
        start_timeout_s: float = 30.0,
        grace_s: float = GRACE_S,
    ) -> None:
        if (factory is None) == (not command):
            raise InputError("worker_invalid", "an agent's process has a factory or a command, one of both")
        if factory is not None and not all(factory.rpartition(":")[::2]):
            raise InputError("worker_invalid", "a factory is written module:function or path/to/file.py:function")
        own = own_module("mindx.agents.worker_program", str(factory), here=True)
        self.config = replace(config or RunConfig(), interactive=False)  # nobody can answer it
        self._command = tuple(command) or own
        self._env = env
        self._start_timeout_s = start_timeout_s
        self._grace_s = grace_s
        self._workers: dict[str, _Worker] = {}
        self._closing = False

    async def run(
        self,
        task: str,
        *,
        run_id: str | None = None,
        config: RunConfig | None = None,
        policy: SessionPolicy | None = None,
        environment: SessionEnvironment | None = None,
        event_handler: EventHandler | None = None,
    ) -> AgentResult:
        """Run one task in a new process and return its result; when the caller is cancelled, all of it is killed.

        Raises InputError (run_exists, worker_closed, worker_task_invalid).
        """
        name = checked_id(run_id or new_id("run"), "run id")
        if self._closing:
            raise InputError("worker_closed", "the agent's process is closed; make a new one")
        if name in self._workers:
            raise InputError("run_exists", f"there is a run {name} already")
        bounds = Bounds(replace(config or self.config, interactive=False), policy, environment)
        try:
            order = encode(run_message(name, task, bounds, event_handler is not None))
        except WireError as error:
            raise InputError("worker_task_invalid", f"the task cannot be given to a process: {error}") from None
        worker = self._workers[name] = _Worker(name, bounds, event_handler, self._grace_s)
        try:
            return await worker.run(order, self._command, self._env, self._start_timeout_s)
        finally:
            del self._workers[name]

    def cancel(self, run_id: str) -> bool:
        """Ask a run to end, and kill its process when it does not; return False when there is no such run."""
        worker = self._workers.get(run_id)
        if worker is None:
            return False
        worker.cancel()
        return True

    async def close(self, *, close_dependencies: bool = False) -> CloseReport:
        """Refuse new work and end all that runs; may be called twice."""
        self._closing = True
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*(worker.gone.wait() for worker in workers))
        return CloseReport()


@dataclass(slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class _Worker:
    """One task's process, from its start until nothing of it is left."""

    def __init__(self, run_id: str, bounds: Bounds, event_handler: EventHandler | None, grace_s: float) -> None:
        self.gone = asyncio.Event()
        self._folder: Path
        self._run_id = run_id
        self._bounds = bounds
        self._event_handler = event_handler
        self._grace_s = grace_s
        self._loop = asyncio.get_running_loop()
        self._connected: asyncio.Future[_Connection] = self._loop.create_future()
        self._process: asyncio.subprocess.Process | None = None
        self._cancelled = False
        self._overdue = ""
        self._timer: asyncio.TimerHandle | None = None
        self._left_s = bounds.config.total_timeout_s + grace_s

    async def run(
        self, order: bytes, command: Sequence[str], env: Mapping[str, str] | None, start_timeout_s: float
    ) -> AgentResult:
        folder = Path(tempfile.mkdtemp(prefix="mindx-", dir=_socket_parent()))  # mode 0700: nobody else gets in
        self._folder = folder
        try:
            server = await asyncio.start_unix_server(self._take, str(folder / "worker"), limit=2**16)
            try:
                return await self._within(
                    order, command, {**(os.environ if env is None else env)}, folder, start_timeout_s
                )
            finally:
                server.close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self.gone.set()

    async def _within(
        self, order: bytes, command: Sequence[str], env: dict[str, str], folder: Path, start_timeout_s: float
    ) -> AgentResult:
        env = {**env, SOCKET_VARIABLE: str(folder / "worker")}
        async with pipe() as (stderr, stderr_end):
            try:
                self._process = process = await asyncio.create_subprocess_exec(
                    *kept(command),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=stderr_end,
                    env=env,
                    start_new_session=True,
                )
            finally:
                os.close(stderr_end)
            return await self._watched(process, stderr, order, start_timeout_s)

    async def _watched(
        self, process: asyncio.subprocess.Process, stderr: asyncio.StreamReader, order: bytes, start_timeout_s: float
    ) -> AgentResult:
        """Return the result of a process that was started, and see to its end."""
        said = asyncio.create_task(_tail(stderr))
        exited = asyncio.create_task(process.wait())
        problem = ""
        try:
            self._time(start_timeout_s, f"it did not connect within {start_timeout_s:g} s")
            if self._cancelled:
                self._kill()
            waiting: set[asyncio.Future[Any]] = {self._connected, exited}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if self._connected.done():
                result = await self._speak(self._connected.result(), order)
                await asyncio.wait({exited}, timeout=self._grace_s)  # it closes what it has opened
                return result
            problem = "it ended before it connected"
        except _NO_MESSAGE as error:
            problem = f"it said what is no message of the protocol ({type(error).__name__})"
        except _EndedError:
            problem = "it ended before its result"
            await asyncio.wait({exited}, timeout=EXIT_S)  # so that its own exit code is the one that is told
        finally:
            with anyio.CancelScope(shield=True):
                await self._end(exited, said)
        return self._failed(problem, await exited, "" if said.cancelled() else said.result())

    async def _speak(self, connection: _Connection, order: bytes) -> AgentResult:
        hello = await read_message(connection.reader)
        if hello is None:
            raise _EndedError
        if hello != {"type": "hello", "version": VERSION}:
            raise WireError("it greets otherwise")
        connection.writer.write(order)
        self._watch()
        while True:
            message = await read_message(connection.reader)
            if message is None:
                raise _EndedError
            if message["type"] == "result":
                return result_from(message, self._run_id)
            if message["type"] == "failed":
                error = AgentError.from_dict(message["error"])
                return AgentResult(self._run_id, RunOutcome.ERROR, AgentState.ERROR, error_info=error)
            await self._hear(message)

    async def _hear(self, message: Mapping[str, Any]) -> None:
        if message["type"] != "event":
            raise WireError("it says what is not known")
        event = event_from(message, self._run_id)
        if event.event_type is AgentEventType.APPROVAL_REQUESTED:  # clocks stop while a person decides
            self._pause()
        elif event.event_type is AgentEventType.APPROVAL_RECEIVED:
            self._watch()
        if self._event_handler is not None:
            await hand(self._event_handler, event, self._bounds.config.event_handler_timeout_s)

    def cancel(self) -> None:
        """Ask the worker to end; kill it when it has no time left to."""
        if self._cancelled:
            return
        self._cancelled = True
        if self._connected.done():
            self._connected.result().writer.write(encode({"type": "cancel"}))
            self._time(self._grace_s, "")
        else:
            self._kill()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the first connection; the folder lets in nobody but this user, and is not needed any more."""
        if self._connected.done():
            writer.close()
        else:
            shutil.rmtree(self._folder, ignore_errors=True)  # now: a host that is killed later leaves nothing
            self._connected.set_result(_Connection(reader, writer))

    def _watch(self) -> None:
        if self._cancelled:
            return
        if self._left_s == math.inf:
            self._stop_clock()
        else:
            self._time(self._left_s, f"it did not end within {self._bounds.config.total_timeout_s:g} s")

    def _pause(self) -> None:
        """Stop the clock, where a person can have been asked: saying so would else be a way around every limit."""
        if self._timer is not None and not self._cancelled and self._bounds.config.allow_dangerous:
            self._left_s = max(self._timer.when() - self._loop.time(), 0.0)
            self._stop_clock()

    def _stop_clock(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time(self, seconds: float, why: str) -> None:
        self._stop_clock()
        self._timer = self._loop.call_later(seconds, self._give_up, why)

    def _give_up(self, why: str) -> None:
        self._overdue = why
        self._kill()

    def _kill(self) -> None:
        """Let go of the keeper: it kills all that is below it."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def _end(self, exited: asyncio.Task[int], said: asyncio.Task[str]) -> None:
        """See to it that nothing of the worker is left."""
        self._stop_clock()
        if self._connected.done():
            self._connected.result().writer.close()
        self._connected.cancel()
        self._kill()
        await asyncio.wait({exited}, timeout=self._grace_s)
        if not exited.done() and self._process is not None:  # what is below a killed keeper sees its socket closed
            with suppress(ProcessLookupError):
                self._process.kill()
        await asyncio.wait({exited})
        await asyncio.wait({said}, timeout=EXIT_S)  # of a killed keeper's processes one may hold the pipe for good
        said.cancel()
        await asyncio.wait({said})

    def _failed(self, problem: str, exit_code: int, said: str) -> AgentResult:
        if self._cancelled:
            info = AgentError(ErrorCode.CANCELLED, "the task was cancelled", ErrorPhase.RUNTIME)
            return AgentResult(self._run_id, RunOutcome.CANCELLED, AgentState.CANCELLED, error_info=info)
        problem = self._overdue or problem
        _LOG.warning(
            "the worker of the task %s failed: %s; exit code %s; stderr: %s", self._run_id, problem, exit_code, said
        )
        info = AgentError(
            ErrorCode.WORKER_FAILED,
            f"the worker's process failed: {problem}",
            ErrorPhase.RUNTIME,
            recoverable=True,
            details={"exit_code": exit_code},
        )
        return AgentResult(self._run_id, RunOutcome.ERROR, AgentState.ERROR, error_info=info)


class _EndedError(Exception):
    """The worker has closed the socket."""


async def _tail(stream: asyncio.StreamReader) -> str:
    """Return the end of what comes, as harmless text."""
    kept = b""
    while piece := await stream.read(2**16):
        kept = (kept + piece)[-MAX_STDERR_BYTES:]
    return plain_text(kept.decode("utf-8", "replace")).strip()


def _socket_parent() -> str | None:
    """Return where the socket's folder is made: not where its path would be longer than the system takes."""
    return None if len(os.fsencode(tempfile.gettempdir())) + 30 < MAX_SOCKET_PATH else "/tmp"
