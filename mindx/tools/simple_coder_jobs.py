"""Background jobs as SimpleCoder's results tell of them."""

from __future__ import annotations

from typing import Any

import anyio

from mindx.core.frozen import dataclass
from mindx.core.quote import quoted
from mindx.sandbox.base import BackgroundState, Sandbox

# What is wrong with a job, and not with the sandbox: a plan hears of it as ERROR.
JOB_TROUBLE = frozenset(
    {
        *("background_full", "background_unknown", "bad_command", "spawn_failed"),
        *("background_over", "background_stuck", "background_no_terminal"),
    }
)
NO_TIME_S = 365 * 24 * 3600.0  # where the operator sets no limit
NO_OUTPUT = 1 << 62  # more than any: only the end is waited for


def standing(job: str, state: BackgroundState, ending: str) -> dict[str, Any]:
    """Return how a job stands; `ending` says in words how it did not succeed, "" when it did or still runs."""
    result = state.result
    message = ending or f"{quoted(job)} {'is running' if result is None else 'ended with exit code 0'}"
    return {
        "job": job,
        "state": _word(state),
        "return_code": None if result is None else result.exit_code,
        "exit_cause": None if result is None else result.exit_cause.value,
        "message": message,
    }


def printed(job: str, state: BackgroundState, tail: int | None) -> dict[str, Any]:
    """Return what a job has printed, the last `tail` lines of each stream (None: all that is kept)."""
    found: dict[str, Any] = {"job": job, "state": _word(state)}
    for name, data in (("stdout", state.stdout), ("stderr", state.stderr)):
        text = data.decode("utf-8", "backslashreplace").strip()
        found[name] = text if tail is None else "\n".join(text.split("\n")[-tail:])
    cap = state.command.max_output_bytes
    # While it runs nobody tells whether more came than is kept; a full stream says that it may have.
    full = max(len(state.stdout), len(state.stderr)) >= cap
    if full if state.result is None else state.result.truncated:
        found["truncated"] = True
    return found


@dataclass(frozen=True, slots=True)
class Awaited:
    """What became of waiting: how the job stands, and the output from where one looked up to `end`, where that is."""

    state: BackgroundState
    output: bytes
    end: int
    found: bool

    @property
    def full(self) -> bool:
        """Whether no more output is kept: what comes now nobody sees."""
        return len(self.state.stdout) >= self.state.command.max_output_bytes


async def expect(sandbox: Sandbox, background_id: str, since: int, text: bytes, timeout_s: float | None) -> Awaited:
    """Wait until `text` (b"": the end) comes in a job's output behind `since`, it ends, is full, or time is over."""
    until = anyio.current_time() + (NO_TIME_S if timeout_s is None else timeout_s)
    state, looked = await sandbox.poll_background(background_id), since
    while True:
        at = state.stdout.find(text, looked) if text else -1
        if at >= 0:
            end = at + len(text)
            return Awaited(state, state.stdout[since:end], end, True)
        full = len(state.stdout) >= state.command.max_output_bytes and bool(text)
        left_s = until - anyio.current_time()
        if not state.running or full or left_s <= 0:
            return Awaited(state, state.stdout[since:], len(state.stdout), not text and not state.running)
        looked = max(since, len(state.stdout) - len(text) + 1)
        seen = len(state.stdout) if text else NO_OUTPUT
        state = await sandbox.await_background(background_id, seen, left_s)


def awaited_words(job: str, text: str, waited: Awaited) -> str:
    """Return in a sentence why what was waited for did not come."""
    wanted = quoted(text)
    if not waited.state.running:
        return f"{quoted(job)} has ended without {wanted}"
    if waited.full and text:
        most = waited.state.command.max_output_bytes
        return f"{quoted(job)} has printed the {most:,} bytes that are kept, without {wanted}; close it"
    return f"{wanted if text else 'the end'} of {quoted(job)} did not come in time"


def _word(state: BackgroundState) -> str:
    return "running" if state.running else "ended"
