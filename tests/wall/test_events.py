"""The engine's events: whose they are, what they say about an end, and what no event may do."""

from __future__ import annotations

import asyncio
import time

import pytest

from mindx.sandbox.deadline import HostDeadline
from mindx.sandbox.events import EngineEvent, Events, current_events
from mindx.sandbox.life import Life
from mindx.sandbox.settle import to_the_end

pytestmark = pytest.mark.anyio
SECOND_NS = 1_000_000_000


def event(action: str, time_ns: int = 5 * SECOND_NS, exit_code: str = "") -> EngineEvent:
    return EngineEvent(action, time_ns, exit_code)


async def told(*events: EngineEvent) -> Life:
    life = Life()
    listen = life.listener(lambda _: None)
    for one in events:
        await asyncio.to_thread(listen, one)
    await asyncio.sleep(0)
    return life


@pytest.mark.parametrize(
    "document",
    [{}, {"Actor": None}, {"Actor": {"Attributes": []}}, {"Actor": {"Attributes": {"mindx.session": 7}}}, {"Actor": 1}],
)
def test_what_is_no_event_of_a_session_is_none(document):
    assert EngineEvent.parse(document) is None


def test_an_event_is_read_with_its_exit_code():
    document = {
        "Action": "die",
        "timeNano": 9,
        "Actor": {"Attributes": {"mindx.session": "ab", "exitCode": "137"}},
    }
    assert EngineEvent.parse(document) == ("ab", EngineEvent("die", 9, "137"))


@pytest.mark.parametrize("action", ["exec_create: sh -c id", "exec_start: x", "extract-to-dir"])
def test_foreign_actions(action):
    assert event(action).foreign


@pytest.mark.parametrize("action", ["start", "die", "oom", "pause", "attach", "kill", "destroy", ""])
def test_actions_that_are_not_foreign_by_themselves(action):
    assert not event(action).foreign


async def test_an_oom_close_to_the_end_is_its_cause_and_an_earlier_one_is_not():
    close = await told(event("oom", 4 * SECOND_NS), event("die", 5 * SECOND_NS, "137"))
    assert "oom" in await close.obituary()
    earlier = await told(event("oom", 1 * SECOND_NS), event("die", 5 * SECOND_NS, "137"))
    assert "oom" not in await earlier.obituary()
    assert "137" in await earlier.obituary()


async def test_without_a_word_of_the_engine_nothing_is_made_up():
    assert await (await told()).obituary() == ""


async def test_a_pause_is_measured_by_the_engines_clock():
    life = await told(event("pause", 2 * SECOND_NS), event("unpause", 6 * SECOND_NS))
    assert life.paused_ns == 4 * SECOND_NS


def test_one_stream_for_a_process(monkeypatch):
    assert current_events() is current_events()
    monkeypatch.setenv("DOCKER_HOST", "unix:///elsewhere")
    assert isinstance(current_events(), Events)


async def test_a_host_deadline_stands_still_in_a_pause_and_gives_a_stalled_loop_a_chance():
    fired = []
    deadline = HostDeadline(0.2, lambda: fired.append(True))
    deadline.pause()
    await asyncio.sleep(0.3)
    assert not fired
    deadline.resume()
    time.sleep(0.9)  # noqa: ASYNC251 - the loop stands still, and so does whoever reads the stream
    await asyncio.sleep(0)
    assert not fired
    deadline.cancel()
    deadline.resume()
    await asyncio.sleep(0.05)
    assert not fired
    HostDeadline(0.05, lambda: fired.append(True))
    await asyncio.sleep(0.2)
    assert fired


async def test_one_host_deadline_serves_one_command_after_the_other(monkeypatch):
    """Its timer is left standing: one of an earlier command ends no later one, and a shorter deadline is not missed."""
    loop, fired = asyncio.get_running_loop(), []
    clock = [loop.time()]
    monkeypatch.setattr(loop, "time", lambda: clock[0])

    async def passed(seconds: float) -> int:
        clock[0] += seconds
        for _ in range(3):
            await asyncio.sleep(0)
        return len(fired)

    deadline = HostDeadline(None, lambda: fired.append(True))
    assert await passed(1000) == 0
    deadline.set(10)
    deadline.clear()
    deadline.set(100)
    assert await passed(10.1) == 0
    deadline.set(5)
    assert await passed(5.1) == 1
    deadline.set(1)
    deadline.clear()
    assert await passed(1.1) == 1
    deadline.set(None)
    assert await passed(1000) == 1
    deadline.set(1)
    deadline.pause()
    assert await passed(1.1) == 1
    deadline.resume()
    assert await passed(0.9) == 1
    assert await passed(0.2) == 2


async def test_work_runs_to_its_end_whatever_cancels_its_caller():
    done = []

    async def work() -> None:
        await asyncio.sleep(0.1)
        done.append(True)

    task = asyncio.create_task(to_the_end(work()))
    for _ in range(5):
        await asyncio.sleep(0.005)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done


async def test_an_error_of_the_work_is_the_callers():
    async def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await to_the_end(work())
