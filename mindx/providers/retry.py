"""Trying again: with jitter, as the endpoint asks for, and never beyond a deadline."""

from __future__ import annotations

import asyncio
import email.utils
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import tenacity

from mindx.errors import ProviderError

T = TypeVar("T")

BASE_WAIT_S, MAX_WAIT_S = 0.5, 30.0
RETRIED = frozenset(
    {
        "provider_rate_limited",
        "provider_overloaded",
        "provider_server_error",
        "provider_unreachable",
        "provider_timeout",
        "provider_interrupted",
        "provider_malformed_answer",
    }
)


@dataclass(frozen=True, slots=True)
class RetryRules:
    """`deadline_s` bounds all attempts and the waits between them. The rest is for tests to pass in."""

    max_attempts: int = 4
    deadline_s: float = 300.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    random: Callable[[], float] = field(default=random.random)


async def with_retries(attempt: Callable[[float], Awaitable[T]], rules: RetryRules) -> T:
    """Return what `attempt(seconds left)` returns; it is called again after a failure that may pass.

    Raises the last ProviderError; its details tell the number of `attempts`. An endpoint that asks to wait longer than
    is left is not waited for.
    """
    end = rules.clock() + rules.deadline_s
    made = 0

    async def once() -> T:
        nonlocal made
        made += 1
        return await attempt(max(end - rules.clock(), 0.0))

    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(_passes),
        wait=lambda state: _wait(state, rules),
        stop=lambda state: state.attempt_number >= rules.max_attempts or rules.clock() + state.upcoming_sleep >= end,
        sleep=rules.sleep,
        reraise=True,
    )
    try:
        return await retrying(once)
    except ProviderError as error:
        error.details["attempts"] = made
        raise


def _passes(error: BaseException) -> bool:
    return isinstance(error, ProviderError) and error.code in RETRIED


def _wait(state: tenacity.RetryCallState, rules: RetryRules) -> float:
    """Between half and all of an exponentially growing time, and no less than the endpoint asks for."""
    grown = min(BASE_WAIT_S * 2.0 ** min(state.attempt_number - 1, 16), MAX_WAIT_S)
    jittered = grown * (0.5 + 0.5 * rules.random())
    error = state.outcome.exception() if state.outcome is not None else None
    asked: Any = error.details.get("retry_after_s") if isinstance(error, ProviderError) else None
    return max(jittered, asked) if isinstance(asked, (int, float)) else jittered


def retry_after_s(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds that `Retry-After` asks for (a number or an HTTP date), None when it says nothing sound."""
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000.0
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    try:
        return max(email.utils.parsedate_to_datetime(text).timestamp() - now(), 0.0)
    except (TypeError, ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
