"""Interactions: kept before anything is done, done once, judged by who asks, and true to what happened."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from mindx.agents.beliefs import BeliefSystem
from mindx.agents.coordinator import interaction_store
from mindx.agents.coordinator.coordinator import CoordinatorAgent
from mindx.agents.coordinator.interaction import Interaction, InteractionStatus, InteractionType
from mindx.errors import InputError, StateError
from mindx.policy.load import load_policy
from tests.mind.coordinator_support import TOOL, Improver, in_coordinator

IMPROVE = InteractionType.COMPONENT_IMPROVEMENT
ROOT = Path(__file__).parents[2]


def test_an_interaction_has_the_fields_of_the_seeds_and_reads_back(tmp_path):
    async def work(made):
        metadata = {**TOOL, "source": "mastermind", "analysis_context": "why"}
        asked = made.create_interaction(IMPROVE, "a new tool", metadata=metadata, agent_id="mastermind", key="k1")
        ended = await made.process_interaction(asked)
        assert [entry.message for entry in ended.history] == ["asked", "began", "done"]
        assert asked.status is InteractionStatus.PENDING
        assert made.interactions.get(asked.interaction_id) == ended == Interaction.from_dict(ended.to_dict())
        return ended.to_dict()

    improver = Improver()
    document = in_coordinator(tmp_path, work, improve=improver)
    assert set(document) == {
        *("interaction_id", "interaction_type", "content", "user_id", "agent_id", "metadata", "key", "status"),
        *("response", "error", "created_at", "started_at", "completed_at", "history"),
    }
    assert document["status"] == "completed"
    assert document["metadata"]["tool_spec"] == TOOL["tool_spec"]  # the whole specification travels
    assert document["response"]["status"] == "SUCCESS"  # what the improvement agent said is the response
    [request] = improver.requests
    assert request.tool_spec.id == "word_count"
    assert (request.interaction_id, request.workspace) == (document["interaction_id"], None)
    assert "why" in request.context


@pytest.mark.parametrize("own", [False, True])
def test_improvements_are_made_under_the_coordinators_policy(tmp_path, own):
    """The process of the improvement agent gets what is in force here, all layers together, unless another is named."""
    improver, policy = Improver(), load_policy("read-only")

    async def work(made):
        return await made.ask(IMPROVE, "a new tool", metadata=TOOL, agent_id="mastermind")

    config = {"improvement_policy": "python-dev"} if own else {}
    in_coordinator(tmp_path, work, improve=improver, policy=policy, config=config)
    [request] = improver.requests
    assert load_policy(request.policy).policy.limits == load_policy("python-dev" if own else "read-only").policy.limits
    assert load_policy(request.policy).policy.name == ("python-dev" if own else "read-only")
    assert (tmp_path / "policy.yaml").exists() is not own


def test_each_type_is_routed_to_what_does_it(tmp_path):
    async def work(made):
        heard = []
        made.subscribe("news", lambda event: heard.append(event.data["n"]))
        told = await made.ask("publish_event", "", metadata={"topic": "news", "data": {"n": 7}}, agent_id="bdi")
        assert (told.response["delivered"], heard) == (1, [7])
        known = {"agent_id": "helper", "agent_type": "scout", "layer": "bdi", "capabilities": ["look"]}
        named = await made.ask("agent_registration", "", metadata=known, agent_id="mastermind")
        assert named.response["layer"] == made.agents.get("helper").layer.value == "bdi"
        state = await made.ask("query", "", agent_id="agint")
        assert {agent["agent_id"] for agent in state.response["state"]["agents"]} >= {"helper", "coordinator"}
        assert state.response["answer"] is None  # there is no model here
        for kind in ("system_analysis", "component_improvement"):
            missing = await made.ask(kind, "", user_id="ann")
            assert (missing.status, missing.error.exit_code) == (InteractionStatus.FAILED, 2)

    in_coordinator(tmp_path, work)


def test_the_same_key_is_the_same_interaction_and_is_done_once(tmp_path):
    async def work(made):
        ask = {"metadata": TOOL, "agent_id": "mastermind", "key": "once"}
        first = await made.ask(IMPROVE, "a tool", **ask)
        again = await made.ask(IMPROVE, "a tool", **ask)
        assert again == first
        with pytest.raises(InputError) as caught:
            made.create_interaction(IMPROVE, "another tool", **ask)
        assert caught.value.code == "interaction_key_taken"
        theirs = made.create_interaction(IMPROVE, "a tool", metadata=TOOL, agent_id="bdi", key="once")
        assert theirs.interaction_id != first.interaction_id  # nobody takes another's key
        others = [made.create_interaction(IMPROVE, "a tool", metadata=TOOL, agent_id="mastermind") for _ in range(2)]
        assert len({first.interaction_id, *(one.interaction_id for one in others)}) == 3

    improver = Improver()
    in_coordinator(tmp_path, work, improve=improver)
    assert len(improver.requests) == 1
    in_coordinator(tmp_path, work, improve=improver)  # and so it is after a restart
    assert len(improver.requests) == 1


def test_who_asks_for_the_same_at_the_same_time_waits_for_the_one_that_does_it(tmp_path):
    async def work(made):
        improver.gate.clear()
        asked = made.create_interaction(IMPROVE, "a tool", metadata=TOOL, agent_id="mastermind")
        many = [asyncio.create_task(made.process_interaction(asked.interaction_id)) for _ in range(5)]
        await improver.asked.wait()
        improver.gate.set()
        ended = await asyncio.gather(*many)
        assert all(one == ended[0] and one.ok for one in ended)

    improver = Improver()
    in_coordinator(tmp_path, work, improve=improver)
    assert len(improver.requests) == 1


def test_improvements_run_one_at_a_time_and_others_do_not_wait_for_them(tmp_path):
    async def work(made):
        improver.gate.clear()
        asked = [made.create_interaction(IMPROVE, str(n), metadata=TOOL, agent_id="mastermind") for n in range(4)]
        many = [asyncio.create_task(made.process_interaction(one)) for one in asked]
        await improver.asked.wait()
        assert (await made.ask("query", "", agent_id="bdi")).ok
        waiting = [made.interactions.get(one.interaction_id).status for one in asked]
        assert sorted(status.value for status in waiting) == ["in_progress", "pending", "pending", "pending"]
        improver.gate.set()
        assert all(one.ok for one in await asyncio.gather(*many))

    improver = Improver()
    in_coordinator(tmp_path, work, improve=improver)
    assert (improver.most, len(improver.requests)) == (1, 4)


def test_a_failure_is_kept_with_its_reason_and_its_answer(tmp_path):
    async def work(made):
        heard = []
        made.subscribe("component.improvement.failure", lambda event: heard.append(event.data))
        ended = await made.ask(IMPROVE, "a tool", metadata=TOOL, agent_id="mastermind")
        assert (ended.status, ended.error.code) == (InteractionStatus.FAILED, "improvement_failed")
        assert "the tests were red" in ended.error.message
        assert ended.response["data"]["final_status"] == "FAILED_EVALUATION"
        assert heard[0]["interaction_id"] == ended.interaction_id
        assert await made.process_interaction(ended) == ended

    improver = Improver("the tests were red")
    in_coordinator(tmp_path, work, improve=improver)
    assert len(improver.requests) == 1


def test_an_improvement_agent_that_breaks_its_promise_is_a_failure(tmp_path):
    async def bug(request):
        raise ZeroDivisionError("a secret detail")

    async def rubbish(request):
        return {"status": "SUCCESS"}

    async def hang(request):
        await asyncio.Event().wait()

    async def work(made):
        return await made.ask(IMPROVE, "a tool", metadata=TOOL, agent_id="mastermind")

    for improve, code in ((bug, "internal_error"), (rubbish, "improvement_failed"), (hang, "improvement_failed")):
        ended = in_coordinator(tmp_path, work, improve=improve, config={"improvement_timeout_s": 0.05})
        assert (ended.status, ended.error.code) == (InteractionStatus.FAILED, code)
        assert "secret" not in ended.error.message


def test_a_cancelled_interaction_says_so_and_is_not_done_again(tmp_path):
    async def work(made):
        improver.gate.clear()
        asked = made.create_interaction(IMPROVE, "a tool", metadata=TOOL, agent_id="mastermind")
        task = asyncio.create_task(made.process_interaction(asked))
        await improver.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert improver.running == 0
        ended = await made.process_interaction(asked)
        assert ended.status is InteractionStatus.CANCELLED

    improver = Improver()
    in_coordinator(tmp_path, work, improve=improver)
    assert len(improver.requests) == 1


HOST = """
import asyncio, sys
from pathlib import Path
from tests.mind.coordinator_support import TOOL, coordinator

async def improve(request):
    print(request.interaction_id, flush=True)
    await asyncio.Event().wait()

async def main():
    async with coordinator(Path(sys.argv[1]), improve=improve) as made:
        item, _ = made.backlog.add("tool.py", "make the tool")
        asked = made.create_interaction(
            "component_improvement", "a tool", metadata=TOOL, agent_id="mastermind", key="k"
        )
        made.backlog.change(item.item_id, frozenset({item.status}), interaction_id=asked.interaction_id)
        await made.process_interaction(asked)

asyncio.run(main())
"""


def test_a_host_that_is_killed_in_the_middle_leaves_an_interaction_that_says_so_and_is_not_repeated(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOST, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT, text=True
    ) as host:
        interaction_id = host.stdout.readline().strip()
        assert interaction_id.startswith("int_")
        os.kill(host.pid, signal.SIGKILL)
        host.wait(10)

    async def work(made):
        assert [one.interaction_id for one in made.interrupted] == [interaction_id]
        same = made.create_interaction(IMPROVE, "a tool", metadata=TOOL, agent_id="mastermind", key="k")
        ended = await made.process_interaction(same)
        assert (ended.interaction_id, ended.status) == (interaction_id, InteractionStatus.INTERRUPTED)
        assert "not known" in ended.history[-1].message
        [item] = made.backlog.list()
        assert item.status.value == "interrupted"
        assert await made.worker.work_once() is None
        # A person can have it done again: that is a new Interaction.
        made.consent.approve(item.item_id, "ann")
        return item.item_id

    improver = Improver()
    in_coordinator(tmp_path, work, improve=improver)
    assert improver.requests == []


def test_an_agent_asks_for_what_its_layer_may_and_only_a_person_approves(tmp_path):
    async def work(made):
        for agent in ("mastermind", "agint", "bdi", "improvement", "tool"):
            for kind in ("approve_improvement", "reject_improvement", "rollback_component"):
                ended = await made.ask(kind, "", metadata={"backlog_item_id": item_id}, agent_id=agent)
                assert (ended.status, ended.error.code) == (InteractionStatus.FAILED, "constitution_forbids")
                assert ended.error.exit_code == 3
        for agent in ("agint", "bdi", "improvement", "tool"):
            ended = await made.ask(IMPROVE, "a tool", metadata=TOOL, agent_id=agent)
            assert ended.error.code == "constitution_forbids"
        assert made.backlog.get(item_id) == item

    async def add(made):
        return made.backlog.add("src/a.py", "make it better", critical=True)[0]

    item = in_coordinator(tmp_path, add)
    item_id = item.item_id
    improver = Improver()
    in_coordinator(tmp_path, work, improve=improver)
    assert improver.requests == []


def test_the_log_tells_who_asked_for_what_and_how_it_ended(tmp_path, caplog):
    async def work(made):
        await made.ask(IMPROVE, "a tool", metadata=TOOL, agent_id="mastermind")

    with caplog.at_level("INFO", logger="coordinator"):
        in_coordinator(tmp_path, work, improve=Improver("the tests were red"))
    told = [record.getMessage().partition("(")[2] for record in caplog.records if record.name == "coordinator"]
    assert told == [
        "component_improvement of mastermind): began",
        "component_improvement of mastermind): the tests were red",
    ]


def test_no_agent_tells_what_only_the_coordinator_has_seen(tmp_path):
    async def work(made):
        heard = []
        made.subscribe("*", lambda event: heard.append(event.topic))
        for topic in (
            "component.improvement.success",
            "Resource.alert",
            "agent.registered",
            " agent.x",
            "../agent.x",
            "",
        ):
            ended = await made.ask("publish_event", "", metadata={"topic": topic}, agent_id="mastermind")
            assert ended.error.code == "constitution_forbids"
        assert heard == []

    in_coordinator(tmp_path, work)


def test_nobody_makes_agents_of_its_own_layer_or_above(tmp_path):
    async def work(made):
        for layer, good in (("mastermind", False), ("coordinator", True), ("tool", True), ("king", False)):
            metadata = {"agent_id": f"new-{layer}", "agent_type": "x", "layer": layer}
            ended = await made.ask("agent_registration", "", metadata=metadata, agent_id="mastermind")
            assert ended.ok is good
        with pytest.raises(InputError) as caught:
            made.register_agent("bdi", "mastermind")  # who is known stays of its layer
        assert caught.value.code == "agent_layer_fixed"
        # Without a layer that is named, an agent is trusted least.
        assert made.register_agent("stranger", "whatever").layer.value == "tool"

    in_coordinator(tmp_path, work)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"agent_id": "nobody"}, "agent_unknown"),
        ({}, "interaction_invalid"),
        ({"agent_id": "bdi", "user_id": "ann"}, "interaction_invalid"),
        ({"agent_id": "bdi", "metadata": {"a": object()}}, "interaction_invalid"),
        ({"agent_id": "bdi", "metadata": {"a": float("nan")}}, "interaction_invalid"),
        ({"agent_id": "bdi", "metadata": {"a": "x" * 2_000_000}}, "interaction_invalid"),
        ({"agent_id": "bdi", "metadata": {"a": "\ud800"}}, "interaction_invalid"),
        ({"agent_id": "bdi", "content": "\ud800"}, "interaction_invalid"),
        ({"agent_id": "bdi", "content": "x" * 200_000}, "interaction_invalid"),
        ({"agent_id": "bdi", "interaction_type": "world_peace"}, "interaction_invalid"),
    ],
)
def test_what_is_no_interaction_is_refused_when_it_is_made(tmp_path, given, code):
    async def work(made):
        arguments = {"interaction_type": "query", "content": "how is it?", **given}
        with pytest.raises(InputError) as caught:
            made.create_interaction(arguments.pop("interaction_type"), arguments.pop("content"), **arguments)
        assert caught.value.code == code
        assert made.interactions.counts() == {}

    in_coordinator(tmp_path, work)


@pytest.mark.parametrize("extra", ["workspace", "policy", "script", "logs", "approved", "layer"])
def test_a_request_cannot_choose_folders_policies_or_approvals(tmp_path, extra):
    async def work(made):
        return await made.ask(IMPROVE, "a tool", metadata={**TOOL, extra: "/etc"}, agent_id="mastermind")

    improver = Improver()
    ended = in_coordinator(tmp_path, work, improve=improver)
    assert (ended.error.code, improver.requests) == ("improvement_invalid", [])


def test_one_folder_has_one_coordinator(tmp_path):
    async def work(made):
        with pytest.raises(InputError) as caught:
            CoordinatorAgent(tmp_path, beliefs=made.beliefs)
        assert caught.value.code == "coordinator_in_use"
        assert (await made.ask("query", "", agent_id="bdi")).ok
        await made.close()  # twice is once

    in_coordinator(tmp_path, work)


def held_files(folder):
    """Return the names of the folder's files that this process has open."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(os.readlink(link))
    return {Path(name).name for name in found if name.startswith(f"{folder}/")}


def test_close_lets_go_of_the_files_also_when_it_is_cancelled_and_later_use_is_told(tmp_path):
    """While somebody still holds the coordinator: not only once it is collected."""

    async def main():
        beliefs = BeliefSystem(tmp_path / "beliefs.sqlite3")
        made = CoordinatorAgent(tmp_path, beliefs=beliefs)
        made.start()
        assert "coordinator.sqlite3" in held_files(tmp_path)
        closing = asyncio.create_task(made.close())
        await asyncio.sleep(0)  # it waits for what `start` began
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert {name for name in held_files(tmp_path) if "beliefs" not in name} == set()
        await made.close()
        beliefs.close()
        assert held_files(tmp_path) == set()
        uses = (
            made.agents.list,
            made.state,
            made.start,
            lambda: made.subscribe("t", print),
            lambda: made.create_interaction("query", "", user_id="ann"),
        )
        for use in uses:
            with pytest.raises(StateError, match=r"coordinator\.sqlite3 cannot be used: it was closed") as caught:
                use()
            assert caught.value.code == "coordinator_closed"
        for later in (made.publish("t"), made.ask("query", "", user_id="ann"), made.analyze_system()):
            with pytest.raises(StateError, match="it was closed"):
                await later
        for use in (lambda: beliefs.add("k", 1), lambda: beliefs.get("k"), lambda: beliefs.subscribe(print)):
            with pytest.raises(StateError) as caught:
                use()
            assert caught.value.code == "beliefs_closed"
        async with CoordinatorAgent(tmp_path, beliefs=BeliefSystem()) as again:
            assert again.state()["backlog"] == {}

    asyncio.run(main())


def test_a_damaged_database_is_told_and_left_as_it_is(tmp_path):
    rubbish = b"this is no database" * 1000
    (tmp_path / "coordinator.sqlite3").write_bytes(rubbish)
    with pytest.raises(StateError) as caught:
        in_coordinator(tmp_path, lambda made: made.ask("query", "", agent_id="bdi"))
    assert caught.value.code.startswith("coordinator_")
    assert "coordinator.sqlite3" in caught.value.message
    assert (tmp_path / "coordinator.sqlite3").read_bytes() == rubbish


def test_a_coordinator_that_cannot_open_holds_nothing(tmp_path):
    async def damage(made):
        made.database.rows("INSERT INTO performance VALUES ('m', 't', '[')")

    in_coordinator(tmp_path, damage)
    for _ in range(2):  # the second time it is the same trouble, not the lock of the first
        with pytest.raises(StateError) as caught:
            in_coordinator(tmp_path, damage)
        assert caught.value.code == "coordinator_corrupt"


def test_a_damaged_interaction_is_told_and_not_done(tmp_path):
    async def add(made):
        return made.create_interaction(IMPROVE, "a tool", metadata=TOOL, agent_id="mastermind").interaction_id

    interaction_id = in_coordinator(tmp_path, add)
    with sqlite3.connect(tmp_path / "coordinator.sqlite3") as db:
        db.execute("UPDATE interactions SET document = '{\"interaction_id\": 1}'")
    db.close()

    async def work(made):
        with pytest.raises(StateError) as caught:
            await made.process_interaction(interaction_id)
        assert caught.value.code == "coordinator_corrupt"

    improver = Improver()
    in_coordinator(tmp_path, work, improve=improver)
    assert improver.requests == []


def test_interactions_of_many_tasks_are_all_kept(tmp_path):
    async def work(made):
        asks = [made.ask("publish_event", str(n), metadata={"topic": "t"}, agent_id="bdi") for n in range(50)]
        assert all(one.ok for one in await asyncio.gather(*asks))
        assert made.interactions.counts() == {"completed": 50}

    in_coordinator(tmp_path, work)


def test_events_and_queries_that_have_ended_do_not_fill_the_disk(tmp_path, monkeypatch):
    async def work(made):
        kept = await made.ask("publish_event", "", metadata={"topic": "t"}, agent_id="bdi", key="kept")
        waits = made.create_interaction("query", "later", agent_id="bdi")
        tool = await made.ask(IMPROVE, "a tool", metadata=TOOL, agent_id="mastermind")
        for n in range(12):
            last = await made.ask("publish_event", str(n), metadata={"topic": "t"}, agent_id="bdi")
        found = {one.interaction_id for one in made.interactions.list()}
        assert {one.interaction_id for one in (kept, waits, tool, last)} <= found
        assert len(found) <= 3 + 3 + 2

    monkeypatch.setattr(interaction_store, "PRUNE_EVERY", 2)
    monkeypatch.setattr(interaction_store, "KEPT_SMALL", 3)
    in_coordinator(tmp_path, work, improve=Improver())
