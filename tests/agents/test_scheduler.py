import asyncio
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindx import (
    ActionDispatcher,
    ActionRequest,
    ActionRisk,
    ActionScheduler,
    AgentContext,
    AgentDecision,
    ErrorCode,
    ExecutionMode,
    RunConfig,
    SandboxLostError,
    SessionPolicy,
    Status,
    TaskState,
)
from mindx.runtime.reaping import Reaper
from mindx.runtime.scheduler import BatchLimits, ScheduledAction, groups
from tests.agents.support import READ, WRITE, Made, World, act, action, run

RISKS = st.sampled_from(list(ActionRisk))
KEYS = st.sampled_from([None, "a", "b", "c"])


def scheduled(risk=READ, key=None, name="read", action_id="1", **arguments):
    return ScheduledAction(ActionRequest(action_id, name, arguments), risk, key)


class Listener:
    def __init__(self):
        self.began, self.ended = [], {}

    async def started(self, action):
        self.began.append(action.request.action_id)

    async def finished(self, action, observation):
        assert action.request.action_id not in self.ended
        self.ended[action.request.action_id] = observation


def schedule(actions, limits, world=None, mode=ExecutionMode.AUTO, before=None, grace_s=5.0):
    """Run actions; return observations (or the exception), the listener and the reaper."""
    world = world or World()
    listener, reaper = Listener(), Reaper(grace_s)

    async def main():
        scheduler = ActionScheduler(ActionDispatcher(world.executor()), reaper)
        task = asyncio.ensure_future(
            scheduler.run(actions, AgentContext("r", "", TaskState("")), limits, listener, mode)
        )
        if before is not None:
            await before(task)
        answer = (await asyncio.gather(task, return_exceptions=True))[0]
        assert world.running == 0  # here, before the end of the loop would end what was left
        return answer

    return asyncio.run(main()), listener, reaper


@given(st.lists(st.tuples(RISKS, KEYS), max_size=20), st.integers(1, 5), st.sampled_from(list(ExecutionMode)))
def test_groups_keep_the_order_and_never_mix_what_may_not_run_together(drawn, parallel, mode):
    actions = [scheduled(risk, key, action_id=str(number)) for number, (risk, key) in enumerate(drawn)]
    found = groups(actions, parallel, mode)
    assert [item for group in found for item in group] == actions
    for group in found:
        keys = [item.concurrency_key for item in group if item.concurrency_key is not None]
        assert len(keys) == len(set(keys))
        assert len(group) == 1 or all(item.risk is READ for item in group)
        assert len(group) == 1 or (parallel > 1 and mode is not ExecutionMode.SEQUENTIAL)
    if parallel > 1 and mode is not ExecutionMode.SEQUENTIAL:
        for one, other in itertools.pairwise(found):  # nothing is kept apart without a reason
            key = other[0].concurrency_key
            apart = one[-1].risk is not READ or other[0].risk is not READ
            assert apart or key in [item.concurrency_key for item in one]


def test_reads_run_side_by_side_up_to_the_bound_and_results_keep_the_order():
    world = World()
    actions = [scheduled(action_id=str(number), n=number) for number in range(10)]
    seen, listener, _ = schedule(actions, BatchLimits(5, 5, 4), world)
    assert [item.value for item in seen] == list(range(10))
    assert world.most == 4
    assert set(listener.ended) == {str(number) for number in range(10)}


@pytest.mark.parametrize(
    ("risk", "key", "parallel", "mode"),
    [
        (READ, "same", 4, ExecutionMode.AUTO),
        (WRITE, None, 4, ExecutionMode.PARALLEL),
        (ActionRisk.DANGEROUS, None, 4, ExecutionMode.AUTO),
        (READ, None, 1, ExecutionMode.PARALLEL),
        (READ, None, 4, ExecutionMode.SEQUENTIAL),
    ],
)
def test_all_else_runs_alone(risk, key, parallel, mode):
    world = World()
    actions = [scheduled(risk, key, action_id=str(number), n=number) for number in range(5)]
    seen, _, _ = schedule(actions, BatchLimits(5, 5, parallel), world, mode)
    assert world.most == 1
    assert [item.value for item in seen] == list(range(5))


def test_an_action_that_takes_too_long_is_stopped_and_the_others_are_not():
    world = World()
    actions = [scheduled(name="wait", action_id="1"), scheduled(action_id="2", n=2)]
    seen, _, _ = schedule(actions, BatchLimits(0.05, 5, 4), world)
    assert (seen[0].status, seen[0].error_info.code) == (Status.ERROR, ErrorCode.ACTION_TIMEOUT)
    assert seen[0].error_info.details["began"] is True
    assert seen[1].value == 2
    assert world.running == 0


def test_the_batchs_time_fills_the_rest():
    actions = [scheduled(WRITE, name="wait", action_id="1"), scheduled(WRITE, action_id="2"), scheduled(action_id="3")]
    seen, listener, _ = schedule(actions, BatchLimits(5, 0.05, 4))
    assert [item.error_info.code for item in seen] == [ErrorCode.BATCH_TIMEOUT] * 3
    assert [item.error_info.details["began"] for item in seen] == [True, False, False]
    assert listener.began == ["1"]


def test_an_actions_own_time_can_only_be_shorter():
    request = ActionRequest("1", "wait", timeout_s=0.05)
    seen, _, _ = schedule([ScheduledAction(request, READ)], BatchLimits(60, 60, 4))
    assert seen[0].error_info.code is ErrorCode.ACTION_TIMEOUT
    request = ActionRequest("1", "wait", timeout_s=60)
    seen, _, _ = schedule([ScheduledAction(request, READ)], BatchLimits(0.05, 60, 4))
    assert seen[0].error_info.code is ErrorCode.ACTION_TIMEOUT


def test_cancelling_ends_and_awaits_all_of_a_batch():
    world = World()

    async def cancel(task):
        for _ in range(3):
            await world.entries.acquire()
        task.cancel()

    actions = [scheduled(name="wait", action_id=str(number)) for number in range(5)]
    actions.append(scheduled(WRITE, action_id="w"))
    seen, listener, reaper = schedule(actions, BatchLimits(60, 60, 3), world, before=cancel)
    assert isinstance(seen, asyncio.CancelledError)
    assert world.running == 0
    assert {item.status for item in listener.ended.values()} == {Status.CANCELLED}
    assert len(listener.ended) == 6
    assert reaper.failures == []


def test_a_broken_sandbox_ends_its_group_and_every_action_is_accounted_for():
    world = World()
    executor = world.executor()

    async def breaks(arguments, context):
        await world.entered.wait()
        raise SandboxLostError("lost", "gone")

    executor._functions["read"] = breaks
    world.executor = lambda: executor
    actions = [scheduled(name="wait", action_id="1"), scheduled(action_id="2"), scheduled(WRITE, action_id="3")]
    seen, listener, _ = schedule(actions, BatchLimits(60, 60, 4), world)
    assert isinstance(seen, SandboxLostError)
    assert world.running == 0
    assert {name: item.status.value for name, item in listener.ended.items()} == {
        "1": "ERROR",
        "2": "ERROR",
        "3": "SKIPPED",
    }


def test_a_tool_that_ignores_its_cancellation_is_left_and_told():
    stubborn = asyncio.Event()
    world = World()

    async def ignores(arguments, context):
        while not stubborn.is_set():
            try:
                await stubborn.wait()
            except asyncio.CancelledError:
                continue

    executor = world.executor()
    executor._functions["look"] = ignores
    world.executor = lambda: executor
    reaper = Reaper(grace_s=0.05)

    async def main():
        scheduler = ActionScheduler(ActionDispatcher(executor), reaper)
        context = AgentContext("r", "", TaskState(""))
        seen = await scheduler.run([scheduled(name="look")], context, BatchLimits(0.05, 1, 1), Listener())
        stubborn.set()
        await asyncio.sleep(0)
        return seen

    seen = asyncio.run(main())
    assert seen[0].error_info.code is ErrorCode.ACTION_TIMEOUT
    assert [failure.what for failure in reaper.failures] == ["1"]


def test_a_result_that_comes_while_it_is_stopped_is_the_truth():
    async def answers_late(arguments, context):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done after all"

    world = World()
    executor = world.executor()
    executor._functions["look"] = answers_late
    world.executor = lambda: executor
    seen, _, _ = schedule([scheduled(name="look")], BatchLimits(0.02, 1, 1), world)
    assert (seen[0].status, seen[0].value) == (Status.SUCCESS, "done after all")


def test_a_session_tightens_the_runs_bound():
    for policy, most in ((None, 4), (SessionPolicy(), 1), (SessionPolicy(max_parallel_actions=2), 2)):
        world = World()
        run(AgentDecision.act(*[action(str(n), "read", n=n) for n in range(8)]), world=world, policy=policy)
        assert world.most == most
    assert RunConfig().max_parallel_actions == 4
    assert SessionPolicy().max_parallel_actions == 1


def test_parallel_can_be_switched_off():
    world = World()
    config = RunConfig(parallel=False, heartbeat_s=0.0)
    run(AgentDecision.act(*[action(str(n), "read", n=n) for n in range(4)]), world=world, config=config)
    assert world.most == 1


def test_cancelling_a_run_reaps_its_whole_batch():
    async def main():
        made = Made(act("1:wait", "2:wait", "3:wait"))
        task = asyncio.create_task(made.run())
        await made.heard.until("action_started", 3)
        assert made.runtime.cancel("run-1")
        result = await task
        assert made.world.running == 0
        return result, made

    result, made = asyncio.run(main())
    assert result.outcome.value == "cancelled"
    assert [item.status for item in result.observations] == [Status.CANCELLED] * 3
    assert made.heard.types.count("action_cancelled") == 3


def test_infinity_is_no_limit():
    seen, _, _ = schedule([scheduled(n=1)], BatchLimits(math.inf, math.inf, 1))
    assert seen[0].value == 1
