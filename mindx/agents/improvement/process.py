"""One process that is not trusted to end, to be brief, or to leave nothing behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from mindx.agents.process_keeper import kept
from mindx.agents.process_pipe import pipe

MAX_STDOUT_BYTES = 8 * 1024 * 1024  # above, it is stopped
MAX_STDERR_BYTES = 64 * 1024 * 1024  # above, it is stopped; of what comes the last LOG_BYTES are kept
LOG_BYTES = 256 * 1024
_CHUNK = 64 * 1024
_END_S = 5.0  # for the last output of a process tree that was killed


@dataclass
class Ended:
    """How a process ended: `stopped` says why it was killed, or did not start, or is "".

    `last_line` is the last line of standard output that is not empty, `log` the end of standard error. `exit_code` is
    128 and the number of a signal for what one ended, None when nothing started.
    """

    exit_code: int | None = None
    stopped: str = ""
    timed_out: bool = False
    last_line: bytes = b""
    log: bytearray = field(default_factory=bytearray)


class FloodError(Exception):
    """A process writes more than is taken."""


async def run_process(argv: Sequence[str], *, timeout_s: float, environ: Mapping[str, str]) -> Ended:
    """Run a program below a keeper to its end, and end all that it started, whatever happens.

    At `timeout_s`, at a flood of output, when the caller is cancelled, and when we end, however that comes about, all
    of it is killed.
    """
    ended = Ended()
    async with pipe() as (stdout, stdout_end), pipe() as (stderr, stderr_end):
        stdin_end, held = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *kept(argv),
                stdin=stdin_end,
                stdout=stdout_end,
                stderr=stderr_end,
                env=environ,
                start_new_session=True,
            )
        except BaseException as error:
            os.close(held)
            if not isinstance(error, OSError):
                raise
            ended.stopped = f"it could not be started: {error.strerror}"
            return ended
        finally:
            for handle in (stdin_end, stdout_end, stderr_end):
                os.close(handle)
        readers = [asyncio.create_task(_last_line(stdout, ended)), asyncio.create_task(_log(stderr, ended))]
        end = asyncio.create_task(process.wait())
        try:
            with anyio.move_on_after(timeout_s) as scope:
                await _until_end(end, readers)
            if scope.cancelled_caught:
                ended.timed_out = True
                ended.stopped = f"it did not end within {timeout_s:g} s and was killed with all that it started"
        finally:
            with anyio.CancelScope(shield=True):
                os.close(held)  # the keeper kills all that is below it
                await asyncio.wait({end}, timeout=_END_S)
                if not end.done():
                    process.kill()
                ended.exit_code = await end
                await _finish(readers, ended)
    return ended


async def _until_end(end: asyncio.Task[int], readers: Sequence[asyncio.Task[None]]) -> None:
    """Wait for the end of the process, or of a reader that has had enough."""
    waiting: set[asyncio.Task[int] | asyncio.Task[None]] = {end, *readers}
    while not end.done():
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if any(task.exception() for task in done):
            return


async def _finish(readers: Sequence[asyncio.Task[None]], ended: Ended) -> None:
    await asyncio.wait(readers, timeout=_END_S)
    for reader in readers:
        reader.cancel()
    for outcome in await asyncio.gather(*readers, return_exceptions=True):
        if isinstance(outcome, FloodError):
            ended.stopped = ended.stopped or str(outcome)


async def _last_line(stream: asyncio.StreamReader, ended: Ended) -> None:
    """Keep the last line; read all, so that the process never waits for us. Raises FloodError."""
    total, line = 0, bytearray()
    while piece := await stream.read(_CHUNK):
        total += len(piece)
        if total > MAX_STDOUT_BYTES:
            raise FloodError(f"it wrote more than {MAX_STDOUT_BYTES:,} bytes to its output and was killed")
        *lines, rest = piece.split(b"\n")
        for part in lines:
            line += part
            if line.strip():
                ended.last_line = bytes(line)
            line.clear()
        line += rest
    if line.strip():
        ended.last_line = bytes(line)


async def _log(stream: asyncio.StreamReader, ended: Ended) -> None:
    """Keep the end of the log. Raises FloodError."""
    total = 0
    while piece := await stream.read(_CHUNK):
        total += len(piece)
        if total > MAX_STDERR_BYTES:
            raise FloodError(f"it wrote more than {MAX_STDERR_BYTES:,} bytes to its log and was killed")
        ended.log += piece
        del ended.log[:-LOG_BYTES]
