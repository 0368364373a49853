"""`mindx trace replay`: a run from its record alone, and what is wrong with the record."""

import time

import jsonschema
import pytest

from mindx.cli.schemas import schema
from mindx.trace.recorder import Recorder
from mindx.trace.run_folder import RunStore

SUM = {"calls": [{"name": "calculator", "arguments": {"expression": "17*3"}}]}
WRONG = {"calls": [{"name": "calculator", "arguments": {"expression": "17*"}}]}


@pytest.fixture
def agent_run(mindx, script):
    """A run of an agent that needs no container: a wrong sum, a right one, an answer."""
    assert mindx("agent", "--mind", "react", "17*3?", "--script", script(WRONG, SUM, "It is 51.")).code == 0
    return RunStore(mindx.state / "runs").find("last")


def test_a_run_is_walked_through_from_its_record_alone(mindx, agent_run):
    """Without its result, its files and an engine: the trace is enough."""
    agent_run.result_path.unlink()
    done = mindx("trace", "replay", "last", env={"DOCKER_HOST": "tcp://127.0.0.1:1"})
    first, second, end = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert "[1] calculator" in first
    assert "ERROR" in first
    assert '{"expression": "17*3"}  SUCCESS' in second
    assert end.startswith(f"{agent_run.run_id}: completed, 2 steps in ")


def test_the_document_fits_its_schema(mindx, agent_run):
    document = mindx("trace", "replay", "last", "--json").json
    jsonschema.validate(document, schema("trace-replay"))
    assert (document["outcome"], document["problems"]) == ("completed", [])
    assert [(step["name"], step["status"]) for step in document["steps"]] == [
        ("calculator", "ERROR"),
        ("calculator", "SUCCESS"),
    ]


def test_a_changed_record_is_told_and_walked_as_far_as_it_is_sound(mindx, agent_run):
    lines = agent_run.trace_path.read_bytes().splitlines(keepends=True)
    at = max(number for number, line in enumerate(lines) if b"observation_created" in line)
    lines[at] = lines[at].replace(b"51", b"52")
    agent_run.trace_path.write_bytes(b"".join(lines))
    done = mindx("trace", "replay", "last")
    assert done.code == 1
    assert "[1] calculator" in done.out
    assert "no result" in done.out
    assert f"problem: line {at + 1}: its digest does not fit" in done.err


def test_it_waits_as_the_run_did(mindx, state_dir):
    """--speed 0.5 takes twice the time that the run took."""
    folder = RunStore(state_dir / "runs").create()
    with Recorder(folder.trace_path) as recorder:
        recorder.record("run_started", run_id=folder.run_id)
        recorder.record("action_started", action_id="a", type="THINK", params={})
        time.sleep(0.6)  # what is replayed is time
        recorder.record("observation", action_id="a", status="SUCCESS")
        recorder.record("run_finished", outcome="completed")
    began = time.monotonic()
    assert mindx("trace", "replay", "last", "--speed", "0.5").code == 0
    assert time.monotonic() - began >= 1.2


UNSOUND = {
    "has two results": [("observation", {"status": "SUCCESS"}), ("observation", {"status": "SUCCESS"})],
    "was not asked for": [("observation", {"status": "SUCCESS", "action_id": "b"})],
    "is asked for twice": [("action_started", {"type": "THINK"}), ("observation", {"status": "SUCCESS"})],
    "has no result": [],
    "no way leads from the state idle to final": [
        ("observation", {"status": "SUCCESS"}),
        ("state_changed", {"payload": {"from": "idle", "to": "final"}}),
    ],
}


@pytest.mark.parametrize("problem", UNSOUND)
def test_a_record_that_no_sound_run_makes_is_told(mindx, state_dir, problem):
    """The chain alone does not show what a recorder was told wrongly."""
    folder = RunStore(state_dir / "runs").create()
    with Recorder(folder.trace_path) as recorder:
        recorder.record("run_started", run_id=folder.run_id)
        recorder.record("action_started", action_id="a", type="THINK", params={"thought": "x"})
        for kind, data in UNSOUND[problem]:
            recorder.record(kind, **{"action_id": "a", **data})
        recorder.record("a_kind_of_tomorrow", payload=3)
        recorder.record("run_finished", outcome="completed")
    done = mindx("trace", "replay", "last")
    assert done.code == 1
    assert problem in done.err


def test_a_document_that_was_changed_alone_is_told(mindx, agent_run):
    """The trace is sound, so only the comparison of both finds it; without a document there is nothing to compare."""
    sound = agent_run.result_path.read_text()
    assert mindx("trace", "verify", "last").code == 0
    agent_run.result_path.write_text(sound.replace("SUCCESS", "FAILURE").replace('"completed"', '"failed"'))
    told = mindx("trace", "verify", "last")
    assert told.code == 1
    assert "the run's document does not agree with it (3 differences)" in told.out
    assert "  step 2: status: the document says FAILURE, the trace SUCCESS\n" in told.out
    assert "  outcome: the document says failed, the trace completed\n" in told.out
    document = mindx("trace", "verify", "last", "--json").json
    jsonschema.validate(document, schema("trace-verify"))
    assert (document["ok"], len(document["differences"])) == (False, 3)
    assert mindx("trace", "replay", "last").code == 1
    agent_run.result_path.write_text(sound.replace('"trace_head": {', '"trace_head": null, "was": {'))
    assert "nothing says where the trace ends" in mindx("trace", "verify", "last").out
    agent_run.result_path.unlink()
    assert mindx("trace", "verify", "last").code == 0
