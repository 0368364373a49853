import asyncio
import json

import pytest

from mindx.core.agent_context import AgentContext
from mindx.core.checkpoint import TaskState
from mindx.core.observation import Observation, Status
from mindx.core.plan import parse_plan
from mindx.errors import DeniedError, FileError, SandboxLostError
from mindx.runtime.dispatcher import ActionDispatcher
from mindx.runtime.fixed_plan import FixedPlan, PlanRequest, action_of
from mindx.runtime.loop import LoopParts, ReActLoop
from mindx.runtime.policy_engine import AllowAll
from mindx.runtime.run import UNBOUNDED


def plan_of(count):
    plan = parse_plan(json.dumps([{"type": "THINK", "params": {"thought": str(n)}} for n in range(count)])).plan
    assert plan is not None
    return plan


class Answers:
    """A handler that answers what it was told, action by action; an exception is raised."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def execute(self, request, context):
        action = action_of(request)
        answer = self.answers[action.index]
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, Observation) or answer is None else Observation(action.action_id, answer)


def walk(*answers, keep_going=False, bugs=None, seen=None):
    plan = plan_of(len(answers))
    dispatcher = ActionDispatcher(Answers(*answers), lambda action, error: bugs.append(error))
    parts = LoopParts(FixedPlan(plan, keep_going=keep_going), dispatcher, AllowAll())
    loop = ReActLoop(parts, AgentContext("run", "", TaskState(""), config=UNBOUNDED), log=Told(seen))
    return plan, loop


class Told:
    """Hands on what a loop tells of its Actions."""

    def __init__(self, seen):
        self.seen = seen or (lambda action, observation: None)

    async def requested(self, batch):
        pass

    async def started(self, request, risk):
        self.seen(action_of(request), None)

    async def said(self, message):
        pass

    async def finished(self, request, observation):
        self.seen(action_of(request), observation)


def statuses(loop):
    return [step.observation.status.value for step in loop.steps]


def test_a_plan_is_walked_in_order():
    told = []
    plan, loop = walk(
        Status.SUCCESS,
        Status.SUCCESS,
        seen=lambda action, observation: told.append((action.index, observation is None)),
    )
    assert asyncio.run(loop.run()) == "the plan is done"
    assert [action_of(step.request) for step in loop.steps] == list(plan.actions)
    assert told == [(0, True), (0, False), (1, True), (1, False)]


@pytest.mark.parametrize("status", [Status.FAILURE, Status.ERROR, Status.DENIED])
def test_a_step_that_does_not_succeed_stops_the_plan(status):
    _, loop = walk(Status.SUCCESS, status, Status.SUCCESS)
    assert status.value in asyncio.run(loop.run())
    assert statuses(loop) == ["SUCCESS", status.value]


def test_keep_going_goes_on():
    _, loop = walk(Status.FAILURE, Status.DENIED, Status.SUCCESS, keep_going=True)
    asyncio.run(loop.run())
    assert statuses(loop) == ["FAILURE", "DENIED", "SUCCESS"]


def test_each_action_gives_one_observation_whatever_its_tool_does():
    bugs = []
    file_error = FileError("not_found", "no such file", errno=2, path="/workspace/x")
    answers = (
        DeniedError("denied", "the policy says no"),
        file_error,
        ZeroDivisionError("secret"),
        None,
        Status.SUCCESS,
    )
    plan, loop = walk(*answers, keep_going=True, bugs=bugs)
    asyncio.run(loop.run())
    assert statuses(loop) == ["DENIED", "ERROR", "ERROR", "ERROR", "SUCCESS"]
    assert [step.observation.action_id for step in loop.steps] == [action.action_id for action in plan.actions]
    assert [type(bug) for bug in bugs] == [ZeroDivisionError, TypeError]
    assert "secret" not in loop.steps[2].observation.message
    assert loop.steps[0].observation.message == "the policy says no"


def test_an_observation_is_of_its_action_and_has_a_duration():
    times = iter([1.0, 3.5])
    plan = plan_of(1)
    dispatcher = ActionDispatcher(Answers(Observation("forged", Status.SUCCESS)), clock=lambda: next(times))
    context = AgentContext("run", "", TaskState(""))
    observation = asyncio.run(dispatcher.execute(PlanRequest.of(plan.actions[0]), context))
    assert (observation.action_id, observation.duration_s) == (plan.actions[0].action_id, 2.5)


def test_a_broken_sandbox_ends_the_loop_and_its_step_is_known():
    _, loop = walk(Status.SUCCESS, SandboxLostError("lost", "the container is gone"), Status.SUCCESS)
    with pytest.raises(SandboxLostError):
        asyncio.run(loop.run())
    assert statuses(loop) == ["SUCCESS", "ERROR"]
    assert loop.steps[1].observation.message == "the container is gone"


def test_cancelling_gives_a_cancelled_step():
    _, loop = walk(Status.SUCCESS, asyncio.CancelledError(), Status.SUCCESS)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(loop.run())
    assert statuses(loop) == ["SUCCESS", "CANCELLED"]
