"""A run's document that tells otherwise than its trace is found, and an honest one never is."""

import copy
import json

import pytest

from mindx.core.observation import Observation, Status
from mindx.core.plan import Action
from mindx.core.run import RunResult
from mindx.runtime.step_book import StepBook, step_record
from mindx.trace.agreement import differences
from mindx.trace.read import read
from mindx.trace.recorder import Recorder

CHANGE = {"path": "a", "kind": "added", "entry": "file", "mode": "0644", "size": 1, "sha256": "d" * 64}
NOT_REACHED = Observation("c", Status.SKIPPED, "not reached")


def action(action_id, index):
    return Action(action_id, "EXECUTE_TOOL", {"command": "ls"}, index)


@pytest.fixture
def record(tmp_path):
    """A run of three steps, the last not reached: its document as JSON has it, and its trace."""
    book = StepBook(tmp_path)
    with Recorder(tmp_path / "trace.jsonl") as recorder:
        recorder.record("run_started", run_id="r", policy={"name": "p", "sha256": "e" * 64, "source": "preset"})
        recorder.record("plan_vetted", actions=3, faults=[])
        recorder.record("session_started")
        results = [
            Observation("a", Status.SUCCESS, result={"text": "x" * 40_000, "api_key": "k", "odd": float("inf")}),
            Observation("b", Status.FAILURE, "no such file", duration_s=0.25),
        ]
        for index, observation in enumerate(results):
            kept = book.keep(action(observation.action_id, index), observation)
            recorder.record("observation", **kept.model_dump(mode="json"))
        recorder.record("changes", count=1, changes=[CHANGE | {"stored": False, "note": ""}])
        recorder.record("run_finished", outcome="failed", error=None)
    result = RunResult(
        run_id="r",
        outcome="failed",
        policy={"name": "p", "sha256": "e" * 64},
        started_at="",
        duration_s=1,
        steps=(*book.records, step_record(action("c", 2), NOT_REACHED)),
        changes=(CHANGE,),
        trace="",
    )
    return json.loads(result.to_json()), list(read(tmp_path / "trace.jsonl"))


def test_an_honest_document_agrees_also_where_the_trace_is_cut_or_redacted(record):
    assert differences(*record) == ()


@pytest.mark.parametrize(
    ("where", "value", "told"),
    [
        (("outcome",), "completed", "outcome: the document says completed, the trace failed"),
        (("policy", "sha256"), "f" * 64, "the policy's sha256: the document says fff"),
        (("error",), {"code": "x"}, "error: "),
        (("faults",), [{"kind": "warning"}], "faults: "),
        (("steps", 0, "status"), "FAILURE", "step 1: status: the document says FAILURE, the trace SUCCESS"),
        (("steps", 0, "result", "text"), "x" * 39_999 + "y", "step 1: result: the document and the trace differ"),
        (("steps", 1, "exit_code"), 0, "step 2: exit_code: the document says 0, the trace nothing"),
        (("steps", 1, "stdout_bytes"), 7, "step 2: stdout_bytes: the document says 7, the trace 0"),
        (("steps", 1, "receipt"), {"stdout_sha256": ""}, "step 2: receipt: "),
        (("steps", 2, "status"), "SUCCESS", "step 3: the document says SUCCESS, the trace nothing"),
        (("steps", 2, "exit_code"), 0, "step 3: the document says SKIPPED, the trace nothing"),
        (("changes", 0, "sha256"), "0" * 64, "change 1: sha256: "),
        (("changes",), [], "the number of changes: the document says 0, the trace 1"),
    ],
)
def test_each_thing_that_both_tell_is_compared(record, where, value, told):
    document, events = copy.deepcopy(record[0]), record[1]
    *path, last = where
    place = document
    for key in path:
        place = place[key]
    place[last] = value
    (found,) = differences(document, events)
    assert found.startswith(told)


def test_a_step_that_was_taken_out_or_put_in_is_told(record):
    document, events = record
    less = differences({**document, "steps": document["steps"][:1]}, events)
    assert less == (
        "step 2: the document lacks it, the trace says FAILURE",
        "the document has 1 step, the trace tells of 3",
    )
    more = differences({**document, "steps": [*document["steps"], document["steps"][2]]}, events)
    assert more == ("the document has 4 steps, the trace tells of 3",)


def test_a_record_that_could_not_be_written_is_no_forgery_but_only_of_its_last_step(record):
    """A full disk: the document, written later, tells of one step and an end that the trace lacks."""
    document, events = record
    cut = [event for event in events if event.seq < 4]
    full = {**document, "outcome": "error", "error": {"code": "trace_unwritable"}, "changes": []}
    assert differences(full, cut) == ()
    assert differences(full, cut[:-1]) == ("step 2: the document says FAILURE, the trace nothing",)
    assert "the trace has no end" in differences({**full, "error": None}, cut)[-1]
