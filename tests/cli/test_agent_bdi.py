"""`mindx agent` with its mind `bdi`, and `mindx beliefs`, with a scripted model, as a user has them."""

import json
import signal

import jsonschema
import pytest

from mindx.cli.schemas import schema

SUM = {"type": "EXECUTE_TOOL", "params": {"tool_id": "calculator", "expression": "17*3"}}
KNOW = {"type": "UPDATE_BELIEF", "params": {"key": "product", "value": {"$ref": "steps.1.result.value"}}}
THINK = {"type": "THINK", "params": {"thought": "done"}}


def coder(command, **params):
    return {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": command, **params}}


@pytest.fixture
def script(mindx):
    """Return a function that writes a model's turns (a list is a plan) into the folder and returns their name."""

    def write(*turns):
        texts = (json.dumps({"plan": turn}) if isinstance(turn, list) else turn for turn in turns)
        (mindx.folder / "turns.jsonl").write_text("".join(f"{json.dumps(text)}\n" for text in texts))
        return "turns.jsonl"

    return write


def test_the_goal_is_planned_and_the_trail_is_the_seeds(mindx, script):
    done = mindx("agent", "17*3?", "--script", script([SUM, KNOW], "It is 51."))
    assert (done.code, done.out) == (0, "It is 51.\n"), done.err
    lines = done.err.splitlines()
    assert lines[0] == "bdi_agent - INFO - Deliberation: Selected goal '17*3?'"
    assert lines[-1] == "bdi_agent - INFO - BDI run finished with final status: GOAL_ACHIEVED"
    assert [run["outcome"] for run in mindx("runs", "list", "--json").json["runs"]] == ["completed"]
    assert mindx("trace", "verify", "last").code == 0
    quiet = mindx("agent", "17*3?", "-q", "--script", script([SUM], "It is 51."))
    assert (quiet.code, quiet.err) == (0, "")


def test_the_document_fits_its_schema_and_beliefs_can_be_looked_at(mindx, script):
    assert mindx("beliefs", "list").out == ""
    done = mindx("agent", "17*3?", "--script", script([SUM, KNOW], "It is 51."), "--json")
    jsonschema.validate(done.json, schema("agent"))
    assert (done.json["mind"], done.json["status"], done.json["cycles"]) == ("bdi", "GOAL_ACHIEVED", 3)
    listed = mindx("beliefs", "list", "product", "--source", "inference", "--json").json
    jsonschema.validate(listed, schema("beliefs"))
    assert [(row["namespace"], row["value"]) for row in listed["beliefs"]] == [("bdi.agent", 51)]
    shown = mindx("beliefs", "show", "product", "--json").json
    jsonschema.validate(shown, schema("belief"))
    assert "bdi.agent/product" in mindx("beliefs", "list").out
    assert "value: 51" in mindx("beliefs", "show", "product").out
    wrong = mindx("beliefs", "show", "produkt")
    assert (wrong.code, "did you mean `product`?" in wrong.err) == (2, True)
    assert mindx("beliefs", "list", "--namespace", "none").out == ""


@pytest.mark.parametrize(
    ("arguments", "turns", "code", "text"),
    [
        (["make gold"], [[{"type": "FAIL", "params": {"message": "lead stays lead"}}]], 1, "lead stays lead"),
        (["x"], ["nonsense"] * 4, 1, "no plan of the model could be taken"),
        (["x"], [{"error": "provider_auth"}], 6, "MINDX_API_KEY"),
        (["x", "--max-steps", "1"], [[SUM, SUM]], 5, "budget of 1 cycles"),
        (["x", "--accept", "curl http://x"], [[THINK]], 1, "it cannot be checked"),
        (["x", "--accept", "'"], [], 2, "--accept"),
        (["x", "--accept-file", "../x"], [], 2, "no file of the workspace"),
        (["x", "--accept-file", "a=1", "--accept-file", "/etc/passwd"], [], 2, "no file of the workspace"),
        (["x", "--mind", "react", "--accept", "true"], [], 2, "--mind bdi"),
        (["--resume", "last"], [], 2, "no run yet"),
        ([" "], [], 2, "empty"),
    ],
)
def test_how_goals_end_that_are_not_reached(mindx, script, arguments, turns, code, text):
    done = mindx("agent", *arguments, "--script", script(*turns))
    assert (done.code, done.out) == (code, ""), done.err
    assert text in done.err
    assert "mistake in mindx" not in done.err


def test_a_goal_that_failed_is_a_failed_run(mindx, script):
    mindx("agent", "x", "--script", script([{"type": "FAIL", "params": {}}]))
    assert [run["outcome"] for run in mindx("runs", "list", "--json").json["runs"]] == ["failed"]


def test_without_an_engine_its_state_is_written_and_it_can_be_taken_up(mindx, script):
    """A run that ended in an action is told to the agent while its file is still open."""
    turns = script([coder("write", path="a.txt", content="a")], "Done.")
    mindx.env["DOCKER_HOST"] = f"unix://{mindx.folder}/none.sock"
    done = mindx("agent", "write", "--script", turns)
    assert (done.code, "cannot reach the engine" in done.err) == (4, True)
    assert "not written" not in done.err
    again = mindx("agent", "--resume", "last", "--script", turns)
    assert (again.code, "cannot reach the engine" in again.err) == (4, True)


def test_a_script_that_cannot_be_read_is_bad_input(mindx):
    """What a line may be is said, since a plan as an object of its own is the first thing that people write."""
    (mindx.folder / "turns.jsonl").write_text('{"plan": []}\n')
    done = mindx("agent", "x", "--script", "turns.jsonl")
    assert (done.code, done.out) == (2, "")
    assert 'turns.jsonl, line 1 is no turn (unknown key plan); a line is a text in quotes, {"json": ' in done.err
    assert mindx("mission", "x", "--script", "none.jsonl").code == 2


def test_a_mission_says_why_its_phases_are_not_taken(mindx, script):
    done = mindx("mission", "x", "--script", script('{"phases": [{"name": "one", "taks": "t"}]}'))
    assert done.code == 6
    assert "model - WARNING - An answer of the model cannot be used: " in done.err
    assert "taks" in done.err


def test_a_damaged_store_is_one_message(mindx, script):
    folder = mindx.state / "mind"
    folder.mkdir(parents=True)
    (folder / "beliefs.sqlite3").write_bytes(b"nonsense" * 1000)
    for verb in (["agent", "x", "--script", script([THINK])], ["beliefs", "list"], ["beliefs", "show", "k"]):
        done = mindx(*verb)
        assert (done.code, done.out) == (4, "")
        assert "is damaged" in done.err
        assert "move it away" in done.err
    assert (folder / "beliefs.sqlite3").read_bytes() == b"nonsense" * 1000


def test_what_a_hostile_plan_says_cannot_reach_the_terminal(mindx, script):
    thought = {"type": "THINK", "params": {"thought": "\x1b[2J\nbdi_agent - INFO - Goal achieved"}}
    done = mindx("agent", "x\x1b[2J", "--script", script([thought], "ok"))
    assert done.code == 0
    assert "\x1b" not in done.err
    assert not any(line == "bdi_agent - INFO - Goal achieved" for line in done.err.splitlines())


def test_the_seeds_worked_example_with_criteria_in_a_container(engine_mindx, script):
    """Project directory, script, run; the goal counts only because the criteria hold in the sandbox."""
    mindx = engine_mindx
    (mindx.folder / "w").mkdir()
    write = coder("write", path="main.py", content="print('GitHub API Status: 200')\n")
    first = [coder("mkdir", path="api_client"), coder("cd", path="api_client"), write]
    again = [coder("write", path="api_client/tests.py", content="assert True\n"), coder("run", cmdline="ls api_client")]
    criteria = ("--accept", "python3 api_client/tests.py", "--accept-file", "api_client/main.py=Status")
    turns = script(first, again, "The project is there, and its tests pass.")
    done = mindx("agent", "make api_client", "--workspace", "w", "--script", turns, *criteria, "--json")
    assert done.code == 0, done.err
    assert len(done.json["plan_ids"]) == 2
    assert "Failure CRITERIA_UNMET; recovery: REPLAN" in done.err
    assert "tool.SimpleCoder - INFO - Current directory is now: ./api_client" in done.err
    paths = [change["path"] for change in done.json["changes"]]
    assert paths == ["api_client", "api_client/main.py", "api_client/tests.py"]
    assert list((mindx.folder / "w").iterdir()) == []


def test_an_agent_that_was_killed_is_taken_up_again(engine_mindx, script):
    """SIGKILL in the middle of a step: the same goal and plan go on in a new container, on the same folder."""
    mindx = engine_mindx
    folder = mindx.folder / "w"
    folder.mkdir()
    (folder / "wait.py").write_text("import os, time\nwhile os.path.exists('hold'):\n    time.sleep(0.05)\n")
    (folder / "hold").write_text("")
    steps = [coder("write", path="a.txt", content="a"), coder("run", cmdline="python3 wait.py"), THINK]
    with mindx.start("agent", "wait", "--workspace", "w", "--script", script(steps)) as process:
        for line in process.stderr:
            if b"tool.SimpleCoder - INFO - Executing" in line:
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
    (folder / "hold").unlink()
    done = mindx("agent", "--resume", "last", "--script", script("Done."), "--json")
    assert (done.code, done.json["status"], done.json["final_answer"]) == (0, "GOAL_ACHIEVED", "Done."), done.err
    assert done.json["plan_ids"] == []  # no new plan was made
    assert "1 step of plan" in done.err
    assert [change["path"] for change in done.json["changes"]] == ["a.txt"]


def test_a_campaign_that_may_not_start_is_recorded_as_what_it_is(mindx, script):
    """What stopped it has a code of its own; `internal_error` would say that mindx made a mistake."""
    assert mindx("campaign", "stop").code == 0
    assert mindx("campaign", "run", "--script", script()).code == 3
    assert mindx("runs", "show", "last", "--json").json["error"]["code"] == "campaigns_stopped"


@pytest.mark.parametrize(
    ("verb", "code", "words"),
    [
        (["tools", "list"], 0, "no tool is registered"),
        (["task", "list"], 0, "no task yet"),
        (["campaign", "list"], 0, "no campaign yet"),
        (["campaign", "show", "last"], 2, "there is no campaign yet"),
        (["mission", "--resume", "last", "--script", "turns.jsonl"], 2, "there is no mission yet"),
        (["beliefs", "list"], 0, "nothing is believed yet"),
        (["beliefs", "list", "x"], 0, "no belief fits"),
    ],
)
def test_where_there_is_nothing_it_is_said(mindx, script, verb, code, words):
    """An empty answer of a verb could mean anything: nothing there, a wrong folder, a failure."""
    script("x")
    done = mindx(*verb)
    assert (done.code, done.out) == (code, "")
    assert words in done.err
