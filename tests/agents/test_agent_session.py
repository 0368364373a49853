import asyncio
import json

import pytest

from mindx import (
    ActionRequest,
    ActionRisk,
    AgentDecision,
    AgentResult,
    AgentRuntime,
    ChatMessage,
    ErrorCode,
    FunctionExecutor,
    InputError,
    LocalConversationStore,
    RunConfig,
    RunOutcome,
    SandboxLostError,
    ScriptedReasoner,
    SessionEnvironment,
    SessionEventType,
    SessionPolicy,
    SessionState,
    ToolCall,
)
from mindx.core.agent_session import SessionEvent
from mindx.core.command import Exec
from mindx.policy.load import parse_policy
from mindx.runtime.consent import approved_action_id, consent
from mindx.runtime.event_queue import SessionEventQueue
from mindx.runtime.session import Session
from mindx.sandbox.fake import FakeSandbox
from tests.agents.support import READ, Made, World, act

E = SessionEventType
SHORT = RunConfig(max_steps=2, heartbeat_s=0.0, interactive=False)


async def read_until(session, event_type):
    """Return the events up to and with the first of this type."""
    seen = []
    async for event in session.events():
        seen.append(event)
        if event.event_type is event_type:
            return seen
    return seen


async def result_of(session) -> AgentResult:
    return (await read_until(session, E.RUN_COMPLETED))[-1].payload["result"]


def kinds(events):
    return [event.event_type.value for event in events if event.event_type is not E.AGENT_EVENT]


def in_runtime(scenario, *lines, **options):
    async def main():
        made = Made(*lines, **options)
        async with made.runtime:
            return await scenario(made)

    return asyncio.run(main())


def test_a_run_in_a_session_is_told_by_events():
    async def scenario(made):
        session = made.runtime.create_session("s")
        assert session.state is SessionState.CREATED
        run_id = await session.submit_run("look around", run_id="r1")
        seen = await read_until(session, E.RUN_COMPLETED)
        result = seen[-1].payload["result"]
        assert (run_id, result.run_id, result.session_id, result.final_answer) == ("r1", "r1", "s", "done")
        assert kinds(seen) == ["session_ready", "run_accepted", "run_completed"]
        assert [event.seq for event in seen] == list(range(len(seen)))
        assert [event.payload["event"] for event in seen if event.event_type is E.AGENT_EVENT] == made.heard.events
        assert session.state is SessionState.READY
        await made.runtime.close_session("s")
        assert kinds([await session.next_event()]) == ["session_closed"]
        assert session.state is SessionState.CLOSED
        await session.close()
        for call in (session.submit_run("x"), session.next_event(), session.cancel_run()):
            with pytest.raises(InputError) as refused:
                await call
            assert refused.value.code == "session_closed"
        await made.runtime.close_session("s")
        assert made.runtime.create_session("s") is not session

    in_runtime(scenario, act("look"))


def test_one_run_at_a_time():
    async def scenario(made):
        session = made.runtime.create_session("s")
        await session.submit_run("x", run_id="r1")
        await made.world.entered.wait()
        assert (session.state, session.run_id) == (SessionState.RUNNING, "r1")
        for call in (session.submit_run("y"), session.append_user_message("z"), session.continue_run()):
            with pytest.raises(InputError) as busy:
                await call
            assert busy.value.code == "session_busy"
        with pytest.raises(InputError):
            session.clear()
        made.world.gate.set()
        seen = await read_until(session, E.RUN_COMPLETED)
        rejected = [event.payload for event in seen if event.event_type is E.COMMAND_REJECTED]
        assert [item["command"] for item in rejected] == ["start_run", "append_user_message", "continue_run"]
        assert rejected[0]["error"]["code"] == "session_busy"
        assert seen[-1].payload["result"].ok

    in_runtime(scenario, act("wait"))


def test_sessions_run_at_once_and_know_nothing_of_each_other():
    async def main():
        gate, entries = asyncio.Event(), asyncio.Semaphore(0)
        histories = {}

        class Each:
            async def decide(self, context):
                histories[context.session_id] = [message.text for message in context.history]
                context.artifacts["mine"] = context.session_id
                entries.release()
                await gate.wait()
                return AgentDecision.complete(f"{context.session_id} {context.environment.env_vars['NAME']}")

        async with AgentRuntime(Each(), World().executor(), config=SHORT) as runtime:
            sessions = [
                runtime.create_session(name, environment=SessionEnvironment(env_vars={"NAME": name})) for name in "abc"
            ]
            for session in sessions:
                await session.append_user_message(f"I am {session.session_id}")
                await session.submit_run("x")
            for _ in sessions:
                await entries.acquire()
            gate.set()
            answers = [(await result_of(session)).final_answer for session in sessions]
            assert answers == ["a a", "b b", "c c"]
            assert histories == {name: [f"I am {name}"] for name in "abc"}
            assert [session.artifacts["mine"] for session in sessions] == ["a", "b", "c"]

    asyncio.run(main())


def test_a_session_keeps_the_conversation_over_its_runs():
    async def scenario(made):
        session = made.runtime.create_session("s")
        await session.submit_run("first", artifacts={"images": ["data:x"]})
        await result_of(session)
        await session.submit_run("second")
        await result_of(session)
        assert [message.text for message in session.messages] == ["first", "one", "second", "two"]
        assert session.artifacts["images"] == ["data:x"]
        session.clear()
        assert session.messages == []

    def checks(context):
        assert [message.text for message in context.history] == ["first", "one"]
        assert context.artifacts["images"] == ["data:x"]
        return AgentDecision.complete("two")

    in_runtime(scenario, AgentDecision.complete("one"), checks)


def test_the_sessions_policy_is_a_boundary():
    async def scenario(made):
        session = made.runtime.create_session("s", policy=SessionPolicy(allow_write=False))
        await session.submit_run("x")
        result = await result_of(session)
        assert [item.status.value for item in result.observations] == ["DENIED", "SUCCESS"]
        assert result.observations[0].error_info.details["rule"] == "session.write"
        assert [call[0] for call in made.world.calls] == ["look"]

    in_runtime(scenario, act("1:write", "2:look"))


def test_a_question_is_answered_through_the_session():
    async def scenario(made):
        session = made.runtime.create_session("s")
        with pytest.raises(InputError) as nobody:
            await session.submit_user_input("x")
        assert nobody.value.code == "run_not_waiting"
        await session.submit_run("x")
        await made.heard.until("user_input_requested")
        assert session.state is SessionState.WAITING
        await session.submit_user_input("that one")
        result = await result_of(session)
        assert [message.text for message in result.messages] == ["x", "Which?", "that one", "done"]

    in_runtime(scenario, AgentDecision.ask("Which?"), config=RunConfig(heartbeat_s=0.0))


def test_cancelling_and_closing_reap_the_run():
    async def scenario(made):
        session = made.runtime.create_session("s")
        assert await session.cancel_run() is False
        await session.submit_run("x")
        await made.world.entered.wait()
        assert await session.cancel_run() is True
        seen = await read_until(session, E.RUN_COMPLETED)
        assert kinds(seen)[-2:] == ["run_interrupted", "run_completed"]
        assert seen[-1].payload["result"].outcome is RunOutcome.CANCELLED
        await session.submit_run("y")
        await made.heard.until("action_started", 2)
        await asyncio.gather(session.close(), session.close())
        rest = await read_until(session, E.SESSION_CLOSED)
        assert kinds(rest)[-3:] == ["run_interrupted", "run_completed", "session_closed"]
        assert made.world.running == 0

    in_runtime(scenario, act("1:wait"), act("2:wait"))


# Continuing


def test_a_partial_run_asks_to_be_continued_and_goes_on_in_a_new_run():
    seen_by = {}

    def looks(context):
        seen_by["second"] = context
        return AgentDecision.complete("all done")

    async def scenario(made):
        session = made.runtime.create_session("s")
        await session.submit_run("build it", run_id="r1", artifacts={"a": 1})
        seen = await read_until(session, E.CONTINUATION_REQUIRED)
        assert kinds(seen)[-2:] == ["run_completed", "continuation_required"]
        first, asked = seen[-2].payload["result"], seen[-1].payload
        assert (first.outcome, session.state) == (RunOutcome.PARTIAL, SessionState.WAITING)
        assert asked["checkpoint_id"] == first.checkpoint.checkpoint_id
        with pytest.raises(InputError) as unknown:
            await session.continue_run("ckpt_other")
        assert unknown.value.code == "checkpoint_unknown"
        run_id = await session.continue_run(asked["checkpoint_id"])
        result = await result_of(session)
        assert run_id != "r1"
        assert (result.run_id, result.ok) == (run_id, True)
        with pytest.raises(InputError):
            await session.continue_run(asked["checkpoint_id"])
        return first, seen_by["second"]

    first, context = in_runtime(scenario, act("1:look"), act("2:write"), looks, config=SHORT)
    assert context.task_state.objective == "build it"
    assert context.task_state.completed_action_ids == ("1", "2")
    assert set(context.evidence) == {"ev_1", "ev_2"} == set(first.checkpoint.evidence_ids)
    assert context.artifacts["a"] == 1
    assert [message.text for message in context.history] == ["build it"]
    assert [message.text for message in context.messages] == ["all done"]
    assert "2 actions succeeded" in context.opening[0]
    assert context.step == 1


def test_a_continued_run_never_does_an_old_action_again():
    async def scenario(made):
        session = made.runtime.create_session("s")
        await session.submit_run("x")
        await read_until(session, E.CONTINUATION_REQUIRED)
        await session.continue_run()
        result = await result_of(session)
        assert result.ok
        assert len(made.world.calls) == 2
        assert {item.evidence_id for item in result.evidence} == {"ev_1", "ev_2"}

    in_runtime(scenario, act("1:write"), act("2:write"), config=SHORT)


def test_evidence_of_the_same_action_id_is_kept_apart():
    async def scenario(made):
        session = made.runtime.create_session("s")
        await session.submit_run("x", run_id="r1")
        await read_until(session, E.CONTINUATION_REQUIRED)
        run_id = await session.continue_run()
        result = await result_of(session)
        assert {item.evidence_id for item in result.evidence} == {"ev_1", "ev_2", f"ev_{run_id}_1"}

    in_runtime(scenario, act("1:look"), act("2:look"), act("1:fail"), config=SHORT)


# The queue of events


def fill(queue, count):
    for number in range(count):
        queue.put(E.AGENT_EVENT, {"n": number})


def read_all(queue) -> list[SessionEvent]:
    async def main():
        return [await queue.get() for _ in range(len(queue))]

    return asyncio.run(main())


def test_a_full_queue_drops_the_oldest_agent_events_and_tells_how_many():
    queue = SessionEventQueue("s", 3)
    queue.put(E.RUN_ACCEPTED)
    fill(queue, 10)
    queue.put(E.RUN_COMPLETED, {"result": 1})
    events = read_all(queue)
    assert [event.event_type for event in events] == [E.RUN_ACCEPTED, *[E.AGENT_EVENT] * 3, E.RUN_COMPLETED]
    assert [event.payload.get("n") for event in events[1:4]] == [7, 8, 9]
    assert events[0].payload["dropped"] == 7
    assert "dropped" not in events[-1].payload


def test_what_ends_something_is_never_dropped():
    queue = SessionEventQueue("s", 1)
    terminal = [E.RUN_COMPLETED, E.CONTINUATION_REQUIRED, E.RUN_INTERRUPTED, E.COMMAND_REJECTED, E.SESSION_CLOSED]
    for event_type in terminal * 50:
        queue.put(event_type)
        fill(queue, 3)
    kept = [event.event_type for event in read_all(queue) if event.event_type is not E.AGENT_EVENT]
    assert kept == terminal * 50


def test_a_reader_that_never_reads_still_gets_its_result():
    async def scenario(made):
        session = made.runtime.create_session("s", event_queue_size=2)
        await session.submit_run("x")
        await made.heard.until("run_finished")
        result = await result_of(session)
        assert result.ok

    in_runtime(scenario, *[act(f"{n}:look") for n in range(6)])


def test_too_many_commands_are_refused():
    async def scenario(made):
        session = made.runtime.create_session("s")
        tasks = [asyncio.create_task(session.append_user_message(str(n))) for n in range(150)]
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, InputError)]
        assert {error.code for error in refused} == {"session_commands_full"}
        assert len(session.messages) + len(refused) == 150

    in_runtime(scenario)


# The container of a session


class Boxes:
    """Opens sessions whose sandboxes are in memory."""

    def __init__(self):
        self.boxes = []

    def __call__(self, environment, policy):
        def make(loaded, progress):
            self.boxes.append(FakeSandbox())
            return self.boxes[-1]

        return Session(workspace=environment.workspace_root, open_sandbox=make)


def with_commands(executor, command):
    async def call(arguments, context):
        sandbox = await context.open_sandbox()
        return (await sandbox.execute(Exec(command))).stdout.decode()

    executor._functions["look"] = call
    return executor


def test_each_session_has_one_container_of_its_own_opened_when_it_is_needed(tmp_path):
    (tmp_path / "a.txt").write_text("from the host")
    boxes = Boxes()
    executor = with_commands(World().executor(), ("cat", "a.txt"))

    async def scenario(made):
        session = made.runtime.create_session("s", environment=SessionEnvironment(workspace_root=tmp_path))
        await session.submit_run("think only")
        await result_of(session)
        assert boxes.boxes == []
        assert session.box is None
        await session.submit_run("look twice")
        result = await result_of(session)
        assert [item.value for item in result.observations] == ["from the host"] * 2
        assert len(boxes.boxes) == 1
        await session.submit_run("look again")
        await result_of(session)
        assert len(boxes.boxes) == 1
        other = made.runtime.create_session("t", environment=SessionEnvironment(workspace_root=tmp_path))
        await other.submit_run("look")
        await result_of(other)
        assert len(boxes.boxes) == 2
        await session.close()
        assert boxes.boxes[0]._lost
        assert not boxes.boxes[1]._lost

    script = (AgentDecision.complete("x"), act("1:look", "2:look"), AgentDecision.complete("x"), act("3:look"))
    script = (*script, AgentDecision.complete("x"), act("4:look"), AgentDecision.complete("x"))
    in_runtime(scenario, *script, executor=executor, open_session=boxes)


ASKS = b"""
version: 1
commands:
  - ask: [cat]
  - deny: [rm]
"""


@pytest.mark.parametrize(("answer", "status"), [(True, "SUCCESS"), (False, "DENIED")])
def test_a_persons_yes_to_an_action_answers_what_the_operators_policy_asks(answer, status):
    def open_session(environment, policy):
        return Session(parse_policy(ASKS, source="test"), open_sandbox=lambda loaded, progress: FakeSandbox())

    async def call(arguments, context):
        sandbox = await context.open_sandbox()
        return (await sandbox.execute(Exec(tuple(arguments["argv"]), stdin=b"seen"))).stdout.decode()

    executor = FunctionExecutor({"run": call, "quiet": call}, {"run": ActionRisk.DANGEROUS, "quiet": READ})
    config = RunConfig(heartbeat_s=0.0, allow_dangerous=True, interactive=False)

    def one(action_id, name, *argv):
        return AgentDecision.act(ActionRequest(action_id, name, {"argv": list(argv)}))

    async def main():
        script = (one("1", "run", "cat"), one("2", "quiet", "cat"), one("3", "run", "rm", "x"))
        made = Made(
            *script, executor=executor, open_session=open_session, config=config, approval_handler=lambda asked: answer
        )
        return await made.run()

    result = asyncio.run(main())
    assert [item.status.value for item in result.observations] == [status, "DENIED", "DENIED"]
    if answer:
        assert result.observations[0].value == "seen"


def test_a_yes_is_for_one_action_and_what_it_starts():
    async def inner():
        return approved_action_id()

    async def main():
        with consent("one"):
            assert await asyncio.create_task(inner()) == "one"
            with consent(""):
                assert await asyncio.create_task(inner()) == ""
            assert approved_action_id() == "one"
        return approved_action_id()

    assert asyncio.run(main()) == ""


def test_a_yes_ends_with_its_action_also_for_a_task_that_was_left_behind():
    async def main():
        over = asyncio.Event()

        async def left_behind():
            await over.wait()
            return approved_action_id()

        with consent("one"):
            task = asyncio.create_task(left_behind())
        over.set()
        return await task

    assert asyncio.run(main()) == ""


def test_a_lost_container_ends_the_run_and_the_next_run_gets_a_new_one():
    boxes = Boxes()
    executor = with_commands(World().executor(), ("true",))

    async def scenario(made):
        session = made.runtime.create_session("s")
        await session.submit_run("x")
        await result_of(session)
        boxes.boxes[0].lose("it died")
        await session.submit_run("y")
        broken = await result_of(session)
        assert broken.error_info.code is ErrorCode.SANDBOX_FAILED
        await session.submit_run("z")
        assert (await result_of(session)).ok
        assert len(boxes.boxes) == 2

    script = (act("1:look"), AgentDecision.complete(), act("2:look"), act("3:look"))
    in_runtime(scenario, *script, executor=executor, open_session=boxes)
    assert SandboxLostError.exit_code == 4


def test_a_run_without_a_session_ends_its_own_container():
    boxes = Boxes()
    executor = with_commands(World().executor(), ("true",))

    async def main():
        made = Made(act("1:look"), executor=executor, open_session=boxes)
        return await made.run()

    assert asyncio.run(main()).ok
    assert len(boxes.boxes) == 1
    assert boxes.boxes[0]._lost


# The conversation on disk


def test_only_what_was_said_is_kept_and_comes_back_as_history(tmp_path):
    store = LocalConversationStore(tmp_path / "conversations")

    async def once(*lines):
        async with AgentRuntime(ScriptedReasoner(lines), World().executor(), config=SHORT) as runtime:
            session = runtime.create_session("task-session", conversation_store=store)
            before = list(session.messages)
            await session.submit_run("hello")
            await result_of(session)
            return before, session.pending

    before, pending = asyncio.run(once(act("1:look"), act("2:smash")))
    assert (before, pending is not None) == ([], True)
    before, pending = asyncio.run(once())
    assert [message.text for message in before] == ["hello"]
    assert pending is None  # the conversation revives nothing
    stored = store.load("task-session")
    assert [(message.role.value, message.text) for message in stored] == [
        ("user", "hello"),
        ("user", "hello"),
        ("assistant", "done"),
    ]
    text = (tmp_path / "conversations" / "task-session.jsonl").read_text()
    assert "look" not in text
    assert "ckpt" not in text


def test_calls_and_their_results_are_filtered_and_a_torn_line_is_left_out(tmp_path):
    store = LocalConversationStore(tmp_path)
    call = ToolCall("c", "look", {"a": 1})
    store.append(
        "s",
        [
            ChatMessage.system("be good"),
            ChatMessage.user("hi"),
            ChatMessage.assistant("", (call,)),
            ChatMessage.assistant("I look", (call,)),
            ChatMessage.tool("c", "seen"),
            ChatMessage.assistant("hello"),
        ],
    )
    path = tmp_path / "s.jsonl"
    path.write_bytes(path.read_bytes() + b'{"role": "user", "te')
    assert [message.text for message in store.load("s")] == ["hi", "hello"]
    store.append("s", [ChatMessage.user("again")])
    assert [message.text for message in store.load("s")] == ["hi", "hello", "again"]
    assert [json.loads(line) for line in path.read_text().splitlines()[:1]] == [{"role": "user", "text": "hi"}]
    store.clear("s")
    assert store.load("s") == []
    assert LocalConversationStore(tmp_path / "none").load("s") == []
    with pytest.raises(InputError):
        store.load("../s")
