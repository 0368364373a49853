"""Publish and subscribe: a listener that raises, hangs, exits or meddles hurts nobody but itself."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mindx.agents.coordinator.events import ALL_TOPICS, MAX_FAILURES, EventBus
from mindx.errors import InputError


def test_listeners_hear_their_topic_until_they_end_it():
    async def main():
        bus, heard = EventBus(), []

        async def listen(event):
            heard.append(("async", event.topic, event.data["n"]))

        end = bus.subscribe("a", listen)
        bus.subscribe("a", lambda event: heard.append(("plain", event.topic, event.data["n"])))
        bus.subscribe(ALL_TOPICS, lambda event: heard.append(("all", event.topic, event.data["n"])))
        told = await bus.publish("a", {"n": 1})
        assert (told.delivered, told.problems) == (3, ())
        assert sorted(heard) == [("all", "a", 1), ("async", "a", 1), ("plain", "a", 1)]
        end()
        end()
        assert (await bus.publish("a", {"n": 2})).delivered == 2
        assert (await bus.publish("b", {"n": 3})).delivered == 1
        assert (await EventBus().publish("nobody")).delivered == 0

    asyncio.run(main())


def test_bad_listeners_hurt_nobody():
    async def main():
        bus, heard, free = EventBus(timeout_s=0.2), [], threading.Event()

        def raises(event):
            raise ZeroDivisionError("oh")

        async def raises_later(event):
            raise RuntimeError("oh")

        def leaves(event):
            raise SystemExit(3)

        def meddles(event):
            event.data["list"].append("mine")
            event.data["n"] = 0

        def blocks(event):
            free.wait(20)

        async def hangs(event):
            await asyncio.Event().wait()

        async def will_not_end(event):
            while not free.is_set():
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    continue

        async def cancels_itself(event):
            raise asyncio.CancelledError

        bad = (raises, raises_later, leaves, blocks, hangs, will_not_end, cancels_itself)
        for listener in (meddles, *bad):
            bus.subscribe("a", listener)
        bus.subscribe("a", lambda event: heard.append(event.data))
        data = {"n": 1, "list": []}
        told = await asyncio.wait_for(bus.publish("a", data), 10)
        assert heard == [{"n": 1, "list": []}]
        assert data == {"n": 1, "list": []}
        assert (told.delivered, len(told.problems)) == (2, len(bad))
        assert "ZeroDivisionError: oh" in told.problems[0]
        free.set()
        await bus.close()

    asyncio.run(main())


def test_a_listener_that_fails_again_and_again_is_told_no_more():
    async def main():
        bus, calls = EventBus(), []

        def raises(event):
            calls.append(event)
            raise ValueError

        bus.subscribe("a", raises)
        for _ in range(MAX_FAILURES + 3):
            await bus.publish("a")
        assert len(calls) == MAX_FAILURES

    asyncio.run(main())


def test_one_success_forgives_the_failures_before():
    async def main():
        bus, calls = EventBus(), []

        def sometimes(event):
            calls.append(event)
            if len(calls) % MAX_FAILURES:
                raise ValueError

        bus.subscribe("a", sometimes)
        for _ in range(3 * MAX_FAILURES):
            await bus.publish("a")
        assert len(calls) == 3 * MAX_FAILURES

    asyncio.run(main())


def test_a_publisher_that_is_cancelled_ends_and_leaves_nothing_running():
    async def main():
        bus, entered, ended = EventBus(), asyncio.Event(), asyncio.Event()

        async def slow(event):
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        bus.subscribe("a", slow)
        task = asyncio.create_task(bus.publish("a"))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(ended.wait(), 5)

    asyncio.run(main())


@pytest.mark.parametrize("topic", ["", "x" * 300, "a\nb", None])
def test_what_is_no_topic_is_refused(topic):
    bus = EventBus()
    for call in (lambda: bus.subscribe(topic, print), lambda: asyncio.run(bus.publish(topic))):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.code == "topic_invalid"


def test_what_is_no_data_is_refused():
    bus = EventBus()
    bus.subscribe("a", print)
    for data in ({"a": object()}, {"a": "x" * 2_000_000}, {"a": "\ud800"}):
        with pytest.raises(InputError) as caught:
            asyncio.run(bus.publish("a", data))
        assert caught.value.code == "event_invalid"
