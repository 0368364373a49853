"""A task over a session: begun, cut off, and taken up again in another process's place."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mindx.core.action import ActionRequest
from mindx.core.agent_context import AgentContext
from mindx.core.agent_session import SessionEnvironment, SessionEventType
from mindx.core.checkpoint import RunOutcome
from mindx.core.decision import AcceptanceCriterion, AgentDecision
from mindx.core.run_config import RunConfig
from mindx.errors import InputError, ProviderError
from mindx.runtime.agent_runtime import AgentRuntime
from mindx.runtime.conversation import LocalConversationStore
from mindx.runtime.scripted_reasoner import ScriptedReasoner
from mindx.runtime.session import Session
from mindx.runtime.tasks.coordinator import TaskCoordinator
from mindx.runtime.tasks.facts import host_facts
from mindx.runtime.tasks.ledger import LocalTaskLedgerStore, TaskStatus
from mindx.runtime.tasks.memory import LocalTaskMemoryStore
from mindx.sandbox.fake import FakeSandbox
from mindx.sandbox.fake_programs import ProgramContext
from mindx.tools.base import BaseTool, ToolDefinition
from mindx.tools.builtin.memory_read import MemoryReadTool
from mindx.tools.context import ToolContext
from mindx.tools.executor import ToolExecutor
from mindx.tools.workspace.file_edit import FileEditTool

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Place:
    """A state folder and a workspace, as two processes one after the other see them."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.state = folder / "state"
        self.work.mkdir()
        self.ledgers = LocalTaskLedgerStore(self.state / "tasks")
        self.memory = LocalTaskMemoryStore(self.state / "tasks" / "task-1")
        self.git: list[tuple[str, ...]] = []
        self.boxes: list[FakeSandbox] = []

    def repository(self) -> None:
        (self.work / ".git" / "refs" / "heads").mkdir(parents=True)
        (self.work / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (self.work / ".git" / "refs" / "heads" / "main").write_text(f"{COMMIT}\n")

    async def _git(self, ctx: ProgramContext) -> int:
        self.git.append(ctx.argv)
        ctx.write_stdout(b" M a.py\0?? new\nline\0")
        return 0

    def runtime(self, lines: Iterable[Any], **options: Any) -> tuple[AgentRuntime, ScriptedReasoner]:
        def opened(environment: SessionEnvironment, policy: Any) -> Session:
            def box(loaded: Any, progress: Any) -> FakeSandbox:
                self.boxes.append(FakeSandbox({"git": self._git}))
                return self.boxes[-1]

            return Session(workspace=environment.workspace_root, open_sandbox=box)

        reasoner = ScriptedReasoner(lines)
        executor = ToolExecutor([FileEditTool(), MemoryReadTool(self.memory)])
        return AgentRuntime(reasoner, executor, open_session=opened, **options), reasoner

    def coordinator(self, runtime: AgentRuntime, task_id: str = "task-1", **options: Any) -> TaskCoordinator:
        store = LocalConversationStore(self.state / "conversations")
        session = runtime.create_session(
            "task-session", environment=SessionEnvironment(self.work), conversation_store=store
        )
        return TaskCoordinator(session, self.ledgers, self.memory, task_id, **options)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def edit(path: str = "a.py") -> AgentDecision:
    return AgentDecision.act(ActionRequest("act-1", "file_edit", {"path": path, "mode": "create", "content": "x"}))


def read_memory() -> AgentDecision:
    return AgentDecision.act(ActionRequest("act-2", "memory_read", {"source": "memory"}))


def test_a_task_is_run_and_its_ledger_tells_how(place: Place) -> None:
    seen: list[Any] = []

    def active_first(context: AgentContext) -> AgentDecision:
        ledger = place.ledgers.get("task-1")
        seen.append((ledger.status, ledger.latest_run and ledger.latest_run.run_id == context.run_id))
        return edit()

    async def main() -> None:
        runtime, _ = place.runtime([active_first])
        events: list[SessionEventType] = []
        async with runtime:
            coordinator = place.coordinator(runtime, on_event=lambda event: events.append(event.event_type))
            criteria = [AcceptanceCriterion("nice", "it is nice", required=False)]
            result = await coordinator.run("make a file", criteria=criteria)
            assert result.outcome is RunOutcome.FINAL
        # The active state was on the disk before the run's first step.
        assert seen == [(TaskStatus.ACTIVE, True)]
        ledger = place.ledgers.get("task-1")
        assert (ledger.status, ledger.objective, ledger.workspace) == (
            TaskStatus.COMPLETED,
            "make a file",
            str(place.work),
        )
        assert ledger.latest_run is not None
        assert (ledger.latest_run.run_id, ledger.latest_run.outcome) == (result.run_id, "final")
        assert ledger.criteria[0].criterion_id == "nice"
        kinds = [event["event_type"] for event in place.memory.recent_events(200)]
        assert kinds[0] == "state_changed"
        assert {"decision_created", "action_finished", "run_finished"} <= set(kinds)
        assert SessionEventType.RUN_COMPLETED in events

    asyncio.run(main())


def test_a_task_that_was_cut_off_is_resumed_with_its_objective_and_nothing_is_replayed(place: Place) -> None:
    place.repository()
    (place.work / "notes").mkdir()
    place.memory.replace("the parser is done")

    async def first() -> None:
        runtime, _ = place.runtime([edit(), edit("b.py")])
        async with runtime:
            result = await place.coordinator(runtime).run("mend the project", config=RunConfig(max_steps=1))
            assert result.outcome is RunOutcome.PARTIAL

    asyncio.run(first())
    before = place.ledgers.get("task-1")
    assert before.status is TaskStatus.PARTIAL
    history = LocalConversationStore(place.state / "conversations").load("task-session")

    async def second() -> None:
        runtime, reasoner = place.runtime([read_memory()], state_dir=None)
        async with runtime:
            coordinator = place.coordinator(runtime)
            result = await coordinator.resume()
            assert result.outcome is RunOutcome.FINAL
            assert result.task_state is not None
            assert result.task_state.objective == "mend the project"
            # Only the action of this run was done, in a new run.
            assert [observation.action_id for observation in result.observations] == ["act-2"]
            assert result.observations[0].result["content"] == "the parser is done"
            assert before.latest_run is not None
            assert result.run_id != before.latest_run.run_id
        (told,) = reasoner.feedback[0]
        facts = json.loads(told.splitlines()[-1])
        assert facts["objective"] == "mend the project"
        assert facts["latest_run"]["outcome"] == "partial"
        assert facts["workspace"] == {
            "names": [".git/", "notes/"],
            "more_names": False,
            "git_branch": "main",
            "git_head": COMMIT,
            "git_status": [" M a.py", "?? new\nline"],
            "more_git_status": False,
            "notes": [],
        }
        # Old memory is not put in by itself.
        assert "the parser is done" not in told

    asyncio.run(second())
    assert place.git == [("git", "--no-optional-locks", "status", "--porcelain=v1", "-z")]
    after = LocalConversationStore(place.state / "conversations").load("task-session")
    texts = [message.text for message in after]
    assert texts[: len(history)] == [message.text for message in history]
    # What the resumed run itself said at its end, and nothing of the resumption.
    assert texts[len(history) :] == ["done"]
    ledger = place.ledgers.get("task-1")
    assert (ledger.objective, ledger.run_count, ledger.status) == ("mend the project", 2, TaskStatus.COMPLETED)


def test_a_process_that_died_leaves_an_active_task_and_the_next_run_is_told(place: Place) -> None:
    async def first() -> None:
        runtime, _ = place.runtime([])
        async with runtime:
            await place.coordinator(runtime).run("x")

    asyncio.run(first())
    path = place.ledgers.path("task-1") / "ledger.json"
    value = json.loads(path.read_text())
    path.write_text(json.dumps({**value, "status": "active"}))  # as a SIGKILL in the middle leaves it

    async def second() -> None:
        runtime, reasoner = place.runtime([])
        async with runtime:
            await place.coordinator(runtime).resume()
        assert "was cut off in the middle" in reasoner.feedback[0][0]
        assert place.boxes == []  # no repository: no container was started for it

    asyncio.run(second())


def test_failures_and_cancellations_are_in_the_ledger(place: Place) -> None:
    async def fails() -> None:
        runtime, _ = place.runtime([ProviderError("provider_down", "the endpoint is down")])
        async with runtime:
            result = await place.coordinator(runtime).run("x")
            assert result.outcome is RunOutcome.ERROR

    asyncio.run(fails())
    ledger = place.ledgers.get("task-1")
    assert ledger.latest_run is not None
    assert (ledger.status, ledger.latest_run.error) == (TaskStatus.FAILED, "the endpoint is down")

    async def cancelled() -> None:
        waiting = asyncio.Event()

        async def wait(context: AgentContext) -> AgentDecision:
            waiting.set()
            await asyncio.Event().wait()
            raise AssertionError

        runtime, _ = place.runtime([wait])
        async with runtime:
            coordinator = place.coordinator(runtime)
            task = asyncio.ensure_future(coordinator.resume())
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert coordinator.session.run_id == ""
        assert place.ledgers.get("task-1").status is TaskStatus.CANCELLED
        with place.ledgers.writing("task-1"):
            pass

    asyncio.run(cancelled())


def test_a_question_is_answered_through_the_listener(place: Place) -> None:
    async def main() -> None:
        runtime, _ = place.runtime([AgentDecision.ask("which one?")])

        async def listen(event: Any) -> None:
            told = event.payload.get("event")
            if told is not None and told.event_type.value == "user_input_requested":
                await coordinator.session.submit_user_input("the left one")

        async with runtime:
            coordinator = place.coordinator(runtime, on_event=listen)
            result = await coordinator.run("choose")
            assert [message.text for message in result.messages][:3] == ["choose", "which one?", "the left one"]

    asyncio.run(main())


def test_what_cannot_be_begun_or_resumed(place: Place, tmp_path: Path) -> None:
    def code(coordinator: TaskCoordinator, resume: bool, objective: str = "x") -> str:
        async def main() -> None:
            await (coordinator.resume() if resume else coordinator.run(objective))

        with pytest.raises(InputError) as refused:
            asyncio.run(main())
        return refused.value.code

    runtime, _ = place.runtime([])
    coordinator = place.coordinator(runtime)
    assert code(coordinator, True) == "task_unknown"
    assert code(coordinator, False, " ") == "task_objective_invalid"
    with place.ledgers.writing("task-1"):
        assert code(coordinator, False) == "task_in_use"

    async def first() -> None:
        one, _ = place.runtime([])
        async with one:
            await place.coordinator(one).run("x")

    asyncio.run(first())
    assert code(coordinator, False) == "task_exists"
    place.work = tmp_path / "other"
    place.work.mkdir()
    other, _ = place.runtime([])
    assert code(place.coordinator(other), True) == "task_workspace_other"
    with pytest.raises(InputError):
        place.coordinator(place.runtime([])[0], "../task")


def test_a_busy_session_leaves_a_true_ledger(place: Place) -> None:
    async def main() -> None:
        waiting = asyncio.Event()

        async def wait(context: AgentContext) -> AgentDecision:
            waiting.set()
            await asyncio.Event().wait()
            raise AssertionError

        runtime, _ = place.runtime([wait])
        async with runtime:
            coordinator = place.coordinator(runtime)
            await coordinator.session.submit_run("something else")
            await waiting.wait()
            with pytest.raises(InputError) as refused:
                await coordinator.run("x")
            assert refused.value.code == "session_busy"
            ledger = place.ledgers.get("task-1")
            assert ledger.latest_run is not None
            assert ledger.status is TaskStatus.CANCELLED
            assert "has a run that goes on" in ledger.latest_run.error

    asyncio.run(main())


def test_facts_are_read_without_running_anything_of_the_tree(tmp_path: Path) -> None:
    """A repository that runs programs when git looks at it: it is only looked at as files."""
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(tmp_path)], check=True)
    (tmp_path / "hook.sh").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "hook.sh").chmod(0o755)
    for key in ("core.fsmonitor", "filter.x.clean", "diff.external"):
        subprocess.run(["git", "-C", str(tmp_path), "config", key, str(tmp_path / "hook.sh")], check=True)
    facts = host_facts(tmp_path)
    assert (facts.branch, facts.head) == ("trunk", "")
    assert not (tmp_path / "ran").exists()
    assert facts.names == (".git/", "hook.sh")


@pytest.mark.parametrize(
    ("head", "packed", "found"),
    [
        (f"{COMMIT}\n", "", ("", COMMIT)),
        ("ref: refs/heads/side\n", f"# pack-refs\n{COMMIT} refs/heads/side\n^{COMMIT}\n", ("side", COMMIT)),
        ("ref: refs/heads/side\n", "", ("side", "")),
        ("ref: ../../etc/passwd\n", "", ("", "")),
        ("ref: refs/../../../etc/passwd\n", "", ("", "")),
        ("ref: refs/heads/x;\x1b[31m\n", "", ("", "")),
        ("nonsense", "", ("", "")),
        ("", "", ("", "")),
    ],
)
def test_head_is_read_as_a_plain_file(tmp_path: Path, head: str, packed: str, found: tuple[str, str]) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(head)
    if packed:
        (tmp_path / ".git" / "packed-refs").write_text(packed)
    facts = host_facts(tmp_path)
    assert (facts.branch, facts.head) == found


def test_facts_of_hostile_folders(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(COMMIT)
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    (work / ".git" / "HEAD").symlink_to(secret)
    assert "HEAD could not be read" in host_facts(work).notes[0]
    (work / ".git" / "HEAD").unlink()
    (work / ".git" / "HEAD").write_text("x" * 10_000)
    assert "more than 4,096 bytes" in host_facts(work).notes[0]
    for number in range(500):
        (work / f"f{number:03}").touch()
    facts = host_facts(work)
    assert (len(facts.names), facts.more) == (200, True)
    assert "there is no folder" in host_facts(tmp_path / "none").notes[0]
    assert host_facts(None).notes == ("the task has no folder",)


def test_a_container_that_cannot_start_is_a_note(place: Place) -> None:
    place.repository()

    async def main() -> None:
        one, _ = place.runtime([])
        async with one:
            await place.coordinator(one).run("x")
        two, reasoner = place.runtime([])
        async with two:
            coordinator = place.coordinator(two, ask_git=False)
            await coordinator.resume()
        facts = json.loads(reasoner.feedback[0][0].splitlines()[-1])
        assert facts["workspace"]["git_status"] is None
        assert facts["workspace"]["git_head"] == COMMIT
        assert facts["workspace"]["notes"] == ["git was not asked for the status: there is no container"]

    asyncio.run(main())


class Hangs(BaseTool):
    """Changes something, and does not come back."""

    definition = ToolDefinition("hangs")

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        await asyncio.Event().wait()


def test_actions_whose_end_nobody_knows_are_told_and_not_repeated(place: Place) -> None:
    state = {"state_dir": place.state}
    config = RunConfig(max_steps=1, action_timeout_s=0.05)
    hang = AgentDecision.act(ActionRequest("act-1", "hangs", {}))

    async def first() -> None:
        runtime = AgentRuntime(ScriptedReasoner([hang]), ToolExecutor([Hangs()]), **state)
        async with runtime:
            await place.coordinator(runtime).run("x", config=config)

    asyncio.run(first())
    latest = place.ledgers.get("task-1").latest_run
    assert latest is not None
    assert latest.unknown_action_ids == ("act-1",)

    async def second() -> None:
        reasoner = ScriptedReasoner([])
        async with AgentRuntime(reasoner, ToolExecutor([Hangs()]), **state) as runtime:
            result = await place.coordinator(runtime).resume()
            assert result.observations == ()
        facts = json.loads(reasoner.feedback[0][0].splitlines()[-1])
        assert facts["unknown_actions"][0]["name"] == "hangs"

    asyncio.run(second())
