import asyncio
import dataclasses
import json
import os

import pytest

from mindx.core.receipt import ExitCause
from mindx.core.run import Outcome
from mindx.errors import EngineError, FileError, SandboxLostError, StateError
from mindx.sandbox.fake import FakeSandbox
from mindx.trace.read import read, verify
from mindx.trace.run_folder import RunFolder
from tests.steps import tool


def limited(runs, **limits):
    policy = runs.policy.policy
    changed = policy.changed(limits=policy.limits.changed(**limits))
    return dataclasses.replace(runs.policy, policy=changed)


def statuses(result):
    return [step.status.value for step in result.steps]


def folder_of(runs, result) -> RunFolder:
    return runs.store.find(result.run_id)


def test_a_plan_completes_and_leaves_its_record(runs):
    plan = [
        {"type": "THINK", "params": {"thought": "first"}},
        tool("mkdir", path="app"),
        tool("cd", path="app"),
        tool("write", path="a.txt", content="hello"),
        tool("run", argv=["cat", "a.txt"]),
    ]
    result = runs.run(plan)
    assert result.outcome is Outcome.COMPLETED
    assert statuses(result) == ["SUCCESS"] * 5
    assert (result.steps[4].exit_code, result.steps[4].stdout, result.steps[4].exit_cause) == (0, "hello", "exit")
    assert [(change.path, change.kind) for change in result.changes] == [("app", "added"), ("app/a.txt", "added")]
    folder = folder_of(runs, result)
    assert json.loads(folder.result_path.read_text()) == json.loads(result.to_json())
    assert json.loads(folder.plan_path.read_text()) == plan
    assert [file.read_text() for file in folder.files_path.iterdir()] == ["hello"]
    assert (folder.path / "changes.json").is_file()
    found = verify(folder.trace_path, events=result.trace_head.events, head=result.trace_head.sha256)
    assert found.ok
    kinds = [event.kind for event in read(folder.trace_path)]
    assert kinds[:3] == ["run_started", "plan_vetted", "session_started"]
    assert kinds[-2:] == ["changes", "run_finished"]
    assert kinds.count("observation") == kinds.count("action_started") == 5
    assert "exec" in kinds
    assert folder.state() == "finished"


def test_the_first_failure_stops_and_the_rest_is_skipped(runs):
    result = runs.run([tool("run", argv=["true"]), tool("run", argv=["false"]), tool("run", argv=["true"])])
    assert result.outcome is Outcome.FAILED
    assert statuses(result) == ["SUCCESS", "FAILURE", "SKIPPED"]
    assert result.steps[1].exit_code == 1


def test_keep_going_does_all_and_still_failed(runs):
    result = runs.run([tool("run", argv=["false"]), tool("run", argv=["true"])], keep_going=True)
    assert (result.outcome, statuses(result)) == (Outcome.FAILED, ["FAILURE", "SUCCESS"])


def test_an_invalid_plan_never_opens_a_sandbox(runs):
    told = []
    result = runs.run([tool("mkdri", path="x"), tool("run", argv=["curl"])], on_vetted=told.append)
    assert result.outcome is Outcome.INVALID
    assert runs.opened == []
    assert {fault.kind for fault in result.faults} == {"invalid", "denied"}
    assert statuses(result) == ["ERROR", "DENIED"]
    assert len(told) == 1
    assert folder_of(runs, result).read_result()["outcome"] == "invalid"


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[]", b"[" * 10_000, b"null"])
def test_what_is_no_plan_is_invalid(runs, text):
    result = runs.run(text)
    assert result.outcome is Outcome.INVALID
    assert result.faults
    assert folder_of(runs, result).plan_path.read_bytes() == text


def test_a_plan_that_is_only_denied_is_denied(runs):
    result = runs.run([tool("run", argv=["true"]), tool("rm", path="x"), tool("run", cmdline="pip install x")])
    assert result.outcome is Outcome.DENIED
    assert statuses(result) == ["SKIPPED", "DENIED", "DENIED"]
    assert runs.opened == []


def test_autonomous_grants_rm(runs):
    result = runs.run([tool("write", path="x", content=""), tool("rm", path="x")], autonomous=True)
    assert (result.outcome, result.changes) == (Outcome.COMPLETED, ())


def test_a_missing_workspace_is_invalid_before_any_sandbox(runs, tmp_path):
    result = runs.run([tool("run", argv=["true"])], workspace=tmp_path / "missing")
    assert result.outcome is Outcome.INVALID
    assert result.error["code"] == "workspace_missing"
    assert runs.opened == []
    assert statuses(result) == ["SKIPPED"]


def test_a_workspace_is_copied_and_compared(runs, tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "old.txt").write_text("old")
    plan = [tool("write", path="old.txt", content="new"), tool("write", path="b.txt", content="b")]
    result = runs.run(plan, workspace=folder)
    assert [(change.path, change.kind) for change in result.changes] == [("b.txt", "added"), ("old.txt", "modified")]
    assert (folder / "old.txt").read_text() == "old"


def test_an_engine_that_refuses_is_an_error(runs):
    class Refusing(FakeSandbox):
        async def start(self):
            raise EngineError("engine_unreachable", "the engine does not answer")

    result = runs.run([tool("run", argv=["true"])], open_sandbox=lambda loaded, progress: Refusing())
    assert result.outcome is Outcome.ERROR
    assert result.error["code"] == "engine_unreachable"
    assert statuses(result) == ["SKIPPED"]


def test_a_sandbox_that_breaks_is_an_error_with_what_is_known(runs):
    async def breaks(ctx):
        raise SandboxLostError("sandbox_lost", "the container is gone")

    runs.programs["sleep"] = breaks
    result = runs.run([tool("run", argv=["true"]), tool("run", argv=["sleep"]), tool("run", argv=["true"])])
    assert result.outcome is Outcome.ERROR
    assert statuses(result) == ["SUCCESS", "ERROR", "SKIPPED"]
    assert result.error["code"] == "sandbox_lost"
    assert folder_of(runs, result).read_result()["outcome"] == "error"


def test_cancelling_writes_the_result_all_the_same(runs):
    started = asyncio.Event()

    async def waits(ctx):
        started.set()
        await asyncio.Event().wait()

    runs.programs["sleep"] = waits
    plan = [tool("write", path="a", content="kept"), tool("run", argv=["sleep", "9"]), tool("run", argv=["true"])]

    async def scenario():
        run = runs.make(plan)
        task = asyncio.ensure_future(run.run())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return run

    run = asyncio.run(scenario())
    assert run.result.outcome is Outcome.CANCELLED
    assert statuses(run.result) == ["SUCCESS", "CANCELLED", "SKIPPED"]
    assert [change.path for change in run.result.changes] == ["a"]
    assert run.folder.read_result()["outcome"] == "cancelled"
    assert verify(run.folder.trace_path, events=run.result.trace_head.events).ok


def test_the_sessions_time_makes_a_run_partial(runs):
    async def waits(ctx):
        await asyncio.Event().wait()

    runs.programs["sleep"] = waits
    policy = limited(runs, session_timeout_s=0.05)
    result = runs.run([tool("run", argv=["sleep"]), tool("run", argv=["true"])], policy=policy)
    assert (result.outcome, statuses(result)) == (Outcome.PARTIAL, ["CANCELLED", "SKIPPED"])


def test_the_sessions_commands_make_a_run_partial(runs):
    policy = limited(runs, commands=2)
    result = runs.run([tool("run", argv=["true"])] * 3, policy=policy)
    assert (result.outcome, statuses(result)) == (Outcome.PARTIAL, ["SUCCESS", "SUCCESS", "DENIED"])


def test_a_bug_of_a_tool_is_reported_and_ends_the_step(runs):
    async def bug(ctx):
        raise ZeroDivisionError("a detail")

    runs.programs["true"] = bug
    told = []
    result = runs.run([tool("run", argv=["true"])], on_bug=lambda error, folder: told.append((error, folder)))
    assert (result.outcome, statuses(result)) == (Outcome.FAILED, ["ERROR"])
    assert isinstance(told[0][0], ZeroDivisionError)
    assert "a detail" not in result.to_json()


def test_a_workspace_with_too_many_names_is_an_error_of_the_container(runs):
    class Crowded(FakeSandbox):
        async def manifest(self, max_entries=200_000):
            raise FileError("too_many_names", "the workspace has too many names", errno=7, path="/workspace")

    result = runs.run([tool("run", argv=["true"])], open_sandbox=lambda loaded, progress: Crowded())
    assert (result.outcome, result.error["code"], statuses(result)) == (Outcome.ERROR, "too_many_names", ["SUCCESS"])


def test_output_that_is_no_utf8_is_escaped_and_marked(runs):
    async def binary(ctx):
        ctx.write_stdout(b"\xff\x1b[2J\\")
        return 0

    runs.programs["true"] = binary
    result = runs.run([tool("run", argv=["true"])])
    step = result.steps[0]
    assert (step.stdout, step.stdout_encoding, step.exit_cause) == ("\\xff\x1b[2J\\\\", "escaped", ExitCause.EXIT.value)
    assert "\x1b" not in result.to_json()


def test_a_trace_that_cannot_be_written_is_an_error(runs):
    run = runs.make([tool("run", argv=["true"])])
    run.recorder.close()
    run.recorder._handle = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(StateError):
        asyncio.run(run.run())
    assert run.result.outcome is Outcome.ERROR
    assert runs.opened == []


def test_an_outcome_error_always_carries_its_reason(runs):
    def on_step(action, observation):
        raise ValueError("a listener that breaks")

    with pytest.raises(ValueError, match="a listener that breaks"):
        runs.run([tool("run", argv=["true"])], on_step=on_step)
    (folder,) = runs.store.runs()
    document = folder.read_result()
    assert document["outcome"] == "error"
    assert document["error"]["code"] == "run_broke"
    assert "ValueError" in document["error"]["message"]
