"""The statistics of the bench; nothing here is timed."""

from __future__ import annotations

import asyncio
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.bench.samples import Samples, interleave, percentile, repeat


def test_percentiles_of_known_values() -> None:
    values = [4.0, 1.0, 3.0, 2.0]
    assert percentile(values, 0) == 1.0
    assert percentile(values, 50) == 2.5
    assert percentile(values, 100) == 4.0
    assert percentile([float(number) for number in range(101)], 95) == 95.0
    assert percentile([7.0], 95) == 7.0
    assert values == [4.0, 1.0, 3.0, 2.0], "the values stay in their order"


def test_the_percentile_of_nothing_is_not_a_number() -> None:
    assert math.isnan(percentile([], 50))
    assert math.isnan(Samples().percentile("never measured", 50))


@pytest.mark.parametrize("percent", [-1, 101])
def test_a_percentile_out_of_range_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 100"):
        percentile([1.0], percent)


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_the_middle_is_the_median(values: list[float]) -> None:
    assert percentile(values, 50) == pytest.approx(statistics.median(values))


def test_time_is_the_clocks_difference_and_a_failure_adds_nothing() -> None:
    ticks = iter([10.0, 12.5, 20.0])
    samples = Samples(clock=lambda: next(ticks))
    with samples.time("work"):
        pass

    def fail() -> None:
        with samples.time("work"):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert samples.of("work") == [2.5]
    assert samples.names() == ["work"]


def test_actions_take_turns_in_both_orders_and_the_warm_up_is_not_kept() -> None:
    samples, order = Samples(), []

    def action(name: str):
        async def act() -> None:
            order.append(name)
            samples.add(name, float(len(order)))

        return act

    asyncio.run(interleave(samples, [action("a"), action("b")], rounds=3, warm_up=2))

    assert "".join(order) == "abab" + "ab" + "ba" + "ab"
    assert samples.of("a") == [5.0, 8.0, 9.0]
    assert samples.of("b") == [6.0, 7.0, 10.0]


def test_a_repeated_action_stays_together() -> None:
    order: list[str] = []

    async def act() -> None:
        order.append("a")

    asyncio.run(repeat(act, 3)())
    assert order == ["a"] * 3


def test_a_failing_warm_up_does_not_silence_what_follows() -> None:
    samples = Samples()

    async def fail() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        asyncio.run(interleave(samples, [fail], rounds=1))
    samples.add("later", 1.0)
    assert samples.of("later") == [1.0]
