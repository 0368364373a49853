"""What a SIGKILL of the host leaves: a real process is killed, and another goes on."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mindx import (
    ActionRequest,
    ActionRisk,
    AgentDecision,
    AgentRuntime,
    BoundaryReason,
    ErrorCode,
    FunctionExecutor,
    InputError,
    Observation,
    RunConfig,
    RunOutcome,
    ScriptedReasoner,
    SessionEventType,
    SessionPolicy,
    StateError,
    Status,
)
from mindx.runtime.append_file import AppendFile, read_lines
from mindx.runtime.journal import RunJournal
from tests.agents.support import READ, World, act

E = SessionEventType
HOST = Path(__file__).with_name("durable_host.py")
SHORT = RunConfig(max_steps=2, heartbeat_s=0.0, interactive=False)


@contextlib.contextmanager
def host(tmp_path, where="after"):
    """Start a host and yield it when it stands in the middle of its action."""
    argv = [sys.executable, str(HOST), str(tmp_path / "state"), str(tmp_path / "marks"), where]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment)
    try:
        assert process.stdout.readline() == b"in the middle\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def killed(tmp_path, where="after"):
    with host(tmp_path, where) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


def marks(tmp_path):
    path = tmp_path / "marks"
    return path.read_text().split() if path.exists() else []


async def read_until(session, event_type):
    seen = []
    while not seen or seen[-1].event_type is not event_type:
        seen.append(await session.next_event())
    return seen


def go_on(tmp_path, *lines, approvals=None):
    """Open the session in this process, continue it and return its events, its result and the reasoner."""

    def mark(arguments, context):
        with (tmp_path / "marks").open("a") as file:
            file.write(f"{arguments['n']}\n")
        return "marked"

    risks = {"mark": ActionRisk.WRITE, "hang": ActionRisk.WRITE, "danger": ActionRisk.DANGEROUS}
    executor = FunctionExecutor({"mark": mark, "hang": mark, "danger": mark}, risks)

    async def main():
        reasoner = ScriptedReasoner(lines)
        config = RunConfig(heartbeat_s=0.0, allow_dangerous=True, interactive=False)
        async with AgentRuntime(reasoner, executor, config=config, state_dir=tmp_path / "state") as runtime:
            session = runtime.create_session("task-1", policy=SessionPolicy(allow_dangerous=True))
            events = await read_until(session, E.CONTINUATION_REQUIRED)
            run_id = await session.continue_run(events[-1].payload["checkpoint_id"])
            done = await read_until(session, E.RUN_COMPLETED)
            assert done[-1].payload["result"].run_id == run_id != "r1"
            return events, done[-1].payload["result"], reasoner, session

    return asyncio.run(main())


@pytest.mark.parametrize(("where", "made"), [("after", ["1", "2", "3"]), ("before", ["1", "2"])])
def test_after_a_kill_the_cut_action_is_unknown_and_never_repeated(tmp_path, where, made):
    killed(tmp_path, where)
    assert marks(tmp_path) == made
    events, result, reasoner, session = go_on(tmp_path)
    kinds = [event.event_type for event in events]
    assert kinds == [E.SESSION_READY, E.RUN_INTERRUPTED, E.CONTINUATION_REQUIRED]
    checkpoint = events[-1].payload["checkpoint"]
    assert checkpoint.boundary.reason is BoundaryReason.INTERRUPTED
    assert checkpoint.completed_action_ids == ("1", "2")
    assert checkpoint.unknown_action_ids == ("3",)
    assert result.outcome is RunOutcome.FINAL
    assert marks(tmp_path) == made
    shown = reasoner.observations[0]
    assert [(item.action_id, item.error_info.code) for item in shown] == [("3", ErrorCode.ACTION_OUTCOME_UNKNOWN)]
    assert "its end is not known" in shown[0].message
    told = " ".join(reasoner.feedback[0])
    assert "hang" in told
    assert "{'n': 3}" in told
    assert {"ev_1", "ev_2"} <= {item.evidence_id for item in result.evidence}
    assert session.artifacts["colour"] == "blue"
    assert result.task_state.objective == "make three marks"
    assert [message.text for message in session.messages] == ["make three marks", "done"]


def test_a_kill_in_the_middle_of_a_thought_leaves_nothing_unknown(tmp_path):
    killed(tmp_path, "thinking")
    events, result, reasoner, _ = go_on(tmp_path)
    assert events[-1].payload["checkpoint"].unknown_action_ids == ()
    assert reasoner.observations[0] == ()
    assert result.ok
    assert marks(tmp_path) == ["1", "2"]


def test_approvals_of_the_session_survive_for_the_exact_arguments(tmp_path):
    killed(tmp_path, "thinking")
    again = AgentDecision.act(ActionRequest("a", "danger", {"n": 2}), ActionRequest("b", "danger", {"n": 9}))
    _, result, _, _ = go_on(tmp_path, again)
    assert [item.status.value for item in result.observations] == ["SUCCESS", "DENIED"]
    assert result.observations[1].error_info.code is ErrorCode.HUMAN_APPROVAL_UNAVAILABLE
    assert marks(tmp_path) == ["1", "2", "2"]


def test_the_same_kill_gives_the_same_checkpoint_and_a_second_one_adds_to_it(tmp_path):
    killed(tmp_path)

    async def look():
        async with AgentRuntime(ScriptedReasoner(), World().executor(), state_dir=tmp_path / "state") as runtime:
            return runtime.create_session("task-1").pending.checkpoint.checkpoint_id

    assert asyncio.run(look()) == asyncio.run(look())


def test_a_session_is_open_in_one_process_only(tmp_path):
    with host(tmp_path):

        async def main():
            async with AgentRuntime(ScriptedReasoner(), World().executor(), state_dir=tmp_path / "state") as runtime:
                with pytest.raises(InputError) as refused:
                    runtime.create_session("task-1")
                assert refused.value.code == "session_in_use"
                runtime.create_session("task-2")

        asyncio.run(main())


def partial(tmp_path, *lines):
    async def main():
        reasoner = ScriptedReasoner(lines)
        async with AgentRuntime(reasoner, World().executor(), config=SHORT, state_dir=tmp_path / "state") as runtime:
            session = runtime.create_session("s")
            if session.pending is None:
                await session.submit_run("the goal")
            else:
                await session.continue_run()
            return (await read_until(session, E.RUN_COMPLETED))[-1].payload["result"], session

    return asyncio.run(main())


def test_a_partial_run_is_continued_in_another_process(tmp_path):
    first, _ = partial(tmp_path, act("1:look"), act("2:write"))
    assert first.outcome is RunOutcome.PARTIAL
    second, session = partial(tmp_path, act("3:look"))
    assert (second.ok, second.run_id != first.run_id) == (True, True)
    assert second.task_state.completed_action_ids == ("1", "2", "3")
    assert session.pending is None
    third, session = partial(tmp_path)
    assert third.ok
    texts = [message.text for message in session.messages]
    assert texts == ["the goal", "done", "the goal", "done"]


def test_a_journal_that_is_cut_or_damaged_is_read_as_far_as_it_goes(tmp_path):
    partial(tmp_path, act("1:look"), act("2:write"))
    journal = tmp_path / "state" / "sessions" / "s" / "journal.jsonl"
    data = journal.read_bytes()
    ended = data.rstrip(b"\n").rfind(b"\n") + 1
    for damaged in (
        data[:ended],
        data[: ended + 40],
        data[:ended] + b"\xff\x00garbage\n",
        data[:ended] + b'{"kind": "x"}\n',
    ):
        journal.write_bytes(damaged)

        async def look():
            async with AgentRuntime(ScriptedReasoner(), World().executor(), state_dir=tmp_path / "state") as runtime:
                return runtime.create_session("s").pending.checkpoint

        checkpoint = asyncio.run(look())
        assert checkpoint.boundary.reason is BoundaryReason.INTERRUPTED
        assert checkpoint.completed_action_ids == ("1", "2")
    journal.write_bytes(b"\x00" * 1000)
    result, _ = partial(tmp_path)
    assert result.ok


class Noting(AppendFile):
    """A file that notes when it was made durable."""

    def __init__(self, path, notes):
        super().__init__(path)
        self.notes = notes

    async def sync(self):
        await super().sync()
        self.notes.append("durable")


@pytest.mark.parametrize(("risk", "expected"), [(ActionRisk.WRITE, ["durable", "ran", "durable"]), (READ, ["ran"])])
def test_what_may_change_something_is_on_the_disk_before_it_begins(tmp_path, risk, expected):
    notes = []

    async def main():
        journal = RunJournal(Noting(tmp_path / "j.jsonl", notes), "r")
        request = ActionRequest("1", "x")
        await journal.started(request, risk)
        notes.append("ran")
        await journal.finished(request, Observation("1", Status.SUCCESS))

    asyncio.run(main())
    assert notes == expected


def test_a_line_after_a_torn_one_is_whole(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b"')
    file = AppendFile(path)
    file.append([{"c": 3}])
    asyncio.run(file.sync())
    file.close()
    file.close()
    assert list(read_lines(path)) == [{"a": 1}, {"c": 3}]


def test_an_action_does_not_begin_when_it_cannot_be_written_down(tmp_path):
    async def main():
        world = World()
        runtime = AgentRuntime(
            ScriptedReasoner([act("1:write")]), world.executor(), config=SHORT, state_dir=tmp_path / "state"
        )
        async with runtime:
            session = runtime.create_session("s")
            file = session._record._journal._file
            file.append([])
            full = os.open("/dev/full", os.O_WRONLY)
            spare = os.dup(file._handle)

            def fill(event):
                if event.event_type.value == "action_validated":
                    os.dup2(full, file._handle)

            runtime._event_handler = fill
            await session.submit_run("x")
            result = (await read_until(session, E.RUN_COMPLETED))[-1].payload["result"]
            os.close(full)
            os.close(spare)
            return result, world

    result, world = asyncio.run(main())
    assert (result.outcome, world.calls) == (RunOutcome.ERROR, [])
    assert result.error_info.details["code"] == "state_unwritable"


def test_a_state_folder_that_cannot_be_used_is_a_typed_error(tmp_path):
    (tmp_path / "file").write_text("")

    async def main():
        async with AgentRuntime(ScriptedReasoner(), World().executor(), state_dir=tmp_path / "file") as runtime:
            runtime.create_session("s")

    with pytest.raises(StateError):
        asyncio.run(main())


def test_what_is_kept_is_only_the_users_own(tmp_path):
    partial(tmp_path, act("1:look"))
    folder = tmp_path / "state" / "sessions" / "s"
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
    assert json.loads((folder / "journal.jsonl").read_text().splitlines()[0])["kind"] == "run"
