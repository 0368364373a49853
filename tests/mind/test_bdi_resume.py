"""A BDI agent whose process is killed goes on: the same goal, the same plan, at its step, and nothing is done twice
that had its effect outside of the container."""

import asyncio
import contextlib
import gc
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest

from mindx.agents.bdi import BDIStatus, Budget, GoalStatus
from mindx.agents.beliefs import BeliefSystem
from mindx.core.action import ActionRisk
from mindx.errors import InputError, StateError
from tests.mind.bdi_support import Made, Probe, act, beginning, coder, failing, plan, think, use

CHILD = """
import asyncio, json, os, sys
from pathlib import Path
from mindx.agents.bdi import BDIAgent
from mindx.agents.beliefs import BeliefSystem
from mindx.providers.scripted import ScriptedProvider
from mindx.tools.base import BaseTool, ToolDefinition
from mindx.tools.registry import ToolRegistry

class Note(BaseTool):
    works_inside = True
    def __init__(self, name):
        self.definition = ToolDefinition(name, "n", {"type": "object", "properties": {"n": {}}})
    async def execute(self, arguments, context):
        with open(sys.argv[3], "a") as file:
            print(self.definition.name, arguments["n"], file=file)
        if arguments["n"] == int(sys.argv[4]):
            print("there", flush=True)
            await asyncio.Event().wait()
        return {"n": arguments["n"]}

async def main():
    agent = BDIAgent(
        ScriptedProvider([Path(sys.argv[2]).read_text()]), ToolRegistry([Note("inside")]),
        beliefs=BeliefSystem(Path(sys.argv[1]).with_name("beliefs.sqlite3")),
        state_path=Path(sys.argv[1]), actions={"OUTSIDE": Note("outside")},
    )
    agent.set_goal("count")
    await agent.run()

asyncio.run(main())
"""


class Place:
    """The files of an agent that was killed at the step with this number."""

    def __init__(self, folder, steps, number):
        self.state = folder / "agent.sqlite3"
        self.notes = folder / "notes"
        (folder / "plan").write_text(plan(*steps))
        command = [sys.executable, "-c", CHILD, str(self.state), str(folder / "plan"), str(self.notes), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"there\n"
            process.send_signal(signal.SIGKILL)
            process.wait()

    def again(self, script=(), **options):
        """Return the agent of a new process, with tools that note what they do."""
        self.inside, self.outside = Probe("inside"), Probe("outside")
        return Made(script, self.inside, state_path=self.state, actions={"OUTSIDE": self.outside}, **options)


def test_goal_plan_and_step_are_taken_up_again(tmp_path):
    """What ran in the container is gone with it and is done again in the new one; what did not is not."""
    steps = [
        think("first"),
        act("OUTSIDE", n=1),
        use("inside", n=2),
        act("OUTSIDE", n=3),
        use("inside", n=4),
        use("inside", n={"$ref": "steps.4.result.n"}),
    ]
    place = Place(tmp_path, steps, 4)
    made = place.again()
    goal = made.agent.goal
    assert (goal.text, goal.status) == ("count", GoalStatus.ACTIVE)
    result = made.run(None)
    assert (result.status, result.goal_id, made.model.requests) == (BDIStatus.GOAL_ACHIEVED, goal.goal_id, [])
    assert [call["n"] for call in place.inside.calls] == [2, 4, 3]
    assert place.outside.calls == []
    assert place.notes.read_text().split("\n")[:-1] == ["outside 1", "inside 2", "outside 3", "inside 4"]


def test_what_was_begun_outside_is_not_done_again_and_the_model_is_told(tmp_path):
    place = Place(tmp_path, [act("OUTSIDE", n=1), act("OUTSIDE", n=2)], 2)
    made = place.again([plan(act("OUTSIDE", n=3))])
    assert made.run(None).achieved
    assert [call["n"] for call in place.outside.calls] == [3]
    assert "OUTCOME_UNKNOWN in OUTSIDE" in made.questions[0]
    assert "whether it was done is not known" in made.questions[0]
    assert "as it was in the beginning" in made.questions[0]


class Stuck(Probe):
    """A tool that is always cut off in the middle, and writes outside of the container."""

    def __init__(self) -> None:
        super().__init__("outside")
        self.definition = replace(self.definition, risk=ActionRisk.WRITE)
        self.begun = asyncio.Event()

    async def execute(self, arguments, context):
        self.begun.set()
        await asyncio.Event().wait()


def test_an_action_in_which_it_ended_three_times_is_a_loop(tmp_path):
    """It may be what brings the process down, so it is not begun a fourth time, and no model is asked about it."""
    state = tmp_path / "agent.sqlite3"

    async def cut_off(number):
        tool = Stuck()
        made = Made([plan(use("outside", n=number))], tool, state_path=state, new_id=lambda kind: f"{kind}_{number}")
        running = asyncio.create_task(made.arun("send it" if number == 0 else None))
        await tool.begun.wait()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await made.agent.close()

    for number in range(3):
        asyncio.run(cut_off(number))
    last = Made([], tool := Stuck(), state_path=state)
    result = last.run(None)
    assert (result.status, tool.begun.is_set(), last.model.requests) == (BDIStatus.FAILED_ACTION, False, [])
    assert "the same failure came 3 times, which is a loop" in result.message


class Writer(Probe):
    """A tool that writes somewhere outside of the container."""

    def __init__(self) -> None:
        super().__init__()
        self.definition = replace(self.definition, risk=ActionRisk.WRITE)


@pytest.mark.parametrize("cycles", [2, 3, 4])
def test_what_a_tool_did_outside_of_the_container_is_not_done_again(tmp_path, cycles):
    """A mail that was sent stays sent: only what the lost container held is done again."""
    state, steps = tmp_path / "agent.sqlite3", [use("probe", n=1), coder("mkdir", path="a"), use("probe", n=2), think()]
    before, after = Writer(), Writer()
    first = Made([plan(*steps)], before, state_path=state, budget=Budget(cycles=cycles))
    assert first.run().status is BDIStatus.TIMED_OUT
    asyncio.run(first.agent.close())
    second = Made([], after, state_path=state)
    assert second.run(None).achieved
    assert [call["n"] for call in (*before.calls, *after.calls)] == [1, 2]
    assert second.sandbox.commands


def test_where_several_plans_had_worked_in_the_lost_container_the_goal_gets_a_new_one(tmp_path):
    state = tmp_path / "agent.sqlite3"
    first = Made(
        [plan(coder("mkdir", path="a"), use("probe")), plan(coder("mkdir", path="b"), think(), think())],
        Probe("probe", failing()),
        state_path=state,
        budget=Budget(cycles=4),
    )
    assert first.run().status is BDIStatus.TIMED_OUT
    asyncio.run(first.agent.close())
    second = Made([plan(coder("mkdir", path="c"))], state_path=state)
    assert second.run(None).achieved
    assert "it is as it was in the beginning" in second.questions[0]


@pytest.mark.parametrize("cycles", [2, 3, 4])
def test_a_row_of_plans_that_went_on_after_each_other_is_done_again_in_its_order(tmp_path, cycles):
    """Cut off in the second plan, or before it was made: the first one's work is there again, with its folder."""
    state = tmp_path / "agent.sqlite3"
    turns = [
        beginning(coder("mkdir", path="a"), coder("cd", path="a")),
        plan(coder("write", path="one.txt", content="1"), coder("write", path="two.txt", content="2"), think()),
    ]
    first = Made(turns, state_path=state, budget=Budget(cycles=cycles))
    assert first.run("write", {"file": "a/one.txt"}, {"file": "a/two.txt"}).status is BDIStatus.TIMED_OUT
    asyncio.run(first.agent.close())
    second = Made(turns[1:] if cycles == 2 else [], state_path=state)
    result = second.run(None)
    assert result.achieved, result.message
    paths = [command.path for command in second.sandbox.commands if type(command).__name__ == "WriteFile"]
    assert paths == ["/workspace/a/one.txt", "/workspace/a/two.txt"]


def test_an_agent_that_has_achieved_its_goal_has_nothing_left_to_do(tmp_path):
    state = tmp_path / "agent.sqlite3"
    first = Made([plan(think())], state_path=state)
    done = first.run()
    asyncio.run(first.agent.close())
    again = Made([], state_path=state)
    result = again.run(None)
    assert (result.status, result.goal_id, result.plan_ids) == (BDIStatus.GOAL_ACHIEVED, done.goal_id, ())


def test_what_was_spent_stays_spent(tmp_path):
    state = tmp_path / "agent.sqlite3"
    steps = [use("probe", n=number) for number in range(6)]
    first = Made([plan(*steps)], Probe(), state_path=state, budget=Budget(cycles=3))
    assert first.run().status is BDIStatus.TIMED_OUT
    asyncio.run(first.agent.close())
    second = Made([], Probe(), state_path=state, budget=Budget(cycles=3))
    assert second.run(None).status is BDIStatus.TIMED_OUT
    asyncio.run(second.agent.close())
    third = Made([], tool := Probe(), state_path=state, budget=Budget(cycles=30))
    assert third.run(None).achieved
    assert [call["n"] for call in tool.calls] == [0, 1, 2, 3, 4, 5]  # the container was new


def test_a_large_result_is_kept_for_the_run_and_not_in_the_file(tmp_path):
    state = tmp_path / "agent.sqlite3"
    made = Made(
        [plan(use("big"), use("probe", x={"$ref": "steps.1.result.text"}))],
        Probe("big", {"text": "y" * 500_000}),
        tool := Probe(),
        state_path=state,
    )
    assert made.run().achieved
    assert len(tool.calls[0]["x"]) == 500_000
    asyncio.run(made.agent.close())
    assert state.stat().st_size < 200_000


def break_json(db):
    db.execute("UPDATE parts SET value = '{' WHERE kind = 'plan'")


def break_goal(db):
    db.execute("UPDATE parts SET value = json_set(value, '$.status', 'splendid') WHERE kind = 'goal'")


def lose_step(db):
    db.execute("DELETE FROM parts WHERE kind = 'step' AND part_id LIKE '%/00001'")


def unknown_kind(db):
    db.execute("UPDATE parts SET kind = 'dream' WHERE kind = 'head'")


@pytest.mark.parametrize("damage", [break_json, break_goal, lose_step, unknown_kind, None])
def test_a_damaged_state_is_told_and_left_as_it_is(tmp_path, damage):
    state = tmp_path / "agent.sqlite3"
    made = Made([plan(think(), think())], state_path=state)
    made.run()
    asyncio.run(made.agent.close())
    if damage is None:
        state.write_bytes(os.urandom(4096))
    else:
        with sqlite3.connect(state) as db:
            damage(db)
        db.close()
    before = state.read_bytes()
    with pytest.raises(StateError, match="damaged") as caught:
        Made([], state_path=state)
    assert caught.value.code == "agent_state_corrupt"
    assert state.read_bytes() == before


OPENED = """
import sys
from pathlib import Path
from mindx.agents.bdi.memory import AgentMemory
from mindx.errors import MindxError
try:
    AgentMemory(Path(sys.argv[1]))
except MindxError as error:
    sys.exit(f"{error.code} {error.exit_code}: {error}")
"""


def test_a_state_file_is_one_agents_at_a_time(tmp_path):
    """Two that pursue the same goals would each undo what the other has written. A killed one keeps nobody out."""

    def opened(path):
        return subprocess.run([sys.executable, "-c", OPENED, path], capture_output=True, text=True, check=False)

    state, later = tmp_path / "agent.sqlite3", tmp_path / "later.sqlite3"
    made = Made([], state_path=state)
    other = opened(state)
    assert (other.returncode, other.stderr.startswith("agent_in_use 2: ")) == (1, True)
    assert str(state) in other.stderr
    made.agent.keep_in(later)
    assert opened(state).returncode == 0
    assert opened(later).returncode == 1
    with pytest.raises(InputError) as caught:
        Made([], state_path=later)
    assert caught.value.code == "agent_in_use"
    asyncio.run(made.agent.close())
    assert opened(later).returncode == 0
    Made([], state_path=later)  # nobody closes it
    gc.collect()
    assert opened(later).returncode == 0


def test_the_state_is_of_the_owner_alone(tmp_path):
    state = tmp_path / "deep" / "agent.sqlite3"
    Made([], state_path=state)
    assert state.stat().st_mode & 0o077 == 0


def test_beliefs_outlive_the_agent(tmp_path):
    path = tmp_path / "beliefs.sqlite3"
    for number in range(2):
        with BeliefSystem(path) as beliefs:
            steps = [act("UPDATE_BELIEF", key=f"k{number}", value=number)]
            assert Made([plan(*steps)], beliefs=beliefs).run().achieved
    with BeliefSystem(path) as beliefs:
        assert [beliefs.value(f"k{number}", namespace="bdi.bdi") for number in range(2)] == [0, 1]
