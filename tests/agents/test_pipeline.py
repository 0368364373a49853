"""Steps in the order of what they depend on; what a failure does to the others."""

import asyncio

import pytest

from mindx import AgentPipeline, AgentState, InputError, PipelineStep, PipelineStepStatus, RunOutcome
from tests.agents.society import Society, until, waits
from tests.agents.support import act

COMPLETED, FAILED = PipelineStepStatus.COMPLETED, PipelineStepStatus.FAILED
CANCELLED, SKIPPED = PipelineStepStatus.CANCELLED, PipelineStepStatus.SKIPPED


def in_time(story):
    return asyncio.run(asyncio.wait_for(story, 30))


def fails(context):
    raise InputError("no", "this agent cannot")


MINDS = {"echo": lambda context: f"<{context.task}>", "fails": fails, "loops": lambda context: act("look")}


def statuses(result):
    return {name: step.status for name, step in result.steps.items()}


def test_each_step_gets_the_answers_that_it_depends_on():
    async def story():
        society = Society(MINDS)
        async with society.orchestrator as orchestrator:
            pipeline = AgentPipeline(
                orchestrator,
                [
                    PipelineStep(
                        "end", "echo", lambda done: f"{done['a'].final_answer}{done['b'].final_answer}", ("a", "b")
                    ),
                    PipelineStep("a", "echo", "A"),
                    PipelineStep("b", "echo", "B", ("a",)),
                ],
            )
            result = await pipeline.run()
            return result, orchestrator.execution_graph()["edges"]

    result, edges = in_time(story())
    assert result.ok
    assert list(result.steps) == ["end", "a", "b"]
    assert result.answer("b") == "<B\n\n# Result of a\n<A>>"
    assert result.answer("end") == "<<A><B\n\n# Result of a\n<A>>>"
    short = {(edge["from"].partition(".")[2], edge["to"].partition(".")[2], edge["kind"]) for edge in edges}
    assert short == {("a", "b", "dependency"), ("a", "end", "dependency"), ("b", "end", "dependency")}


def test_independent_steps_run_side_by_side_and_a_wide_layer_waits_its_turn():
    async def story():
        gate, running = asyncio.Event(), []
        society = Society({"slow": waits(gate, running)}, max_concurrent_tasks=3)
        async with society.orchestrator as orchestrator:
            pipeline = AgentPipeline(orchestrator, [PipelineStep(f"s{n}", "slow", "x") for n in range(12)])
            task = asyncio.create_task(pipeline.run())
            await until(lambda: len(running) == 3)
            gate.set()
            return await task

    result = in_time(story())
    assert result.ok
    assert len(result.steps) == 12


@pytest.mark.parametrize("culprit", ["fails", "loops"])
def test_a_failure_stops_the_others(culprit):
    """Not only an exception: a run that ends without a final answer is a failure too."""

    async def story():
        running = []
        society = Society({**MINDS, "slow": waits(asyncio.Event(), running)})
        async with society.orchestrator as orchestrator:
            steps = [
                PipelineStep("bad", culprit, "x"),
                PipelineStep("other", "slow", "x"),
                PipelineStep("after", "echo", "x", ("bad",)),
                PipelineStep("later", "echo", "x", ("other",)),
            ]
            return await AgentPipeline(orchestrator, steps).run(), running

    result, running = in_time(story())
    assert statuses(result) == {"bad": FAILED, "other": CANCELLED, "after": SKIPPED, "later": SKIPPED}
    assert running == []
    assert not result.ok
    assert result.steps["bad"].reason
    assert result.steps["later"].reason == "bad did not complete"
    assert result.steps["bad"].result.state is AgentState.ERROR


def test_a_failure_skips_what_depends_on_it_and_the_rest_goes_on():
    async def story():
        society = Society(MINDS)
        async with society.orchestrator as orchestrator:
            steps = [
                PipelineStep("bad", "fails", "x"),
                PipelineStep("after", "echo", "x", ("bad",)),
                PipelineStep("far", "echo", "x", ("after", "good")),
                PipelineStep("good", "echo", "x"),
                PipelineStep("next", "echo", "x", ("good",)),
            ]
            return await AgentPipeline(orchestrator, steps, on_failure="skip").run()

    result = in_time(story())
    assert statuses(result) == {
        "bad": FAILED, "after": SKIPPED, "far": SKIPPED, "good": COMPLETED, "next": COMPLETED
    }  # fmt: skip


def test_cancelling_a_pipeline_cancels_and_awaits_its_steps():
    async def story():
        running = []
        society = Society({"slow": waits(asyncio.Event(), running)})
        async with society.orchestrator as orchestrator:
            pipeline = AgentPipeline(orchestrator, [PipelineStep("a", "slow", "x"), PipelineStep("b", "slow", "x")])
            task = asyncio.create_task(pipeline.run())
            await until(lambda: len(running) == 2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return running, [node["outcome"] for node in orchestrator.execution_graph()["nodes"]]

    assert in_time(story()) == ([], [RunOutcome.CANCELLED.value] * 2)


@pytest.mark.parametrize(
    ("steps", "code", "text"),
    [
        ([("a", "echo", ()), ("a", "echo", ())], "pipeline_invalid", "two steps"),
        ([("a", "echo", ("b",))], "pipeline_invalid", "which is no step"),
        ([("a", "echo", ("b",)), ("b", "echo", ("a",))], "pipeline_invalid", "in a circle"),
        ([("a", "ecko", ())], "agent_unknown", "echo"),
        ([("a b", "echo", ())], "id_invalid", "plain name"),
    ],
)
def test_a_pipeline_that_cannot_run_is_refused_when_it_is_made(steps, code, text):
    society = Society(MINDS)
    with pytest.raises(InputError, match=text) as caught:
        AgentPipeline(society.orchestrator, [PipelineStep(name, agent, "x", on) for name, agent, on in steps])
    assert caught.value.code == code
