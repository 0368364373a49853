"""The monitors: what runs short is told, believed for a time and resolved; what models do is counted and kept."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mindx.agents.beliefs import BeliefSystem
from mindx.agents.coordinator import resources
from mindx.agents.coordinator.database import CoordinatorDatabase
from mindx.agents.coordinator.performance import MAX_KEYS, WINDOW, PerformanceMonitor, Price
from mindx.agents.coordinator.resources import NAMESPACE, Meter, ResourceLimits, ResourceMonitor, ResourceSample
from mindx.core.message import ChatMessage
from mindx.errors import ProviderError, StateError
from mindx.providers.base import ModelRequest
from mindx.providers.scripted import ScriptedProvider, ScriptedTurn
from tests.mind.coordinator_support import Clock, in_coordinator

ASKED = ModelRequest((ChatMessage.user("hello"),))


class Machine:
    """A machine that is as busy as it is told."""

    def __init__(self) -> None:
        self.cpu: float | None = 10.0
        self.memory: float | None = 10.0
        self.disks: dict[str, float | None] = {"/": 10.0, "/data": 10.0}

    def __call__(self, paths):
        return ResourceSample(self.cpu, self.memory, dict(self.disks))


class Watch:
    """A monitor of a machine, with all that it told."""

    def __init__(self) -> None:
        self.clock, self.machine = Clock(), Machine()
        self.beliefs = BeliefSystem(now=self.clock)
        self.told: list[tuple[str, str]] = []
        self.monitor = ResourceMonitor(self.beliefs, self.tell, measure=self.machine, now=self.clock)

    async def tell(self, topic, data):
        self.told.append((topic, f"{data['resource']}{data['path']}"))

    def check(self, after_s: float = 10.0) -> list[tuple[str, str]]:
        """Return what is told by a check `after_s` seconds later."""
        self.clock.now += after_s
        self.told.clear()
        asyncio.run(self.monitor.check())
        return list(self.told)

    def believed(self) -> set[str]:
        return {belief.key for belief in self.beliefs.query(namespace=NAMESPACE)}


def test_what_goes_over_its_limit_is_told_once_and_again_and_its_end_too():
    watch = Watch()
    assert watch.check() == []
    watch.machine.cpu, watch.machine.memory, watch.machine.disks["/data"] = 86.0, 85.0, 91.0
    assert watch.check() == [("resource.alert", "cpu"), ("resource.alert", "disk/data")]
    assert watch.check() == []
    assert watch.check(280) == []
    assert watch.check(10) == [("resource.alert", "cpu"), ("resource.alert", "disk/data")]  # 300 s later, again
    assert watch.believed() == {"alert.cpu", "alert.disk:/data"}
    watch.machine.cpu = 50.0
    assert watch.check() == [("resource.resolved", "cpu")]
    assert watch.believed() == {"alert.disk:/data"}
    assert [alert.key for alert in watch.monitor.alerts] == ["alert.disk:/data"]


def test_an_alert_is_believed_no_longer_than_it_is_known():
    watch = Watch()
    watch.machine.cpu = 99.0
    watch.check()
    [belief] = watch.beliefs.query(namespace=NAMESPACE)
    assert (belief.source.value, belief.value["percent"], belief.ttl_s) == ("perception", 99.0, 320.0)
    watch.clock.now += 321
    assert watch.believed() == set()


def test_what_cannot_be_measured_is_neither_an_alert_nor_its_end():
    watch = Watch()
    watch.machine.disks["/data"] = None
    assert watch.check() == []
    watch.machine.disks["/data"] = 95.0
    assert len(watch.check()) == 1
    watch.machine.disks["/data"] = watch.machine.cpu = None
    assert watch.check() == []
    assert [alert.path for alert in watch.monitor.alerts] == ["/data"]
    assert asyncio.run(watch.monitor.cpu_percent()) is None


def test_a_disk_that_hangs_does_not_stop_the_watch(monkeypatch):
    free, watch, calls = threading.Event(), Watch(), []
    monkeypatch.setattr(resources, "SAMPLE_TIMEOUT_S", 0.05)

    def hang(paths):
        calls.append(paths)
        free.wait(200)
        return ResourceSample(1.0)

    watch.monitor = ResourceMonitor(watch.beliefs, watch.tell, measure=hang, now=watch.clock)

    async def main():
        for _ in range(3):
            assert await watch.monitor.sample() == ResourceSample(disks={"/": None})
        assert len(calls) == 1  # hung threads do not pile up

    asyncio.run(main())  # and the loop ends although one hangs
    free.set()


@pytest.mark.parametrize("path", ["/a\nb", "/" + "x" * 400, "/ends with a blank "])
def test_any_path_can_run_short(path):
    watch = Watch()
    watch.machine.disks[path] = 99.0
    assert len(watch.check()) == 1
    assert len(watch.believed()) == 1
    watch.machine.disks[path] = 9.0
    assert len(watch.check()) == 1
    assert watch.believed() == set()


def test_a_belief_that_cannot_be_kept_stops_no_alert():
    watch = Watch()
    watch.beliefs.close()
    watch.machine.cpu = 99.0
    assert watch.check() == [("resource.alert", "cpu")]


def test_who_asks_while_it_is_measured_gets_the_same_answer():
    watch, begun, free, calls = Watch(), threading.Event(), threading.Event(), []

    def slow(paths):
        calls.append(paths)
        begun.set()
        free.wait(20)
        return ResourceSample(50.0)

    async def main():
        watch.monitor = ResourceMonitor(watch.beliefs, watch.tell, measure=slow, now=watch.clock)
        tasks = [asyncio.create_task(watch.monitor.cpu_percent()) for _ in range(3)]
        await asyncio.to_thread(begun.wait, 20)
        free.set()
        assert await asyncio.gather(*tasks) == [50.0] * 3
        assert len(calls) == 1

    asyncio.run(main())


def test_this_machine_is_measured():
    meter, busy = Meter(), [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(busy) as spinning:
        # From two threads, as the monitor calls it.
        with ThreadPoolExecutor(1) as one:
            first = one.submit(meter, ()).result()
        sample = meter((Path("/"), Path("/no/such/place")))
        spinning.kill()
    for share in (first.cpu_percent, sample.cpu_percent):
        assert 90 / os.cpu_count() <= share <= 100
    assert 0 < sample.memory_percent <= 100
    assert 0 < sample.disks["/"] <= 100
    assert sample.disks["/no/such/place"] is None


def test_a_coordinator_tells_its_agents_and_believes_what_it_sees(tmp_path):
    machine = Machine()
    machine.memory = 97.0

    async def work(made):
        heard = asyncio.Event()

        async def listen(event):
            heard.set()

        made.subscribe("resource.alert", listen)
        made.start()
        await asyncio.wait_for(heard.wait(), 10)
        assert made.beliefs.value("alert.memory", namespace=NAMESPACE)["percent"] == 97.0
        state = (await made.ask("query", "", agent_id="bdi")).response["state"]
        assert state["resources"]["memory_percent"] == 97.0
        assert [alert["resource"] for alert in state["alerts"]] == ["memory"]

    in_coordinator(tmp_path, work, measure=machine)


@pytest.mark.parametrize("limit", [{"cpu_percent": 0}, {"disk_percent": 101}, {"interval_s": 0}, {"pace": 1}])
def test_limits_that_are_none_are_refused(limit):
    with pytest.raises(ValueError, match=next(iter(limit))):
        ResourceLimits(**limit)


def test_calls_are_counted_by_model_and_task_and_kept(tmp_path):
    clock = Clock()
    usage = {"input_tokens": 1000, "output_tokens": 500}
    failure = ProviderError("provider_overloaded", "busy")
    script = [ScriptedTurn("a", usage=usage), ScriptedTurn("b", chunks=("b",), usage=usage), failure, "c"]
    prices = {"m": Price(input_per_million=2.0, output_per_million=10.0)}

    async def use(monitor):
        provider = ScriptedProvider(script, models=("m",))
        planning, coding = monitor.watched(provider, "plan"), monitor.watched(provider, "code")
        assert (await planning.generate(ASKED)).text == "a"
        assert [chunk.text async for chunk in planning.stream(ASKED)] == ["b", ""]
        with pytest.raises(ProviderError):
            await planning.generate(ASKED)
        assert (await coding.generate(ASKED)).text == "c"

    database = CoordinatorDatabase(tmp_path)
    monitor = PerformanceMonitor(database, prices, clock)
    asyncio.run(use(monitor))
    code, plan = monitor.list()
    assert (plan.model, plan.task, plan.calls, plan.ok, plan.failed) == ("m", "plan", 3, 2, 1)
    assert plan.error_types == {"provider_overloaded": 1}
    assert (plan.input_tokens, plan.output_tokens, len(plan.latencies_s)) == (2000, 1000, 3)
    assert plan.cost == pytest.approx(2 * (1000 * 2 + 500 * 10) / 1e6)
    assert plan.unpriced_calls == 1  # the one that failed told no tokens
    assert (code.task, code.calls, code.cost, code.unpriced_calls) == ("code", 1, 0.0, 1)
    assert plan.first_call_at is not None
    monitor.flush()
    database.close()
    again = CoordinatorDatabase(tmp_path)
    assert PerformanceMonitor(again, prices, clock).list() == (code, plan)
    again.close()


def test_a_call_that_is_cancelled_counts_as_one_that_failed(tmp_path):
    async def main():
        turn = ScriptedTurn("late", gate=asyncio.Event(), asked=asyncio.Event())
        provider = monitor.watched(ScriptedProvider([turn]), "plan")
        task = asyncio.create_task(provider.generate(ASKED))
        await turn.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    database = CoordinatorDatabase(tmp_path)
    monitor = PerformanceMonitor(database)
    asyncio.run(main())
    database.close()
    assert monitor.list()[0].error_types == {"cancelled": 1}


def test_what_is_kept_of_calls_is_bounded_and_written_now_and_then(tmp_path):
    def written():
        return sum(json.loads(row[0])["calls"] for row in database.rows("SELECT document FROM performance"))

    clock, database = Clock(), CoordinatorDatabase(tmp_path)
    monitor = PerformanceMonitor(database, now=clock)
    for _ in range(19):
        monitor.record("m", "t", latency_s=1.0)
    assert written() == 0
    monitor.record("m", "t", latency_s=1.0)
    assert written() == 20
    clock.now += 301
    monitor.record("m", "t", latency_s=1.0)
    assert written() == 21
    for n in range(WINDOW + MAX_KEYS):
        monitor.record("m", f"task {n}", latency_s=1.0, error=f"error {n}")
        monitor.record("m", "t", latency_s=2.0, error=f"error {n}")
    assert len(monitor.list()) == MAX_KEYS + 1
    busy = next(one for one in monitor.list() if one.task == "t")
    assert busy.latencies_s == (2.0,) * WINDOW
    assert sum(busy.error_types.values()) == WINDOW + MAX_KEYS
    assert len(busy.error_types) == 51
    # A record that cannot be written fails no call of a model.
    database.close()
    clock.now += 301
    monitor.record("m", "t", latency_s=1.0)
    with pytest.raises(StateError):
        monitor.flush()


def test_the_coordinators_own_calls_are_counted(tmp_path):
    async def work(made):
        answer = await made.ask("query", "how is it?", agent_id="agint")
        assert answer.response["answer"] == "It is well."
        [one] = made.performance.list()
        assert (one.task, one.calls) == ("coordinator", 1)

    in_coordinator(tmp_path, work, provider=ScriptedProvider(["It is well."]))
