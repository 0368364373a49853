from __future__ import annotations

import asyncio

import pytest

from mindx.errors import ProviderError
from mindx.providers.failures import provider_error
from mindx.providers.retry import MAX_WAIT_S, RetryRules, retry_after_s, with_retries
from tests.providers.conftest import Waits


def tried(*outcomes, rules):
    """Try an attempt whose outcomes are given: codes of failures (with what they ask for), or a result."""
    left = iter(outcomes)
    seconds = []

    async def attempt(remaining):
        seconds.append(remaining)
        outcome = next(left)
        if isinstance(outcome, tuple):
            raise provider_error(outcome[0], retry_after_s=outcome[1])
        if isinstance(outcome, str) and outcome.startswith("provider_"):
            raise provider_error(outcome)
        return outcome

    return asyncio.run(with_retries(attempt, rules)), seconds


def test_what_may_pass_is_tried_again_with_growing_waits():
    waits = Waits()
    result, left = tried(
        "provider_server_error", "provider_timeout", "provider_unreachable", "there", rules=waits.rules()
    )
    assert result == "there"
    assert waits.waited == [0.5, 1.0, 2.0]
    assert left == [300.0, 299.5, 298.5, 296.5]


def test_waits_jitter_between_half_and_all():
    waits = Waits()
    rules = RetryRules(3, 300.0, waits.sleep, waits.clock, lambda: 0.0)
    tried("provider_server_error", "provider_server_error", "there", rules=rules)
    assert waits.waited == [0.25, 0.5]


def test_waits_stop_growing():
    waits = Waits()
    with pytest.raises(ProviderError):
        tried(*["provider_server_error"] * 12, rules=waits.rules(max_attempts=12, deadline_s=1e6))
    assert waits.waited[-1] == MAX_WAIT_S


def test_what_the_endpoint_asks_for_is_waited():
    waits = Waits()
    tried(("provider_rate_limited", 7.0), ("provider_rate_limited", 0.1), "there", rules=waits.rules())
    assert waits.waited == [7.0, 1.0]


def test_an_endpoint_that_asks_for_more_than_is_left_is_not_waited_for():
    waits = Waits()
    with pytest.raises(ProviderError) as caught:
        tried(("provider_rate_limited", 3600.0), rules=waits.rules())
    assert waits.waited == []
    assert caught.value.details == {"retry_after_s": 3600.0, "attempts": 1}


def test_attempts_and_deadline_bound_it():
    waits = Waits()
    with pytest.raises(ProviderError) as caught:
        tried(*["provider_overloaded"] * 9, rules=waits.rules(max_attempts=3))
    assert caught.value.details["attempts"] == 3
    waits = Waits()
    with pytest.raises(ProviderError) as caught:
        tried(*["provider_overloaded"] * 9, rules=waits.rules(max_attempts=9, deadline_s=2.0))
    assert sum(waits.waited) < 2.0


@pytest.mark.parametrize(
    "code", ["provider_auth", "provider_bad_request", "provider_quota", "provider_context_too_long"]
)
def test_what_cannot_pass_is_not_tried_again(code):
    waits = Waits()
    with pytest.raises(ProviderError) as caught:
        tried(code, rules=waits.rules())
    assert caught.value.code == code
    assert waits.waited == []


def test_a_fault_of_our_own_is_not_tried_again():
    async def attempt(left):
        raise KeyError("ours")

    with pytest.raises(KeyError):
        asyncio.run(with_retries(attempt, Waits().rules()))


def test_a_cancelled_wait_ends_at_once():
    async def attempt(left):
        raise provider_error("provider_overloaded")

    async def scene():
        waiting = asyncio.Event()

        async def sleep(seconds):
            waiting.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(with_retries(attempt, RetryRules(sleep=sleep)))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_retry_after(headers, seconds):
    assert retry_after_s(headers, now=lambda: 10.0) == seconds
