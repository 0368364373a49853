"""What the policy asks about, with somebody who answers: in sandboxes in memory."""

import asyncio
import dataclasses
import json

import pytest

from mindx.core.command import Exec, ReadFile
from mindx.core.run import Outcome
from mindx.errors import DeniedError
from mindx.policy.approval import NOBODY, Approval
from mindx.policy.load import parse_policy
from mindx.runtime.consent import consent
from mindx.runtime.session import Session
from mindx.sandbox.fake import FakeSandbox
from mindx.trace.read import read
from mindx.trace.recorder import Recorder

POLICY = """
version: 1
commands:
  - allow: [echo, "true", sleep]
  - ask: [cat]
    reason: cats are asked about
  - deny: [rm]
"""
ASKS = parse_policy(POLICY.encode(), source="asks.yaml")


class Person:
    """Answers in turn; an answer that is callable is called, one that raises raises."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def ask(self, request):
        self.asked.append(request)
        answer = self.answers.pop(0)
        return await answer(request) if callable(answer) else answer


def run(*argv, **params):
    return {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "run", "argv": argv, **params}}


def in_session(scenario, person, text=POLICY, **options):
    box = FakeSandbox(background=2)

    async def main():
        policy = parse_policy(text.encode(), source="asks.yaml")
        async with Session(policy, approver=person, open_sandbox=lambda loaded, tell: box, **options) as session:
            return await scenario(session)

    return asyncio.run(main()), box


def argvs(box):
    return [command.argv for command in box.commands if isinstance(command, Exec)]


def events(runs, result, *kinds):
    return [event for event in read(runs.store.find(result.run_id).trace_path) if event.kind in kinds]


def test_a_yes_lets_it_cross_the_wall_and_a_no_does_not():
    async def scenario(session):
        done = await session.run(["cat"], stdin="seen")
        with pytest.raises(DeniedError, match="not this one") as caught:
            await session.run(["cat", "b"])
        with pytest.raises(DeniedError):
            await session.run(["rm", "x"])
        return done, caught.value

    person = Person(Approval("once"), Approval("deny", "not this one"))
    (done, error), box = in_session(scenario, person)
    assert done.stdout == b"seen"
    assert error.details == {"rule": "commands[1]", "decision": "deny"}
    assert argvs(box) == [("cat",)]
    assert [request.argv for request in person.asked] == [("cat",), ("cat", "b")]


def test_for_the_session_means_the_same_words_only():
    async def scenario(session):
        await session.run(["cat", "a"])
        await session.run(["cat", "a"])
        await session.run(["cat", "b"])
        await session.run(["cat", "a"], cwd="sub")

    person = Person(Approval("session"), Approval("once"), Approval("once"))
    in_session(scenario, person)
    assert [(request.argv, request.cwd) for request in person.asked] == [
        (("cat", "a"), "/workspace"),
        (("cat", "b"), "/workspace"),
        (("cat", "a"), "/workspace/sub"),
    ]


def test_the_second_of_two_at_once_is_answered_by_the_first():
    async def scenario(session):
        await asyncio.gather(*(session.run(["cat", "a"]) for _ in range(3)))

    async def at_leisure(request):
        await asyncio.sleep(0)
        return Approval("session")

    person = Person(*[at_leisure] * 3)
    _, box = in_session(scenario, person)
    assert len(person.asked) == 1
    assert argvs(box) == [("cat", "a")] * 3


def test_what_a_person_changed_is_what_runs_once_it_was_judged(tmp_path):
    echo, remove, read_it = Exec(("echo", "instead")), Exec(("rm", "x")), ReadFile("/workspace/a")

    async def scenario(session):
        done = await session.run(["cat"])
        for _ in range(2):
            with pytest.raises(DeniedError):
                await session.run(["cat"])
        return done

    with Recorder(tmp_path / "trace.jsonl") as recorder:
        person = Person(*(Approval("once", command=command) for command in (echo, remove, read_it)))
        done, box = in_session(scenario, person, recorder=recorder)
    assert done.argv == ("echo", "instead")
    assert [getattr(command, "argv", None) for command in box.commands] == [("echo", "instead")]
    ran = [event.data for event in read(tmp_path / "trace.jsonl") if event.kind == "exec"]
    assert (ran[0]["argv"], ran[0]["asked_argv"]) == (["echo", "instead"], ["cat"])


@pytest.mark.parametrize(
    "answer", [None, Approval("yes"), "once", True], ids=["it raises", "no such choice", "a word", "a truth"]
)
def test_whoever_does_not_answer_has_not_said_yes(answer):
    async def broken(request):
        raise RuntimeError("the line is dead")

    async def scenario(session):
        with pytest.raises(DeniedError):
            await session.run(["cat"])

    _, box = in_session(scenario, Person(broken if answer is None else answer))
    assert argvs(box) == []


def test_a_command_that_changes_while_a_person_decides_is_denied():
    variables = {"A": "b"}

    async def change(request):
        variables["A"] = "c"
        return Approval("session")

    async def scenario(session):
        with pytest.raises(DeniedError, match="changed"):
            await session.run(["cat"], env=variables)

    _, box = in_session(scenario, Person(change))
    assert argvs(box) == []


def test_background_commands_are_asked_about_too():
    async def scenario(session):
        with pytest.raises(DeniedError):
            await session.sandbox.start_background(Exec(("cat",), timeout_s=None))
        await session.sandbox.start_background(Exec(("cat",), timeout_s=None))

    _, box = in_session(scenario, Person(Approval("deny"), Approval("once")))
    assert [command.timeout_s for command in box.commands] == [None]


def test_without_an_approver_it_is_a_denial():
    async def scenario(session):
        with pytest.raises(DeniedError):
            await session.run(["cat"])

    assert argvs(in_session(scenario, None)[1]) == []


def test_a_yes_to_the_action_needs_no_second_one():
    async def scenario(session):
        with consent("action_1"):
            await session.run(["cat"])

    person = Person()
    assert argvs(in_session(scenario, person)[1]) == [("cat",)]
    assert person.asked == []


def test_a_yes_is_an_event_and_stands_in_the_steps_message(runs):
    result = runs.run([run("cat"), run("echo", "x")], policy=ASKS, approver=Person(Approval("once")))
    assert result.outcome is Outcome.COMPLETED
    assert [step.message for step in result.steps] == ["a person said yes", ""]
    told = events(runs, result, "approval_requested", "approval_received", "approval_decided", "exec")
    assert [event.kind for event in told[:4]] == [
        "approval_requested",
        "approval_received",
        "approval_decided",
        "exec",
    ]
    assert told[0].data["argv"] == ["cat"]
    assert (told[0].data["risk"], told[0].data["reason"]) == ("read-only", "cats are asked about")
    assert (told[1].data["choice"], told[2].data["decision"]) == ("once", "allow")


def test_feedback_reaches_the_result(runs):
    person = Person(Approval("deny", "use echo instead"))
    result = runs.run([run("echo", "x"), run("cat"), run("echo", "y")], policy=ASKS, approver=person)
    assert [step.status.value for step in result.steps] == ["SUCCESS", "DENIED", "SKIPPED"]
    assert "use echo instead" in result.steps[1].message
    assert json.loads(result.to_json())["steps"][1]["message"] == result.steps[1].message
    assert events(runs, result, "approval_received")[0].data["feedback"] == "use echo instead"


def test_nobody_to_ask_ends_the_run_before_a_container_exists(runs):
    result = runs.run([run("cat")], policy=ASKS)
    assert result.outcome is Outcome.DENIED
    assert runs.opened == []
    assert NOBODY in result.steps[0].message


def test_a_denied_step_is_denied_whoever_could_answer(runs):
    person = Person()
    assert runs.run([run("cat"), run("rm", "x")], policy=ASKS, approver=person).outcome is Outcome.DENIED
    assert (runs.opened, person.asked) == ([], [])


def test_the_clocks_stop_while_a_person_decides(runs):
    """The person takes three times what the session has; the loop's clock is what is waited for."""
    limits = ASKS.policy.limits.changed(session_timeout_s=0.2)
    policy = dataclasses.replace(ASKS, policy=ASKS.policy.changed(limits=limits))

    async def slow(request):
        await asyncio.sleep(0.6)
        return Approval("once")

    result = runs.run([run("cat"), run("echo", "x")], policy=policy, approver=Person(slow))
    assert result.outcome is Outcome.COMPLETED
    assert result.steps[0].duration_s < 0.3
    assert result.duration_s > 0.6


def test_the_clock_goes_on_after_the_answer(runs):
    limits = ASKS.policy.limits.changed(session_timeout_s=0.2)
    policy = dataclasses.replace(ASKS, policy=ASKS.policy.changed(limits=limits))
    result = runs.run([run("cat"), run("sleep", "30")], policy=policy, approver=Person(Approval("once")))
    assert result.outcome is Outcome.PARTIAL


def test_a_run_that_is_cancelled_at_the_question_is_cancelled(runs):
    async def scenario():
        asked = asyncio.Event()

        async def never(request):
            asked.set()
            await asyncio.Event().wait()

        made = runs.make([run("cat")], policy=ASKS, approver=Person(never))
        task = asyncio.create_task(made.run())
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return made.result

    assert asyncio.run(scenario()).outcome is Outcome.CANCELLED
    assert [command for command in runs.opened[0].commands if isinstance(command, Exec)] == []
