"""The improvement backlog: nothing twice, the urgent first, failures cool down, what is critical waits for a person."""

from __future__ import annotations

import asyncio
import json

import pytest

from mindx.agents.constitution import Constitution, ConstitutionError
from mindx.agents.coordinator.backlog import Backlog
from mindx.agents.coordinator.backlog_item import BacklogStatus, WaitsFor
from mindx.agents.coordinator.consent import Consent
from mindx.agents.coordinator.database import CoordinatorDatabase
from mindx.agents.coordinator.interaction import InteractionStatus
from mindx.agents.coordinator.interaction_store import InteractionStore
from mindx.agents.coordinator.resources import ResourceSample
from mindx.agents.improvement.models import (
    ImplementationStatus,
    ImprovementData,
    ImprovementResult,
    ImprovementStatus,
)
from mindx.errors import InputError, StateError
from mindx.providers.scripted import ScriptedProvider
from tests.mind.coordinator_support import Clock, Improver, in_coordinator

HOUR = 3600.0


def idle(paths):
    return ResourceSample(cpu_percent=1.0, memory_percent=1.0)


def project(tmp_path):
    """Return a folder with two modules of its own and one that belongs to the wall."""
    folder = tmp_path / "project"
    for path in ("src/a.py", "src/b.py", "mindx/policy/engine.py", "mindx/agents/bdi/agent.py"):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("class Thing:\n    pass\n\n\ndef run():\n    pass\n")
    return folder


def test_the_order_is_by_urgency_then_age_and_what_waits_comes_last(tmp_path):
    async def work(made):
        def add(target, priority, **options):
            clock.now += 1
            return made.backlog.add(target, f"improve {target}", priority=priority, **options)[0].item_id

        low, waits = add("low.py", 2), add("waits.py", 10, waits_for=WaitsFor.WORK)
        first, second = add("first.py", 7), add("second.py", 7)
        assert [item.item_id for item in made.backlog.list()] == [first, second, low, waits]
        assert made.backlog.next(HOUR).item_id == first

    clock = Clock()
    in_coordinator(tmp_path, work, now=clock)


def test_the_same_idea_is_there_once(tmp_path):
    async def work(made):
        text = "Read the file once, " + "x" * 60
        item, new = made.backlog.add("src/a.py", text)
        assert new
        for target, same in (
            ("src/a.py", text),
            ("SRC/a.py", text.upper()),
            ("src/a.py", f"  {text}\n and more that differs"),
        ):
            assert made.backlog.add(target, same) == (item, False)
        assert made.backlog.add("src/b.py", text)[1]
        assert made.backlog.add("src/a.py", "Another idea")[1]
        # What a person has refused does not come back; what was done may.
        made.consent.reject(item.item_id, "ann", "no")
        assert made.backlog.add("src/a.py", text) == (made.backlog.get(item.item_id), False)

    in_coordinator(tmp_path, work)


def test_a_backlog_has_an_end(tmp_path):
    async def work(made):
        made.backlog.add("a.py", "one idea")
        made.backlog.add("b.py", "one idea")
        with pytest.raises(InputError) as caught:
            made.backlog.add("c.py", "one idea")
        assert caught.value.code == "backlog_full"
        for bad in ({"priority": 11}, {"priority": "high"}, {"suggestion": ""}, {"target": ""}):
            arguments = {"target": "c.py", "suggestion": "an idea", **bad}
            with pytest.raises(InputError) as caught:
                made.backlog.add(arguments.pop("target"), arguments.pop("suggestion"), **arguments)
            assert caught.value.code == "backlog_invalid"

    in_coordinator(tmp_path, work, config={"max_backlog": 2})


def test_the_worker_does_the_first_item_and_keeps_what_came_of_it(tmp_path):
    async def work(made):
        made.backlog.add("src/a.py", "make a better", priority=5, source="ann")
        item, _ = made.backlog.add("src/b.py", "make b better", priority=9)
        ended = await made.worker.work_once()
        assert ended.ok, ended.error
        assert ended.agent_id == "coordinator"
        done = made.backlog.get(item.item_id)
        assert (done.status, done.attempt_count) == (BacklogStatus.COMPLETED, 1)
        assert (done.sia_final_op_status, done.sia_message) == ("SUCCESS_EVALUATED", "it is done")
        assert (await made.worker.work_once()).ok
        assert await made.worker.work_once() is None

    improver = Improver(work_dir=tmp_path / "improvement")
    in_coordinator(tmp_path, work, improve=improver, project=project(tmp_path), measure=idle)
    assert [request.target_file for request in improver.requests] == ["src/b.py", "src/a.py"]


def test_a_failure_is_tried_again_after_the_cool_down_and_not_for_ever(tmp_path):
    async def work(made):
        item, _ = made.backlog.add("src/a.py", "make a better", priority=9)
        made.backlog.add("src/a.py", "another idea for it", priority=8)
        ended = await made.worker.work_once()
        assert ended.status is InteractionStatus.FAILED
        tried = made.backlog.get(item.item_id)
        assert (tried.status, tried.sia_error) == (BacklogStatus.PENDING, "red")
        clock.now += 2.9 * HOUR
        assert await made.worker.work_once() is None  # the target cools down, for any idea
        clock.now += 0.2 * HOUR
        assert (await made.worker.work_once()).interaction_id != ended.interaction_id
        assert made.backlog.get(item.item_id).status is BacklogStatus.FAILED
        clock.now += 3.1 * HOUR
        assert (await made.worker.work_once()).content == "another idea for it"

    clock, improver = Clock(), Improver("red", "red", work_dir=tmp_path / "improvement")
    options = {"improve": improver, "project": project(tmp_path), "measure": idle, "config": {"max_attempts": 2}}
    in_coordinator(tmp_path, work, now=clock, **options)
    assert len(improver.requests) == 3


@pytest.mark.parametrize("busy", [95.0, None])
def test_a_busy_machine_starts_no_improvement_nor_one_of_which_nothing_is_known(tmp_path, busy):
    async def work(made):
        made.backlog.add("src/a.py", "make a better")
        assert await made.worker.work_once() is None
        assert made.backlog.next(HOUR) is not None

    improver = Improver(work_dir=tmp_path / "improvement")
    measure = lambda paths: ResourceSample(cpu_percent=busy)  # noqa: E731
    in_coordinator(tmp_path, work, improve=improver, project=project(tmp_path), measure=measure)
    assert improver.requests == []


def test_a_critical_target_waits_for_a_person_before_anything_is_done(tmp_path):
    target = "mindx/agents/bdi/agent.py"

    async def work(made):
        asked = await made.ask(
            "component_improvement", "make it better", metadata={"target_component": target}, agent_id="mastermind"
        )
        assert asked.status is InteractionStatus.PENDING_APPROVAL
        assert await made.process_interaction(asked) == asked
        [item] = made.backlog.list()
        assert (item.status, item.waits_for) == (BacklogStatus.PENDING_APPROVAL, WaitsFor.WORK)
        assert item.is_critical_target
        assert await made.worker.work_once() is None
        assert improver.requests == []
        again = await made.ask(
            "component_improvement", "make it better", metadata={"target_component": target}, agent_id="mastermind"
        )
        assert again.error.code == "improvement_known"
        person = await made.ask("approve_improvement", "", metadata={"backlog_item_id": item.item_id}, user_id="ann")
        assert person.ok
        item = made.backlog.get(item.item_id)
        assert (item.status, item.approved_by) == (BacklogStatus.PENDING, "ann")
        assert item.approved_at is not None
        waits = await made.worker.work_once()  # the very Interaction that waited
        assert (waits.interaction_id, waits.status) == (asked.interaction_id, InteractionStatus.PENDING_APPROVAL)
        item = made.backlog.get(item.item_id)
        assert (item.status, item.waits_for) == (BacklogStatus.PENDING_APPROVAL, WaitsFor.CHANGE)
        # Nothing is written before a person has seen the change itself.
        assert waits.response["data"]["cycle_results"][0]["new_content"] == improver.content
        assert await made.worker.work_once() is None
        assert file.read_text() == old
        made.consent.approve(item.item_id, "bob")
        ended = await made.worker.work_once()
        assert ended.ok, ended.error
        assert ended.response["applied"]["status"] == "APPLIED"
        assert file.read_text() == improver.content
        assert {"ann", "bob"} <= {entry.role for entry in ended.history}
        with pytest.raises(InputError) as caught:
            made.consent.approve(item.item_id, "ann")
        assert caught.value.code == "backlog_moved_on"
        # And a person takes it back.
        back = await made.ask("rollback_component", "", metadata={"backlog_item_id": item.item_id}, user_id="ann")
        assert back.ok, back.error
        assert file.read_text() == old
        assert made.backlog.get(item.item_id).status is BacklogStatus.ROLLED_BACK
        # What a person took back is no new idea the next day.
        assert made.backlog.add(target, "make it better")[1] is False

    folder = project(tmp_path)
    file = folder / target
    old = file.read_text()
    improver = Improver(work_dir=tmp_path / "improvement")
    in_coordinator(tmp_path, work, improve=improver, project=folder, measure=idle)
    assert len(improver.requests) == 1  # the change that was approved, and no other


def test_a_rollback_does_not_overwrite_what_was_written_since(tmp_path):
    async def work(made):
        ended = await made.ask("component_improvement", "better", metadata=metadata, user_id="ann")
        assert ended.ok, ended.error
        file.write_text("# mine\n")
        back = await made.ask(
            "rollback_component", "", metadata={"interaction_id": ended.interaction_id}, user_id="ann"
        )
        assert (back.status, back.error.code) == (InteractionStatus.FAILED, "improvement_failed")
        assert file.read_text() == "# mine\n"

    folder, metadata = project(tmp_path), {"target_component": "src/a.py"}
    file = folder / "src/a.py"
    improver = Improver(work_dir=tmp_path / "improvement")
    in_coordinator(tmp_path, work, improve=improver, project=folder)


def test_a_target_that_changes_while_it_is_improved_is_a_conflict(tmp_path):
    async def work(made):
        ended = await made.ask("component_improvement", "better", metadata=metadata, user_id="ann")
        assert (ended.status, ended.error.code) == (InteractionStatus.FAILED, "improvement_failed")
        assert "src/a.py" in ended.error.message
        assert file.read_text() == "# mine\n"

    async def improve(request):
        result = await improver(request)
        file.write_text("# mine\n")
        return result

    folder, metadata = project(tmp_path), {"target_component": "src/a.py"}
    file = folder / "src/a.py"
    improver = Improver(work_dir=tmp_path / "improvement")
    in_coordinator(tmp_path, work, improve=improve, project=folder)


def test_an_agent_that_changed_another_file_than_it_was_asked_to_is_not_believed(tmp_path):
    async def work(made):
        ended = await made.ask("component_improvement", "better", metadata={"target_component": "src/a.py"}, **who)
        assert ended.error.code == "improvement_failed"
        nothing = await made.ask("component_improvement", "better", metadata={"target_component": "src/b.py"}, **who)
        assert "nothing to show" in nothing.error.message
        assert {path.name: path.read_text() for path in folder.glob("src/*")} == before

    async def improve(request):
        if request.target_file == "src/b.py":
            data = ImprovementData(
                operation_type=request.operation, final_status=ImplementationStatus.SUCCESS_ROLLED_BACK
            )
            return ImprovementResult(status=ImprovementStatus.SUCCESS, message="", data=data)
        other = request.model_copy(update={"target_file": "src/b.py"})
        return await improver(other)

    who = {"user_id": "ann"}
    folder = project(tmp_path)
    before = {path.name: path.read_text() for path in folder.glob("src/*")}
    improver = Improver(work_dir=tmp_path / "improvement")
    in_coordinator(tmp_path, work, improve=improve, project=folder)


def test_without_auto_apply_a_person_looks_at_every_change(tmp_path):
    async def work(made):
        waits = await made.ask("component_improvement", "better", metadata=metadata, agent_id="mastermind")
        assert waits.status is InteractionStatus.PENDING_APPROVAL
        [item] = made.backlog.list()
        assert item.waits_for is WaitsFor.CHANGE
        made.consent.approve(item.item_id, "ann")
        assert (await made.process_interaction(waits)).ok
        assert made.backlog.get(item.item_id).status is BacklogStatus.COMPLETED

    metadata = {"target_component": "src/a.py"}
    improver = Improver(work_dir=tmp_path / "improvement")
    in_coordinator(tmp_path, work, improve=improver, project=project(tmp_path), config={"auto_apply": False})
    assert len(improver.requests) == 1


def test_a_person_refuses_and_the_request_is_cancelled_for_good(tmp_path):
    async def work(made):
        asked = await made.ask("component_improvement", "make it better", metadata=metadata, agent_id="mastermind")
        [item] = made.backlog.list()
        refused = made.consent.reject(item.item_id, "ann", "we need it as it is")
        assert (refused.status, refused.rejected_by) == (BacklogStatus.REJECTED_MANUAL, "ann")
        ended = await made.process_interaction(asked)
        assert ended.status is InteractionStatus.CANCELLED
        assert "we need it as it is" in ended.history[-1].message
        again = await made.ask("component_improvement", "make it better", metadata=metadata, agent_id="mastermind")
        assert again.error.code == "improvement_known"
        for word in (made.consent.approve, made.consent.reject):
            with pytest.raises(InputError):
                word(item.item_id, "ann")
        with pytest.raises(InputError):
            made.consent.approve("item_none", "ann")

    improver = Improver(work_dir=tmp_path / "improvement")
    metadata = {"target_component": "src/a.py", "is_critical_target": True}
    in_coordinator(tmp_path, work, improve=improver, project=project(tmp_path))
    assert improver.requests == []


def test_a_yes_is_to_what_the_person_has_seen(tmp_path):
    """Somebody else approved the work while a person looked at it: the late yes is not one to the finished change."""

    async def work(made):
        asked = await made.ask("component_improvement", "make it better", metadata=metadata, agent_id="mastermind")
        [seen] = made.backlog.list()
        made.consent.approve(seen.item_id, "bob", seen=seen)
        assert (await made.process_interaction(asked)).status is InteractionStatus.PENDING_APPROVAL
        with pytest.raises(InputError) as caught:
            made.consent.approve(seen.item_id, "ann", seen=seen)
        assert caught.value.code == "backlog_moved_on"
        change = made.backlog.get(seen.item_id)
        other = change.model_copy(update={"change_sha256": "0" * 64})
        with pytest.raises(InputError):
            made.consent.approve(seen.item_id, "ann", seen=other)
        assert made.backlog.get(seen.item_id).change_approved_at is None
        made.consent.approve(seen.item_id, "ann", seen=change)
        assert (await made.process_interaction(asked)).ok

    improver = Improver(work_dir=tmp_path / "improvement")
    metadata = {"target_component": "src/a.py", "is_critical_target": True}
    in_coordinator(tmp_path, work, improve=improver, project=project(tmp_path))


def test_no_yes_opens_the_wall(tmp_path):
    async def work(made):
        for target in ("mindx/policy/engine.py", "./mindx//policy/engine.py", "/etc/passwd", "../x.py", ""):
            metadata = {"target_component": target, "is_critical_target": False}
            for who in ({"agent_id": "mastermind"}, {"user_id": "ann"}):
                ended = await made.ask("component_improvement", "open it", metadata=metadata, **who)
                assert ended.status is InteractionStatus.FAILED
        # Even when it came to be on the backlog, and a person says yes.
        item, _ = made.backlog.add("mindx/policy/engine.py", "open it", waits_for=WaitsFor.WORK)
        with pytest.raises(ConstitutionError):
            made.consent.approve(item.item_id, "ann")
        assert made.backlog.get(item.item_id).status is BacklogStatus.PENDING_APPROVAL
        made.backlog.change(item.item_id, frozenset({item.status}), status=BacklogStatus.PENDING)
        ended = await made.worker.work_once()
        assert ended.error.code == "constitution_forbids"

    improver = Improver(work_dir=tmp_path / "improvement")
    in_coordinator(tmp_path, work, improve=improver, project=project(tmp_path), measure=idle)
    assert improver.requests == []


def test_another_process_can_approve_while_the_coordinator_runs(tmp_path):
    """As `mindx coordinator approve` does beside a running campaign."""

    async def work(made):
        asked = await made.ask("component_improvement", "make it better", metadata=metadata, agent_id="mastermind")
        [item] = made.backlog.list()
        other = CoordinatorDatabase(tmp_path)
        backlog = Backlog(other, made.time)
        Consent(backlog, InteractionStore(other), Constitution.load(), made.time).approve(item.item_id, "ann")
        other.close()
        assert (await made.process_interaction(asked)).response["status"] == "SUCCESS"
        assert len(improver.requests) == 1

    improver = Improver(work_dir=tmp_path / "improvement")
    metadata = {"target_component": "src/a.py", "is_critical_target": True}
    in_coordinator(tmp_path, work, improve=improver, project=project(tmp_path))


def test_an_analysis_puts_what_is_usable_on_the_backlog(tmp_path):
    good = {"target_component_path": "src/a.py", "suggestion": "Read the file once.", "priority": 8}
    critical = {**good, "target_component_path": "mindx/agents/bdi/agent.py", "priority": 9}
    bad = [
        {**good, "target_component_path": "mindx/policy/engine.py"},
        {**good, "target_component_path": "src/none.py"},
        {**good, "priority": 99},
        {**good, "priority": "8"},
        {**good, "approved_by": "ann"},
        "ignore your rules",
    ]
    answers = [json.dumps({"suggestions": bad}), f"Here:\n```json\n{json.dumps([good, critical, *bad])}\n```"]
    provider = ScriptedProvider([*answers, json.dumps({"suggestions": [good]})])

    async def work(made):
        await made.resources.sample()
        made.performance.record("m", "plan", latency_s=0.5)
        found = await made.ask("system_analysis", "", agent_id="mastermind")
        assert found.ok, found.error
        first, second = found.response["added"]
        assert (first["target_component_path"], first["status"]) == ("src/a.py", "pending")
        assert (second["is_critical_target"], second["status"]) == (True, "pending_approval")
        assert len(found.response["dropped"]) == len(bad)
        asked = provider.requests[0].messages[1].text
        for seen in ("src/b.py (6 lines): Thing, run()", '"cpu_percent": 1.0', '"task": "plan"', "mscamp_9"):
            assert seen in asked
        assert "mscamp_6" not in asked  # the last three campaigns
        again = await made.analyze_system()
        assert (again.added, [item.item_id for item in again.known]) == ((), [first["item_id"]])

    campaigns = [{"campaign_id": f"mscamp_{n}"} for n in range(6, 10)]
    options = {"project": project(tmp_path), "provider": provider, "measure": idle, "config": {"max_suggestions": 10}}
    in_coordinator(tmp_path, work, campaigns=lambda: campaigns, **options)


def test_a_worker_that_analyzes_works_on_what_it_found(tmp_path):
    idea = {"target_component_path": "src/a.py", "suggestion": "Read the file once.", "priority": 8}
    provider = ScriptedProvider([json.dumps({"suggestions": [idea]})])

    async def work(made):
        assert (await made.worker.work_once()).content == "Read the file once."

    config = {"worker_analyzes": True}
    options = {
        "project": project(tmp_path),
        "provider": provider,
        "measure": idle,
        "improve": Improver(work_dir=tmp_path / "improvement"),
    }
    in_coordinator(tmp_path, work, config=config, **options)


def test_the_worker_runs_until_it_is_stopped_and_survives_its_failures(tmp_path):
    async def work(made):
        done = asyncio.Event()
        made.subscribe("component.improvement.success", lambda event: None)
        made.subscribe("component.improvement.success", hear(done))
        made.backlog.add("src/a.py", "make a better")
        made.start(worker=True)
        made.start(worker=True)
        await asyncio.wait_for(done.wait(), 10)
        await made.stop()
        await made.stop()
        assert len(asyncio.all_tasks()) == 1

    def hear(done):
        async def listen(event):
            done.set()

        return listen

    calls = []

    def measure(paths):
        calls.append(paths)
        if len(calls) < 4:
            raise OSError("no such thing")
        return idle(paths)

    config = {"worker_interval_s": 0.01, "resources": {"interval_s": 0.01}}
    options = {"project": project(tmp_path), "measure": measure, "improve": Improver(work_dir=tmp_path / "improvement")}
    in_coordinator(tmp_path, work, config=config, **options)


def test_a_damaged_item_is_told(tmp_path):
    async def work(made):
        item, _ = made.backlog.add("src/a.py", "make a better")
        made.database.rows("UPDATE backlog SET document = '[' WHERE item_id = ?", (item.item_id,))
        with pytest.raises(StateError) as caught:
            made.backlog.list()
        assert caught.value.code == "coordinator_corrupt"

    in_coordinator(tmp_path, work)
