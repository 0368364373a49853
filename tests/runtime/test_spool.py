"""Runs of loud steps: memory stays bounded, the spool and the record tell what there was."""

import asyncio
import json
import os
import tracemalloc

import pytest

import mindx
from mindx.agents.agent_work import AgentWork
from mindx.core.abridge import MAX_STREAM_BYTES
from mindx.core.action import ActionRequest
from mindx.core.decision import AgentDecision
from mindx.core.run import Outcome, StepRecord
from mindx.errors import StateError
from mindx.policy.load import load_policy
from mindx.runtime.scripted_reasoner import ScriptedReasoner
from mindx.runtime.step_book import StepBook
from mindx.sandbox.fake import FakeSandbox
from mindx.trace.read import read
from mindx.trace.run_folder import RunStore
from mindx.trace.spool import Spool
from tests.steps import tool

MIB = 1024 * 1024


def shout(text, other=b""):
    async def program(ctx):
        ctx.write_stdout(text)
        ctx.write_stderr(other)
        return 0

    return program


def spooled(runs, result, name):
    return (runs.store.find(result.run_id).path / name).read_bytes()


def test_many_loud_steps_take_no_memory_and_are_spooled_whole(runs):
    steps = 120
    runs.programs["true"] = shout(b"o" * MIB, b"e" * MIB)
    plan = [tool("run", argv=["true"])] * steps  # 480 MiB, if observations and records held them
    run = runs.make(plan)
    tracemalloc.start()
    try:
        result = asyncio.run(run.run())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.outcome is Outcome.COMPLETED
    assert peak < 48 * MIB
    assert all(step.stdout_bytes == step.stderr_bytes == MIB and step.truncated for step in result.steps)
    folder = run.folder.path
    assert {(folder / f"output/{n}.{name}").stat().st_size for n in (1, steps) for name in ("stdout", "stderr")} == {
        MIB
    }
    assert folder.joinpath("result.json").stat().st_size < 40 * MIB


def test_a_small_output_stays_whole_in_the_document(runs):
    text = b"x" * MAX_STREAM_BYTES
    runs.programs["true"] = shout(text, b"warn")
    step = runs.run([tool("run", argv=["true"])]).steps[0]
    assert (step.stdout.encode(), step.stderr, step.truncated, step.abridged) == (text, "warn", False, False)
    assert step.result["stdout"].encode() == text


def test_a_large_output_keeps_both_ends_and_the_true_count(runs):
    text = b"first\n" + "é".encode() * 100_001 + b"\nlast"
    runs.programs["true"] = shout(text)
    result = runs.run([tool("run", argv=["true"])])
    step = result.steps[0]
    assert (step.stdout_bytes, step.stdout_encoding, step.truncated, step.abridged) == (len(text), "utf-8", True, True)
    assert (step.stdout[:7], step.stdout[-6:]) == ("first\né", "é\nlast")
    before, gap = step.stdout.split("\n[mindx: ")
    kept = before + gap.partition("]\n")[2]
    assert int(gap.split()[0]) + len(kept.encode()) == len(text)
    assert len(step.result["stdout"]) < MAX_STREAM_BYTES + 100
    assert (step.stdout_spool, step.stderr_spool) == ("output/1.stdout", "")
    assert spooled(runs, result, step.stdout_spool) == text
    assert (runs.store.find("last").path / step.stdout_spool).stat().st_mode & 0o777 == 0o600
    assert (runs.store.find("last").path / "output").stat().st_mode & 0o777 == 0o700


def test_a_long_result_of_no_program_is_spooled(runs):
    text = "".join(f"line {number}\n" for number in range(20_000))
    result = runs.run([tool("write", path="a.txt", content=text), tool("read", path="a.txt")])
    step = result.steps[1]
    assert (step.abridged, step.truncated, step.result_spool) == (True, False, "output/2.result.json")
    assert "characters left out" in step.result["content"]
    assert json.loads(spooled(runs, result, step.result_spool))["content"] == text


def test_beyond_the_document_cap_only_counts_and_names_remain(tmp_path, runs):
    runs.programs["true"] = shout(b"x" * 1000)
    run = runs.make([tool("run", argv=["true"])] * 3 + [tool("write", path="a", content="b"), tool("read", path="a")])
    run._book = StepBook(run.folder.path, max_chars=2500)
    steps = asyncio.run(run.run()).steps
    assert [bool(step.stdout) for step in steps] == [True, False, False, False, False]
    assert [(step.stdout_bytes, step.stdout_spool) for step in steps[1:3]] == [
        (1000, "output/2.stdout"),
        (1000, "output/3.stdout"),
    ]
    assert [step.truncated for step in steps[:3]] == [False, True, True]


def test_a_step_carries_its_receipt(runs):
    runs.programs["true"] = shout(b"hello")
    told, other = runs.run([tool("run", argv=["true"]), tool("mkdir", path="a")]).steps
    assert told.receipt.stdout_sha256 == "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert (told.receipt.oom_kills, told.receipt.pids_refused, told.receipt.killed) == (0, 0, ())
    assert other.receipt is None


def test_the_steps_of_an_interrupted_run_are_spooled_already(runs):
    ended = []

    def on_step(action, observation):
        if observation is not None:
            ended.append((runs.store.find("last").path / "output/1.stdout").read_bytes())

    runs.programs["true"] = shout(b"hello")
    runs.run([tool("run", argv=["true"])], on_step=on_step)
    assert ended == [b"hello"]


def test_output_is_in_the_spool_while_its_program_runs(runs):
    seen = []

    async def slow(ctx):
        ctx.write_stdout(b"first ")
        seen.append((runs.store.find("last").path / "output/1.stdout").read_bytes())
        ctx.write_stdout(b"second")
        return 0

    runs.programs["true"] = slow
    result = runs.run([tool("run", argv=["true"])])
    assert seen == [b"first "]
    assert spooled(runs, result, "output/1.stdout") == b"first second"


def test_what_a_cancelled_step_has_printed_is_kept_and_named(runs):
    async def cancelled():
        started = asyncio.Event()

        async def hang(ctx):
            ctx.write_stdout(b"so far")
            started.set()
            await asyncio.Event().wait()
            return 0

        runs.programs["true"] = hang
        task = asyncio.create_task(run.run())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run = runs.make([tool("run", argv=["true"])])
    asyncio.run(cancelled())
    assert [(step.status.value, step.stdout_spool) for step in run.result.steps] == [("CANCELLED", "output/1.stdout")]
    assert spooled(runs, run.result, "output/1.stdout") == b"so far"


def test_the_spool_of_a_run_has_a_cap_and_says_what_had_no_room(tmp_path, runs):
    policy = tmp_path / "small.yaml"
    policy.write_text('version: 1\nlimits:\n  run_output: 1MiB\ncommands:\n  - allow: ["true"]\n')
    runs.policy = load_policy(policy)
    runs.programs["true"] = shout(b"o" * 700_000)
    result = runs.run([tool("run", argv=["true"])] * 3)
    assert [step.spool_left_out_bytes for step in result.steps] == [0, 2 * 700_000 - MIB, 700_000]
    assert [step.stdout_spool for step in result.steps] == ["output/1.stdout", "output/2.stdout", ""]
    assert [step.stdout_bytes for step in result.steps] == [700_000] * 3
    kept = spooled(runs, result, "output/2.stdout")
    assert kept == b"o" * (MIB - 700_000) + b"\n[mindx: 351424 bytes left out: the run may keep no more output]\n"


def test_a_stream_over_its_own_cap_is_spooled_as_it_was_kept(runs):
    runs.programs["true"] = shout(b"a" * MIB + b"b" * MIB)
    result = runs.run([tool("run", argv=["true"])])
    kept = spooled(runs, result, "output/1.stdout")
    assert kept.count(b"a") == MIB * 3 // 4
    assert kept.endswith(b"\n[mindx: 1048576 bytes left out]\n" + b"b" * (MIB // 4))


def test_what_a_tools_helpers_print_is_no_output_of_the_step(tmp_path):
    spool = Spool(tmp_path)
    spool.begin(1)
    spool.hear("stdout", b"helper")
    spool.drop(1)
    assert list((tmp_path / "output").iterdir()) == []


def test_an_output_that_cannot_be_spooled_is_an_error_and_keeps_its_record(runs):
    run = runs.make([tool("run", argv=["true"])])
    runs.programs["true"] = shout(b"hello")
    (run.folder.path / "output").write_text("in the way")
    result = asyncio.run(run.run())
    assert (result.outcome, result.error["code"]) == (Outcome.ERROR, "output_unwritable")
    assert [(step.status.value, step.stdout) for step in result.steps] == [("SUCCESS", "hello")]


def test_a_full_disk_does_not_hide_the_cancellation(runs):
    async def cancelled():
        started = asyncio.Event()

        async def hang(ctx):
            # From now on nothing can be recorded.
            os.dup2(full, run.recorder._handle)
            started.set()
            await asyncio.Event().wait()
            return 0

        runs.programs["true"] = hang
        task = asyncio.create_task(run.run())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run = runs.make([tool("run", argv=["true"])])
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        asyncio.run(cancelled())
    finally:
        os.close(full)
    assert (run.result.outcome, run.result.error["code"]) == (Outcome.ERROR, "trace_unwritable")
    assert [step.status.value for step in run.result.steps] == ["CANCELLED"]


def test_more_names_than_the_usual_are_told_when_the_policy_allows_them(runs):
    asked = []

    class Counting(FakeSandbox):
        async def manifest(self, max_entries=0):
            asked.append(max_entries)
            return await super().manifest(max_entries)

    def counting(loaded, progress):
        return Counting(runs.programs)

    async def changes():
        async with mindx.Session(runs.policy, open_sandbox=counting) as session:
            return await session.changes()

    runs.run([tool("run", argv=["true"])], open_sandbox=counting)
    assert asyncio.run(changes()) == ()
    allowed = runs.policy.policy.limits.workspace_inodes
    assert asked == [allowed, allowed] != [200_000, 200_000]


def test_the_document_is_the_same_in_pieces_and_the_trace_holds_the_step(runs):
    result = runs.run([tool("run", argv=["true"])])
    folder = RunStore(runs.store.root).find(result.run_id)
    assert folder.result_path.read_text() == result.to_json()
    told = next(event.data for event in read(folder.trace_path) if event.kind == "observation")
    assert StepRecord.model_validate(told).index == 0


def test_state_errors_of_ended_commands_are_still_raised(runs):
    run = runs.make([tool("run", argv=["true"])])

    async def fill(ctx):
        os.dup2(full, run.recorder._handle)
        return 0

    runs.programs["true"] = fill
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(StateError):
            asyncio.run(run.run())
    finally:
        os.close(full)


def test_an_agents_long_results_are_spooled_too(runs):
    @mindx.tool
    def shout_back() -> dict:
        """Return a lot."""
        return {"text": "x" * 300_000}

    async def work():
        request = ActionRequest("a1", "shout_back", {})
        reasoner = ScriptedReasoner([AgentDecision.act(request)])
        work = AgentWork(reasoner, [shout_back], runs.policy, runs.store, open_sandbox=runs.open)
        async with work:
            await work.run("shout")
        return work

    done = asyncio.run(work())
    step = done.result.steps[0]
    assert (step.status.value, step.abridged, step.result_spool) == ("SUCCESS", True, "output/1.result.json")
    assert done.folder.result_path.stat().st_size < 200_000
    assert "x" * 300_000 in (done.folder.path / step.result_spool).read_text()
