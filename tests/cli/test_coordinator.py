"""`mindx coordinator`: what the society wants to make better is seen, approved, refused and taken back by a person."""

import asyncio
import os

import pytest

from mindx.agents.coordinator.interaction import InteractionStatus
from mindx.agents.coordinator.resources import ResourceSample
from mindx.agents.improvement.paths import LOCK_FILE
from mindx.errors import InputError
from mindx.runtime.tasks.atomic import locked
from tests.cli.conftest import COMMAND
from tests.cli.test_schemas import fits
from tests.mind.coordinator_support import Improver, in_coordinator
from tests.mind.improvement_support import turns, write_script
from tests.workspace.terminal import Terminal

TARGET = {"target_component": "src/a.py", "is_critical_target": True}


def idle(paths):
    return ResourceSample(cpu_percent=1.0, memory_percent=99.0)


@pytest.fixture
def society(mindx):
    """Return a function that has a coordinator of this state folder do something, on a project of one file."""
    mind, project = mindx.state / "mind", mindx.folder / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "a.py").write_text("# old\n")

    def act(work, **options):
        improver = Improver(work_dir=mind / "improvement", content="# new\n")
        return in_coordinator(mind, work, improve=improver, project=project, measure=idle, **options)

    return act


def ask(made):
    return made.ask("component_improvement", "make it\x1b[31m better", metadata=TARGET, agent_id="mastermind")


def test_a_person_sees_approves_and_takes_back(mindx, society):
    file = mindx.folder / "project/src/a.py"
    society(ask)
    [item] = fits(mindx("coordinator", "backlog", "--json").json, "coordinator-backlog")["items"]
    name = item["item_id"]
    listed = mindx("coordinator", "backlog")
    assert (name in listed.out, "waits (work)" in listed.out, "\x1b" in listed.out) == (True, True, False)
    unseen = mindx("coordinator", "approve", name)
    assert (unseen.code, f"backlog {name}" in unseen.err) == (2, True)
    approved = fits(mindx("coordinator", "approve", name, "--yes", "--by", "ann", "--json").json, "coordinator-item")
    assert (approved["item"]["status"], approved["item"]["approved_by"]) == ("pending", "ann")

    society(lambda made: made.worker.work_once())
    shown = mindx("coordinator", "backlog", name)
    assert (shown.code, "waits (change)" in shown.out, "# new" in shown.out) == (0, True, True)
    assert file.read_text() == "# old\n"
    done = mindx("coordinator", "approve", name, "--yes", "--json")
    assert (done.code, fits(done.json, "coordinator-item")["item"]["status"]) == (0, "completed")
    assert file.read_text() == "# new\n"

    asked = mindx("coordinator", "rollback", name, "--json")
    assert (asked.code, asked.json["error"]["code"]) == (2, "rollback_needs_yes")
    assert f"mindx coordinator backlog {name}" in asked.json["error"]["message"]
    terminal = Terminal([*COMMAND, "coordinator", "rollback", name], mindx.env)
    terminal.answer(f"Take back 1 change in {mindx.folder / 'project'}? [Y/n]: ", "n")
    assert (terminal.end(), "nothing was taken back" in terminal.shown, file.read_text()) == (0, True, "# new\n")
    back = mindx("coordinator", "rollback", name, "--yes", "--json")
    assert (back.code, fits(back.json, "coordinator-interaction")["interaction"]["status"]) == (0, "completed")
    assert file.read_text() == "# old\n"
    near = mindx("coordinator", "backlog", name[:-1])
    assert (near.code, f"did you mean `{name}`?" in near.err) == (2, True)
    again = mindx("coordinator", "rollback", name, "--yes")
    assert (again.code, again.stdout) == (2, b"")
    assert fits(mindx("coordinator", "backlog", "--all", "--json").json, "coordinator-backlog")["items"]
    assert mindx("coordinator", "backlog").out == ""


def aged(folder):
    """Make a folder, and all that is in it, look untouched since 1970."""
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (0, 0))


def test_old_improvements_are_pruned_but_not_those_that_are_needed(mindx, society):
    """What waits for a person's yes, is worked on or was cut off in the middle stays; what is over and old goes."""
    society(ask)
    [item] = mindx("coordinator", "backlog", "--json").json["items"]
    name = item["item_id"]
    assert mindx("coordinator", "approve", name, "--yes").code == 0
    society(lambda made: made.worker.work_once())
    [folder] = (mindx.state / "mind" / "improvement").iterdir()
    aged(folder)
    assert mindx("runs", "prune", "--older-than", "1d").out == "nothing to remove\n"  # the change waits for a yes
    assert mindx("coordinator", "approve", name, "--yes").code == 0
    assert mindx("runs", "prune", "--older-than", "1d").out == "nothing to remove\n"  # it was applied just now
    aged(folder)
    with locked(folder / LOCK_FILE, InputError("busy", "busy")):
        assert mindx("runs", "prune", "--older-than", "1d").out == "nothing to remove\n"
    aged(folder)
    assert mindx("runs", "prune", "--keep", "0").out == "nothing to remove\n"  # a number of runs says nothing of them
    [journal] = (folder / "changes" / "applied").iterdir()
    whole = journal.read_text()
    journal.write_text(whole.replace('"applied"', '"undoing"'))
    aged(folder)
    assert mindx("runs", "prune", "--older-than", "1d").out == "nothing to remove\n"
    journal.write_text(whole)
    aged(folder)
    told = f"improvement {folder.name}: to be removed\n"
    assert mindx("runs", "prune", "--older-than", "1d", "--dry-run").out == told
    done = fits(mindx("runs", "prune", "--older-than", "1d", "--json").json, "pruned")
    assert (done["improvements"], folder.exists()) == ([folder.name], False)
    assert mindx("coordinator", "rollback", name, "--yes").code == 2


def test_a_person_refuses(mindx, society):
    waits = society(ask)
    [item] = mindx("coordinator", "backlog", "--json").json["items"]
    name = item["item_id"]
    refused = fits(mindx("coordinator", "reject", name, "--reason", "no", "--json").json, "coordinator-item")["item"]
    assert (refused["status"], refused["rejection_reason"]) == ("rejected_manual", "no")
    for verb in (("reject", name), ("approve", name, "--yes")):
        late = mindx("coordinator", *verb)
        assert (late.code, "rejected_manual" in late.err) == (2, True)

    async def ended(made):
        return (await made.process_interaction(waits)).status.value

    assert society(ended) == "cancelled"


def test_the_status_tells_how_the_society_does(mindx, society):
    async def work(made):
        await made.resources.check()
        made.performance.record("model-1", "plan", latency_s=1.5, usage={"input_tokens": 5, "output_tokens": 7})
        await ask(made)

    from mindx.agents.beliefs import BeliefSystem

    with BeliefSystem(mindx.state / "mind" / "beliefs.sqlite3") as beliefs:
        society(work, beliefs=beliefs)
    found = fits(mindx("coordinator", "status", "--json").json, "coordinator-status")
    assert found["interactions"] == {"pending_approval": 1}
    assert found["backlog"] == {"pending_approval": 1}
    assert {agent["agent_id"]: agent["layer"] for agent in found["agents"]}["coordinator"] == "coordinator"
    [model] = found["performance"]
    assert (model["model"], model["calls"], model["output_tokens"], model["mean_latency_s"]) == ("model-1", 1, 7, 1.5)
    [alert] = found["alerts"]
    assert (alert["resource"], alert["percent"]) == ("memory", 99.0)
    plain = mindx("coordinator", "status").out
    assert "model-1 for plan: 1 call, 0 failed, 1.5 s each, 12 tokens" in plain


def test_the_status_names_what_a_dead_host_left_unfinished(mindx, society):
    async def work(made):
        asked = made.create_interaction("query", "how is\x1b[31m it?", user_id="ann")
        changed = asked.model_copy(update={"status": InteractionStatus.IN_PROGRESS})
        made.interactions.change(changed, asked.status)  # and here it dies

    society(work)
    society(lambda made: made.publish("a"))
    [left] = fits(mindx("coordinator", "status", "--json").json, "coordinator-status")["interrupted"]
    plain = mindx("coordinator", "status").out
    assert (left["interaction_type"], left["interaction_id"] in plain, "\x1b" in plain) == ("query", True, False)


def test_where_no_coordinator_has_worked_nothing_is_made_and_this_is_said(mindx):
    assert fits(mindx("coordinator", "status", "--json").json, "coordinator-status")["agents"] == []
    assert fits(mindx("coordinator", "backlog", "--json").json, "coordinator-backlog")["items"] == []
    for verb in (("approve", "item_1", "--yes"), ("reject", "item_1"), ("rollback", "item_1"), ("backlog", "item_1")):
        none = mindx("coordinator", *verb)
        assert (none.code, "no coordinator has worked" in none.err) == (2, True)
    assert not (mindx.state / "mind").exists()


def test_an_item_that_is_not_there_and_a_database_that_is_none(mindx, society):
    society(ask)
    wrong = mindx("coordinator", "approve", "item_none", "--yes")
    assert (wrong.code, "item_none" in wrong.err) == (2, True)
    (mindx.state / "mind" / "coordinator.sqlite3").write_bytes(b"no database" * 500)
    for name in ("-wal", "-shm"):
        (mindx.state / "mind" / f"coordinator.sqlite3{name}").unlink(missing_ok=True)
    broken = mindx("coordinator", "status")
    assert (broken.code, "coordinator.sqlite3" in broken.err, "Traceback" in broken.err) == (4, True, False)


def test_beside_a_running_coordinator_a_person_may_speak_and_nobody_else_works(mindx, society):
    async def work(made):
        await ask(made)
        [item] = made.backlog.list()
        approved = await asyncio.to_thread(mindx, "coordinator", "approve", item.item_id, "--yes")
        assert approved.code == 0, approved.err
        assert made.backlog.get(item.item_id).status.value == "pending"
        assert (await made.worker.work_once()).status.value == "pending_approval"
        change = await asyncio.to_thread(mindx, "coordinator", "approve", item.item_id, "--yes")
        assert (change.code, "a coordinator is running" in change.err) == (0, True)
        assert (await made.worker.work_once()).ok
        busy = await asyncio.to_thread(mindx, "coordinator", "rollback", item.item_id, "--yes")
        assert (busy.code, "another coordinator" in busy.err) == (2, True)

    society(work)
    assert (mindx.folder / "project/src/a.py").read_text() == "# new\n"


def test_a_person_has_the_next_item_worked_on(engine_mindx, society):
    mindx, file = engine_mindx, engine_mindx.folder / "project/src/a.py"
    (mindx.folder / "project/test_a.py").write_text(
        "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_a(self):\n"
        "        with open('src/a.py') as file:\n            self.assertIn('#', file.read())\n"
    )
    script = write_script(mindx.folder / "model.jsonl", turns("# newer\n", ""))
    arguments = ("coordinator", "work", "--workspace", "project", "--improvement-script", str(script), "--json")

    async def add(made):
        made.backlog.add("src/a.py", "make it better")

    society(add)
    done = mindx(*arguments)
    assert done.code == 0, done.err
    document = fits(done.json, "coordinator-interaction")["interaction"]
    assert (document["status"], document["response"]["applied"]["status"]) == ("completed", "APPLIED")
    assert file.read_text() == "# newer\n"
    nothing = mindx(*arguments)
    assert (nothing.code, fits(nothing.json, "coordinator-interaction")["interaction"]) == (0, None)


def test_a_person_at_the_terminal_sees_the_change_and_is_asked(mindx, society):
    file = mindx.folder / "project/src/a.py"
    society(ask)
    [item] = mindx("coordinator", "backlog", "--json").json["items"]
    mindx("coordinator", "approve", item["item_id"], "--yes")
    society(lambda made: made.worker.work_once())
    words = [*COMMAND, "coordinator", "approve", item["item_id"]]
    for answer, code, content in (("n", 1, "# old\n"), ("y", 0, "# new\n")):
        terminal = Terminal(words, mindx.env)
        shown = terminal.expect("Apply this change?")
        assert "src/a.py" in shown
        assert "# new" in shown
        terminal.type(f"{answer}\r")
        assert (terminal.end(), file.read_text()) == (code, content)
