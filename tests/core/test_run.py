import json

import pytest
from pydantic import ValidationError

from mindx.core.command import Exec
from mindx.core.fault import Fault
from mindx.core.observation import Observation, Status
from mindx.core.receipt import ExecResult, ExitCause, Receipt
from mindx.core.run import FaultRecord, Outcome, PolicyRecord, RunResult, StepRecord, outcome_of

S = Status


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        ([S.SUCCESS, S.SUCCESS], Outcome.COMPLETED),
        ([S.SUCCESS, S.FAILURE, S.SKIPPED], Outcome.FAILED),
        ([S.ERROR], Outcome.FAILED),
        ([S.DENIED, S.SKIPPED], Outcome.DENIED),
        ([S.DENIED, S.FAILURE], Outcome.FAILED),
        ([S.SUCCESS, S.CANCELLED, S.SKIPPED], Outcome.CANCELLED),
        ([S.SUCCESS, S.SKIPPED], Outcome.FAILED),
        ([], Outcome.FAILED),
    ],
)
def test_statuses_add_up(statuses, outcome):
    assert outcome_of(statuses) is outcome


def test_exit_codes_are_those_of_the_documentation():
    codes = {outcome.value: outcome.exit_code for outcome in Outcome}
    assert codes == {
        "completed": 0,
        "failed": 1,
        "invalid": 2,
        "denied": 3,
        "error": 4,
        "partial": 5,
        "cancelled": 130,
    }


def test_a_step_keeps_output_without_loss():
    receipt = Receipt(ExitCause.EXIT, exit_code=3, stdout_bytes=2, stderr_bytes=5)
    execution = ExecResult(Exec(("x",)), receipt, b"\xff\\", b"plain", stderr_truncated=True)
    observation = Observation(
        "act_1", S.FAILURE, "it failed", {"status": "FAILURE", "stdout": "\udcff"}, execution, 1.5
    )
    record = StepRecord.of(4, "EXECUTE_TOOL", "run", observation)
    assert (record.stdout, record.stdout_encoding) == ("\\xff\\\\", "escaped")
    assert (record.stderr, record.stderr_encoding) == ("plain", "utf-8")
    assert (record.exit_code, record.exit_cause, record.truncated, record.index) == (3, "exit", True, 4)
    assert record.result["stdout"] == "\\xff"


def result(**values):
    policy = PolicyRecord(name="default", sha256="0" * 64)
    return RunResult(
        run_id="r", outcome=Outcome.FAILED, policy=policy, started_at="t", duration_s=0.0, trace="t", **values
    )


def test_the_document_has_the_documented_keys():
    step = StepRecord.of(0, "THINK", "", Observation("a", S.SUCCESS))
    fault = FaultRecord.of(Fault("$[0]", 1, "wrong", "right", column=2))
    document = json.loads(result(steps=(step,), faults=(fault,)).to_json())
    assert {"schema_version", "run_id", "outcome", "policy", "steps", "faults", "changes", "trace"} <= document.keys()
    assert set(document["policy"]) == {"name", "sha256"}
    assert {
        "index", "action_id", "type", "command", "status", "message", "exit_code", "exit_cause", "stdout", "stderr",
        "stdout_bytes", "stderr_bytes", "truncated", "duration_s", "result",
    } <= document["steps"][0].keys()  # fmt: skip
    assert {"path", "line", "message", "suggestion"} <= document["faults"][0].keys()


def test_the_document_holds_no_control_sequence():
    step = StepRecord.of(0, "THINK", "", Observation("a", S.SUCCESS, "\x1b[2J\x7f\x9b\u202e"))
    text = result(steps=(step,)).to_json()
    assert all(" " <= character <= "~" or character == "\n" for character in text)
    assert json.loads(text)["steps"][0]["message"] == "\x1b[2J\x7f\x9b\u202e"


def test_records_are_frozen_and_closed():
    record = result()
    with pytest.raises(ValidationError):
        record.outcome = Outcome.COMPLETED
    with pytest.raises(ValidationError):
        result(surprise=1)
