"""Plans that a hostile or broken model writes: refused or bounded, never a mistake of ours."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from tests.mind.bdi_support import Made, Probe, act, plan, ref, think, use

_LIST = {"x": [1, 2, 3], "big": "y" * 60_000}


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([use("probe"), use("probe", x=ref("steps.1.result.x.²"))], "there is no `²`"),
        ([act("UPDATE_BELIEF", key="a", value=[1, 2]), use("probe", x=ref("beliefs.a.①"))], "there is no `①`"),
        ([act("UPDATE_BELIEF", key={"a": 1}, value=1), use("probe", x=ref("beliefs.q"))], "nothing is believed"),
        ([act("UPDATE_BELIEF", key=[{}], value=1), use("probe", x=ref("beliefs.q"))], "nothing is believed"),
        ([use("probe", x=ref("beliefs." + "a." * 200 + "a"))], "is no reference"),
        ([use("probe"), use("probe", x=[ref("steps.1.result")] * 501)], "at most 500"),
    ],
)
def test_an_odd_reference_goes_back_to_the_model(steps, says):
    """Digits that are none, keys that are no text, thousands of references: the model hears of it and goes on."""
    made = Made([plan(*steps), plan(think())], Probe("probe", _LIST))
    assert made.run().achieved
    assert says in made.questions[1]


@pytest.mark.parametrize(
    "first", [use("probe"), act("UPDATE_BELIEF", key="k", value="y" * 60_000)], ids=["result", "belief"]
)
def test_a_short_plan_cannot_bring_one_large_value_many_times(first):
    """Four hundred references to 60,000 characters are 24 MB; a step gets one of them, and is told."""
    text = "steps.1.result.big" if first["type"] == "EXECUTE_TOOL" else "beliefs.k"
    probe = Probe("probe", _LIST)
    made = Made([plan(first, use("probe", x=[ref(text)] * 400)), plan(think())], probe)
    tracemalloc.start()
    try:
        began = time.process_time()
        assert made.run().achieved
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024 * 1024
        assert time.process_time() - began < 5
    finally:
        tracemalloc.stop()
    assert "bring more than" in made.questions[1]
    assert all("x" not in call for call in probe.calls)
