"""A model divides a goal among agents; what it gets wrong it is told."""

import asyncio
import json

import pytest

from mindx import OrchestrationMode, OrchestrationPlanner, PipelineStepStatus, ProviderError, ScriptedProvider
from tests.agents.society import Society

MINDS = {"echo": lambda context: f"<{context.task}>", "shout": lambda context: context.task.upper()}


def step(name, agent="echo", task="x", *depends_on):
    return {"name": name, "agent": agent, "task": task, "depends_on": list(depends_on)}


def planned(*steps):
    return json.dumps({"reason": "because", "steps": steps})


def run(*turns, minds=MINDS):
    """Plan and run; return the plan, the result and what the model was asked."""
    model = ScriptedProvider(turns)

    async def story():
        society = Society(minds)
        async with society.orchestrator as orchestrator:
            planner = OrchestrationPlanner(orchestrator, model)
            plan = await planner.plan("the goal")
            return plan, await planner.run(plan), model.requests

    return asyncio.run(asyncio.wait_for(story(), 30))


@pytest.mark.parametrize(
    ("steps", "mode"),
    [
        ([step("a")], OrchestrationMode.SINGLE),
        ([step("a"), step("b", "shout")], OrchestrationMode.MULTI),
        ([step("a"), step("b", "shout", "y", "a")], OrchestrationMode.PIPELINE),
    ],
)
def test_the_shape_of_the_work_is_chosen_and_run(steps, mode):
    plan, result, requests = run(planned(*steps))
    assert (plan.mode, plan.reason, result.ok) == (mode, "because", True)
    assert result.answer("a") == "<x>"
    assert len(requests) == 1
    assert "- shout: no description" in requests[0].messages[0].text


def test_one_agent_needs_no_plan():
    plan, result, requests = run(minds={"echo": MINDS["echo"]})
    assert (plan.mode, result.answer("only"), requests) == (OrchestrationMode.SINGLE, "<the goal>", [])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("I would rather talk", "no valid JSON"),
        (planned(), "1 to 16 steps"),
        (planned(*(step(f"s{n}") for n in range(17))), "1 to 16 steps"),
        (planned(step("a", "nobody")), "unknown agent"),
        (planned(step("a", "echo", "x", "a")), "in a circle"),
        (planned(step("a"), step("a")), "two steps"),
        (planned({"name": "a"}), "a step has"),
    ],
)
def test_a_plan_that_cannot_be_run_is_told_and_made_anew(wrong, told):
    plan, result, requests = run(wrong, planned(step("a")))
    assert (plan.mode, result.ok) == (OrchestrationMode.SINGLE, True)
    assert told in requests[1].messages[-1].text


def test_a_model_that_never_plans_is_the_providers_error():
    with pytest.raises(ProviderError, match="no usable answer in 3 attempts"):
        run("no", "no", "no")


def test_independent_steps_go_on_when_one_fails():
    def fails(context):
        raise ZeroDivisionError

    _, result, _ = run(planned(step("a", "fails"), step("b")), minds={**MINDS, "fails": fails})
    assert [item.status for item in result.steps.values()] == [PipelineStepStatus.FAILED, PipelineStepStatus.COMPLETED]
