"""Agents below agents: bounds, queues, cancellation, and what can be seen of it."""

import asyncio
import random

import pytest

from mindx import (
    ActionRisk,
    AgentDecision,
    AgentOrchestrator,
    AgentTaskEventType,
    AgentTaskState,
    AgentWorkerSpec,
    InputError,
    RunConfig,
    RunOutcome,
    SessionEnvironment,
    SessionPolicy,
    Status,
)
from tests.agents.society import READ_ONLY, Society, ask, delegate, until, waits
from tests.agents.support import act


def in_time(story):
    """Run a story; what hangs fails."""
    return asyncio.run(asyncio.wait_for(story, 30))


def test_an_agent_asks_another_and_tree_and_graph_tell():
    async def story():
        society = Society({"chief": delegate("clerk"), "clerk": lambda context: f"did {context.task}"})
        async with society.orchestrator as orchestrator:
            result = await orchestrator.run_agent("chief", "the books", task_id="top")
            (tree,) = orchestrator.execution_tree()
            return result, tree, orchestrator.execution_graph(), orchestrator.task_view("top")

    result, tree, graph, view = in_time(story())
    assert (result.outcome, result.final_answer) == (RunOutcome.FINAL, "did the books")
    (child,) = tree["children"]
    assert (tree["task_id"], child["agent"], child["parent_id"], child["depth"]) == ("top", "clerk", "top", 2)
    assert child["outcome"] == "final"
    assert child["state"] == "ended"
    assert graph["edges"] == [{"from": "top", "to": child["task_id"], "kind": "parent"}]
    assert [node["agent"] for node in graph["nodes"]] == ["chief", "clerk"]
    assert (view.state, view.children) == (AgentTaskState.ENDED, (child["task_id"],))


def test_the_observation_of_a_child_tells_how_it_ended():
    seen = []

    def chief(context):
        if context.step == 1:
            return ask("good", "loops", "unknown")
        seen.extend(context.observations)
        return "done"

    async def story():
        config = RunConfig(max_steps=1, heartbeat_s=0.0)
        society = Society(
            {"chief": chief, "good": lambda context: "yes", "loops": lambda context: act("look")},
            {"loops": {"config": config}},
        )
        async with society.orchestrator as orchestrator:
            return await orchestrator.run_agent("chief", "go")

    assert in_time(story()).ok
    assert [item.status for item in seen] == [Status.SUCCESS, Status.FAILURE, Status.ERROR]
    assert (seen[0].result["final_answer"], seen[0].result["agent"]) == ("yes", "good")
    assert seen[1].result["outcome"] == "partial"
    assert "step" in seen[1].message
    assert "the agents are chief, good, loops" in seen[2].message


def test_no_more_than_the_bound_run_at_once_and_the_rest_waits():
    async def story():
        gate, running = asyncio.Event(), []
        society = Society({"slow": waits(gate, running)}, max_concurrent_tasks=3)
        async with society.orchestrator as orchestrator:
            tasks = [asyncio.create_task(orchestrator.run_agent("slow", "x", task_id=f"t{n}")) for n in range(10)]
            await until(lambda: len(running) == 3)
            for _ in range(50):
                await asyncio.sleep(0)
            states = [orchestrator.task_view(f"t{n}").state for n in range(10)]
            most = len(running)
            gate.set()
            return most, states, [(await task).outcome for task in tasks]

    most, states, outcomes = in_time(story())
    assert most == 3
    assert states.count(AgentTaskState.RUNNING) == 3
    assert states.count(AgentTaskState.QUEUED) == 7
    assert outcomes == [RunOutcome.FINAL] * 10


def test_the_background_has_a_bound_of_its_own():
    async def story():
        gate, running = asyncio.Event(), []
        society = Society({"slow": waits(gate, running)}, max_background_tasks=2)
        async with society.orchestrator as orchestrator:
            ids = [await orchestrator.start_agent("slow", "x") for _ in range(5)]
            front = asyncio.create_task(orchestrator.run_agent("slow", "x", task_id="front"))
            await until(lambda: "front" in running and len(running) == 3)
            gate.set()
            return [(await orchestrator.wait_task(name)).outcome for name in ids], (await front).outcome

    assert in_time(story()) == ([RunOutcome.FINAL] * 5, RunOutcome.FINAL)


def test_parents_that_wait_for_children_never_block_them():
    """One place for all: each level lends it to the next."""

    async def story():
        minds = {"a": delegate("b", "b"), "b": delegate("c", "c"), "c": delegate("d"), "d": lambda context: "d"}
        society = Society(minds, dict.fromkeys(minds, READ_ONLY), max_concurrent_tasks=1)
        async with society.orchestrator as orchestrator:
            results = await asyncio.gather(*(orchestrator.run_agent("a", "x") for _ in range(3)))
            return [result.final_answer for result in results], len(orchestrator.execution_graph()["nodes"])

    assert in_time(story()) == (["d+d+d+d"] * 3, 3 * (1 + 2 + 4 + 4))


def test_a_parent_that_waits_for_its_background_child_lends_both_places():
    async def story():
        async def chief(context):
            name = await society.orchestrator.start_agent("clerk", "x")
            return (await society.orchestrator.wait_task(name)).final_answer

        society = Society(
            {"chief": chief, "clerk": lambda context: "ok"}, max_concurrent_tasks=1, max_background_tasks=1
        )
        async with society.orchestrator as orchestrator:
            ids = [await orchestrator.start_agent("chief", "x") for _ in range(3)]
            return [(await orchestrator.wait_task(name)).final_answer for name in ids]

    assert in_time(story()) == ["ok"] * 3


def test_depth_and_children_are_bounded_and_the_agent_is_told():
    async def story():
        minds = {"deep": delegate("deep"), "wide": delegate(*["leaf"] * 4), "leaf": lambda context: "leaf"}
        society = Society(minds, max_task_depth=3, max_children_per_task=2)
        async with society.orchestrator as orchestrator:
            deep = await orchestrator.run_agent("deep", "x")
            wide = await orchestrator.run_agent("wide", "x")
            return deep, wide, max(node["depth"] for node in orchestrator.execution_graph()["nodes"])

    deep, wide, depth = in_time(story())
    assert (deep.final_answer, depth) == ("ERROR", 3)
    assert wide.final_answer == "leaf+leaf+ERROR+ERROR"


def test_the_time_of_a_task_is_bounded():
    async def story():
        society = Society({"slow": waits(asyncio.Event(), [])}, task_timeout_s=0.05)
        async with society.orchestrator as orchestrator:
            return await orchestrator.run_agent("slow", "x")

    result = in_time(story())
    assert (result.outcome, result.state.value) == (RunOutcome.PARTIAL, "timeout")


def test_cancelling_a_parent_cancels_all_below_it():
    async def story():
        running = []
        minds = {"a": delegate("b"), "b": delegate("c"), "c": waits(asyncio.Event(), running)}
        society = Society(minds)
        async with society.orchestrator as orchestrator:
            top = await orchestrator.start_agent("a", "x")
            await until(lambda: running)
            assert await orchestrator.cancel_task(top) is True
            left = list(running)
            nodes = orchestrator.execution_graph()["nodes"]
            return left, [node["outcome"] for node in nodes], await orchestrator.cancel_task(top)

    assert in_time(story()) == ([], ["cancelled"] * 3, False)


def test_a_task_that_waits_in_the_queue_is_cancelled_there():
    async def story():
        gate, running = asyncio.Event(), []
        society = Society({"slow": waits(gate, running)}, max_concurrent_tasks=1)
        async with society.orchestrator as orchestrator:
            first = await orchestrator.start_agent("slow", "x")
            second = await orchestrator.start_agent("slow", "x")
            third = await orchestrator.start_agent("slow", "x")
            assert await orchestrator.cancel_task(third)  # before it could take its first step
            await until(lambda: running)
            assert await orchestrator.cancel_task(second)
            gate.set()
            return [(await orchestrator.wait_task(name)).outcome.value for name in (first, second, third)]

    assert in_time(story()) == ["final", "cancelled", "cancelled"]


def test_cancelling_the_caller_cancels_and_awaits_the_task():
    async def story():
        running = []
        society = Society({"chief": delegate("slow"), "slow": waits(asyncio.Event(), running)})
        async with society.orchestrator as orchestrator:
            caller = asyncio.create_task(orchestrator.run_agent("chief", "x", task_id="top"))
            await until(lambda: running)
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
            return list(running), [node["outcome"] for node in orchestrator.execution_graph()["nodes"]]

    assert in_time(story()) == ([], ["cancelled"] * 2)


def test_the_end_of_a_parent_ends_its_background_children_first():
    async def story():
        running = []

        async def chief(context):
            for _ in range(3):
                await society.orchestrator.start_agent("slow", "x")
            await until(lambda: len(running) == 3)
            return "I am done"

        society = Society({"chief": chief, "slow": waits(asyncio.Event(), running)})
        async with society.orchestrator as orchestrator:
            result = await orchestrator.run_agent("chief", "x")
            at_return = list(running)
            (tree,) = orchestrator.execution_tree()
            return result, at_return, [child["outcome"] for child in tree["children"]]

    result, at_return, outcomes = in_time(story())
    assert (result.final_answer, at_return, outcomes) == ("I am done", [], ["cancelled"] * 3)


def test_a_task_whose_parent_has_ended_is_refused():
    async def story():
        society = Society({"quick": lambda context: "ok"})
        async with society.orchestrator as orchestrator:
            await orchestrator.run_agent("quick", "x", task_id="top")
            await orchestrator.run_agent("quick", "x", parent_id="top")

    with pytest.raises(InputError) as caught:
        in_time(story())
    assert caught.value.code == "agent_parent_ended"


def test_a_task_cannot_wait_for_itself():
    async def story():
        async def chief(context):
            try:
                await society.orchestrator.wait_task("top")
            except InputError as error:
                return error.code

        society = Society({"chief": chief})
        async with society.orchestrator as orchestrator:
            return (await orchestrator.run_agent("chief", "x", task_id="top")).final_answer

    assert in_time(story()) == "task_waits_for_itself"


def test_a_child_may_do_what_it_and_its_parent_may(tmp_path):
    (tmp_path / "in").mkdir()
    own = SessionPolicy(allowed_tools=frozenset({"look", "write"}), allow_dangerous=True, max_parallel_actions=5)
    above = SessionPolicy(
        allowed_tools=frozenset({"look", "read", "clerk", "other"}), allow_write=False, max_parallel_actions=3
    )

    async def story():
        society = Society(
            {"chief": delegate("clerk", "other"), "clerk": lambda context: "ok", "other": lambda context: "ok"},
            {
                "chief": {"policy": above, "environment": SessionEnvironment(tmp_path / "in", {"A": "1", "B": "2"})},
                "clerk": {
                    **READ_ONLY,
                    "policy": own,
                    "environment": SessionEnvironment(tmp_path / "in", {"A": "1", "B": "9"}),
                },
                "other": {**READ_ONLY, "environment": SessionEnvironment(tmp_path)},
            },
        )
        async with society.orchestrator as orchestrator:
            result = await orchestrator.run_agent("chief", "x")
        return result, society.contexts["clerk"][0]

    result, context = in_time(story())
    assert result.final_answer == "ok+ERROR"  # the other's folder is not its parent's
    assert context.policy == SessionPolicy(allowed_tools=frozenset({"look"}), allow_write=False, max_parallel_actions=3)
    assert (context.environment.workspace_root, context.environment.env_vars) == (tmp_path / "in", {"A": "1"})
    assert context.config.interactive is False


def test_what_an_agent_may_do_at_most_is_enforced():
    """An agent that counts as READ_ONLY writes nothing, whatever its own runtime would let it do."""

    def reader(context):
        return act("write") if context.step == 1 else context.observations[0].status.value

    async def story():
        society = Society({"reader": reader}, {"reader": READ_ONLY})
        async with society.orchestrator as orchestrator:
            task = asyncio.create_task(orchestrator.run_agent("reader", "x", task_id="top"))
            worker = orchestrator.worker("reader").runtime
            await until(lambda: worker.get_run_status("top") and worker.get_run_status("top").pending_user_input)
            worker.respond_to_user("top", "no")
            return (await task).final_answer, society.world.calls

    answer, calls = in_time(story())
    assert calls == []
    assert answer != "SUCCESS"


def test_only_agents_that_only_read_run_side_by_side():
    async def side_by_side(risk):
        gate, running = asyncio.Event(), []
        society = Society({"chief": delegate("slow", "slow"), "slow": waits(gate, running)}, {"slow": {"risk": risk}})
        async with society.orchestrator as orchestrator:
            task = asyncio.create_task(orchestrator.run_agent("chief", "x"))
            await until(lambda: running)
            for _ in range(50):
                await asyncio.sleep(0)
            most = len(running)
            gate.set()
            await task
            return most

    assert in_time(side_by_side(ActionRisk.READ_ONLY)) == 2
    assert in_time(side_by_side(ActionRisk.WRITE)) == 1


def test_events_are_replayed_and_followed_to_the_end():
    async def story():
        society = Society({"chief": delegate("clerk"), "clerk": lambda context: "ok"})
        orchestrator = society.orchestrator
        await orchestrator.run_agent("chief", "x", task_id="one")

        async def all_of(replay):
            return [event async for event in orchestrator.watch_events(replay)]

        readers = [asyncio.create_task(all_of(replay)) for replay in (True, False)]
        await asyncio.sleep(0)
        await orchestrator.run_agent("clerk", "x", task_id="two")
        await orchestrator.close()
        return [await reader for reader in readers]

    everything, news = in_time(story())
    assert [event.seq for event in everything] == list(range(9))
    assert {event.task_id for event in news} == {"two"}
    assert [event.event_type for event in news] == [
        AgentTaskEventType.TASK_QUEUED,
        AgentTaskEventType.TASK_STARTED,
        AgentTaskEventType.TASK_ENDED,
    ]
    assert [event.agent for event in everything if event.parent_id == "one"] == ["clerk"] * 3


def test_records_and_events_are_bounded_and_ends_are_kept_longest():
    async def story():
        society = Society({"quick": lambda context: "ok"}, max_records=3, max_events=6)
        orchestrator = society.orchestrator
        for number in range(10):
            await orchestrator.run_agent("quick", "x", task_id=f"t{number}")
        await orchestrator.close()
        events = [event async for event in orchestrator.watch_events()]
        return [node["task_id"] for node in orchestrator.execution_graph()["nodes"]], events

    nodes, events = in_time(story())
    assert nodes == ["t7", "t8", "t9"]
    assert len(events) == 6
    assert {event.event_type for event in events} == {AgentTaskEventType.TASK_ENDED}


def test_a_queue_that_is_full_refuses():
    async def story():
        society = Society({"slow": waits(asyncio.Event(), [])}, max_concurrent_tasks=1, max_queued_tasks=2)
        async with society.orchestrator as orchestrator:
            for _ in range(2):
                await orchestrator.start_agent("slow", "x")
            await orchestrator.start_agent("slow", "x")

    with pytest.raises(InputError) as caught:
        in_time(story())
    assert caught.value.code == "orchestrator_full"


def test_close_ends_all_work_refuses_more_and_leaves_the_workers():
    async def story():
        running = []
        society = Society({"slow": waits(asyncio.Event(), running)}, max_concurrent_tasks=2)
        orchestrator = society.orchestrator
        ids = [await orchestrator.start_agent("slow", "x") for _ in range(4)]
        front = asyncio.create_task(orchestrator.run_agent("slow", "x"))
        await until(lambda: len(running) == 2)
        reports = await asyncio.gather(orchestrator.close(), orchestrator.close())
        assert all(report.ok for report in reports)
        assert running == []
        assert (await front).outcome is RunOutcome.CANCELLED
        outcomes = {orchestrator.task_view(name).outcome for name in ids}
        for start in (orchestrator.run_agent, orchestrator.start_agent):
            with pytest.raises(InputError) as caught:
                await start("slow", "x")
            assert caught.value.code == "orchestrator_closed"
        worker = orchestrator.worker("slow").runtime
        worker.check_open()  # it is the caller's
        await orchestrator.close(close_workers=True)
        with pytest.raises(InputError, match="closed"):
            worker.check_open()
        return outcomes

    assert in_time(story()) == {RunOutcome.CANCELLED}


def test_a_runtime_that_refuses_is_the_tasks_result():
    async def story():
        society = Society({"quick": lambda context: "ok"})
        async with society.orchestrator as orchestrator:
            await orchestrator.worker("quick").runtime.close()
            return await orchestrator.run_agent("quick", "x")

    result = in_time(story())
    assert result.outcome is RunOutcome.ERROR
    assert "closed" in result.error


@pytest.mark.parametrize(("arguments", "problem"), [({}, "`task` is a text"), ({"task": "x", "y": 1}, "only argument")])
def test_arguments_that_do_not_fit_are_told(arguments, problem):
    from mindx import ActionRequest, ActionType

    seen = []

    def chief(context):
        if context.step == 1:
            return AgentDecision.act(ActionRequest("a", "chief", arguments, ActionType.AGENT))
        seen.extend(context.observations)
        return "done"

    async def story():
        society = Society({"chief": chief})
        async with society.orchestrator as orchestrator:
            await orchestrator.run_agent("chief", "x")

    in_time(story())
    assert problem in seen[0].message


def test_two_agents_of_one_name_and_bounds_that_are_none_are_refused():
    society = Society({"one": lambda context: "ok"})
    runtime = society.orchestrator.worker("one").runtime
    for make, code in (
        (lambda: society.orchestrator.register(AgentWorkerSpec("one", runtime)), "agent_twice"),
        (lambda: society.orchestrator.worker("on"), "agent_unknown"),
        (lambda: AgentOrchestrator(max_concurrent_tasks=0), "orchestrator_bounds"),
        (lambda: AgentWorkerSpec("a b", runtime), "id_invalid"),
    ):
        with pytest.raises(InputError) as caught:
            make()
        assert caught.value.code == code


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_started_waited_for_and_cancelled_all_of_it_ends(seed):
    """Random trees in few places, with cancellations at random moments: nothing hangs, and no place is lost."""
    chance = random.Random(seed)

    async def mind(context):
        orchestrator = society.orchestrator
        started = []
        for _ in range(chance.randrange(4)):
            for _ in range(chance.randrange(5)):
                await asyncio.sleep(0)
            try:
                if chance.random() < 0.5:
                    await orchestrator.run_agent("one", "x")
                else:
                    started.append(await orchestrator.start_agent("one", "x"))
            except InputError as error:
                if error.code not in ("agent_depth", "agent_children", "agent_parent_ended"):
                    raise
        for name in started:
            if chance.random() < 0.7:
                await orchestrator.wait_task(name)
        return "ok"

    async def story():
        async with society.orchestrator as orchestrator:
            roots = [await orchestrator.start_agent("one", "x") for _ in range(6)]
            for _ in range(10):
                for _ in range(chance.randrange(40)):
                    await asyncio.sleep(0)
                nodes = [node["task_id"] for node in orchestrator.execution_graph()["nodes"] if not node["outcome"]]
                if nodes:
                    await orchestrator.cancel_task(chance.choice(nodes))
            for name in roots:
                await orchestrator.wait_task(name)
            # Every place is free again: as many as there are can be taken at once.
            gate, running = asyncio.Event(), []
            orchestrator.register(AgentWorkerSpec("slow", society.runtime("one", waits(gate, running))))
            last = [await orchestrator.start_agent("slow", "x") for _ in range(2)]
            await until(lambda: len(running) == 2)
            gate.set()
            return {(await orchestrator.wait_task(name)).outcome for name in last}, orchestrator.execution_graph()

    society = Society({"one": mind}, max_concurrent_tasks=2, max_background_tasks=2, max_children_per_task=3)
    outcomes, graph = in_time(story())
    assert outcomes == {RunOutcome.FINAL}
    assert {node["outcome"] for node in graph["nodes"]} <= {"final", "cancelled"}
