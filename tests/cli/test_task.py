"""`mindx task`: begun, stopped by a limit, taken up again by another process."""

import json

import jsonschema
import pytest

from mindx.cli.schemas import schema

SUM = {"calls": [{"name": "calculator", "arguments": {"expression": "17*3"}}]}
READ = {"calls": [{"name": "memory_read", "arguments": {"source": "events"}}]}


@pytest.fixture
def script(mindx):
    def write(*turns):
        (mindx.folder / "turns.jsonl").write_text("".join(f"{json.dumps(turn)}\n" for turn in turns))
        return "turns.jsonl"

    return write


def test_a_task_is_begun_stopped_and_taken_up_again(mindx, script):
    begun = mindx("task", "run", "17*3?", "--id", "sum", "--max-steps", "1", "--script", script(SUM))
    assert (begun.code, begun.out) == (5, "")
    assert "`mindx task resume sum` takes it up again" in begun.err
    listed = mindx("task", "list", "--json").json
    jsonschema.validate(listed, schema("tasks"))
    assert [(task["task_id"], task["status"], task["runs"]) for task in listed["tasks"]] == [("sum", "partial", 1)]

    resumed = mindx("task", "resume", "sum", "--script", script(READ, "It is 51."))
    assert (resumed.code, resumed.out) == (0, "It is 51.\n")
    assert "memory_read" in resumed.err
    assert "completed" in mindx("task", "list").out
    assert [run["outcome"] for run in mindx("runs", "list", "--json").json["runs"]] == ["completed", "partial"]


def test_a_task_is_resumed_on_its_own_folder(mindx, script):
    (mindx.folder / "w").mkdir()
    done = mindx(
        "task", "run", "look", "--id", "t", "--workspace", "w", "--script", script({"error": "provider_timeout"})
    )
    assert done.code == 6
    assert mindx("task", "list", "--json").json["tasks"][0]["workspace"] == str(mindx.folder / "w")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["resume", "none"], 2, "there is no task"),
        (["run", "x", "--id", "../x"], 2, "plain name"),
        (["run", "", "--script", "turns.jsonl"], 2, "an objective has"),
        (["run", "x"], 6, "MINDX_API_KEY"),
    ],
)
def test_what_cannot_begin_is_one_message(mindx, script, arguments, code, text):
    script("never asked")
    done = mindx("task", *arguments, env={"MINDX_API_KEY": "", "MINDAGENT_API_KEY": ""})
    assert (done.code, done.out) == (code, "")
    assert text in done.err
    assert "mistake in mindx" not in done.err


def test_an_id_is_used_once(mindx, script):
    assert mindx("task", "run", "x", "--id", "one", "--script", script("Done.")).code == 0
    again = mindx("task", "run", "x", "--id", "one", "--script", script("Done."))
    assert again.code == 2
    assert "resume it" in again.err
