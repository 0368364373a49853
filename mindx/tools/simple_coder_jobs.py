"""Background jobs as SimpleCoder's results tell of them."""

from __future__ import annotations

from typing import Any

from mindx.core.quote import quoted
from mindx.sandbox.base import BackgroundState

# What is wrong with a job, and not with the sandbox: a plan hears of it as ERROR.
JOB_TROUBLE = frozenset({"background_full", "background_unknown", "bad_command", "spawn_failed"})


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


def _word(state: BackgroundState) -> str:
    return "running" if state.running else "ended"
