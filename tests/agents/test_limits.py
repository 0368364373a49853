import asyncio
import math
import time

import pytest

from mindx import (
    AgentDecision,
    AgentState,
    ApprovalResult,
    BoundaryReason,
    BoundaryScope,
    ErrorCode,
    InputError,
    RunConfig,
    RunOutcome,
)
from tests.agents.support import Made, World, act, run


def limited(**limits):
    return RunConfig(heartbeat_s=0.0, **{"interactive": False, **limits})


async def thinks_for_ever(context):
    await asyncio.Event().wait()
    return AgentDecision.complete()


def test_the_defaults_are_the_documented_ones():
    config = RunConfig()
    assert (config.max_steps, config.step_timeout_s, config.total_timeout_s) == (8, 60, 300)
    assert (config.action_timeout_s, config.batch_timeout_s, config.heartbeat_s) == (60, 120, 2)
    assert (config.parallel, config.max_parallel_actions) == (True, 4)
    assert (config.allow_write, config.allow_dangerous, config.event_handler_timeout_s) == (True, False, 5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"action_timeout_s": 10, "batch_timeout_s": 5},
        {"batch_timeout_s": 10, "total_timeout_s": 5},
        {"step_timeout_s": 10, "total_timeout_s": 5},
        {"step_timeout_s": 0},
        {"total_timeout_s": -1},
        {"action_timeout_s": math.nan},
        {"max_steps": 0},
        {"max_parallel_actions": 0},
        {"heartbeat_s": -1},
        {"event_handler_timeout_s": 0},
    ],
)
def test_limits_that_do_not_fit_are_refused_when_they_are_made(wrong):
    with pytest.raises(InputError) as refused:
        RunConfig(**wrong)
    assert refused.value.code == "run_config_invalid"


def test_limits_that_are_not_given_fit_those_that_are():
    short = RunConfig(total_timeout_s=1)
    assert (short.step_timeout_s, short.batch_timeout_s, short.action_timeout_s) == (1, 1, 1)
    long = RunConfig(action_timeout_s=600)
    assert (long.batch_timeout_s, long.total_timeout_s) == (600, 600)


def test_an_endless_loop_ends_as_partial_in_state_error():
    result, made = run(*[act(f"{n}:look") for n in range(50)], config=limited(max_steps=3))
    assert (result.outcome, result.state, result.steps) == (RunOutcome.PARTIAL, AgentState.ERROR, 3)
    assert result.error_info.code is ErrorCode.MAX_STEPS_EXCEEDED
    assert result.error_info.recoverable
    assert (result.checkpoint.boundary.reason, result.checkpoint.boundary.limit) == (BoundaryReason.MAX_STEPS, 3)
    assert result.checkpoint.completed_action_ids == ("0", "1", "2")
    assert made.heard.types[-3:] == ["checkpoint_created", "error_created", "run_finished"]


def test_a_step_that_thinks_too_long_is_partial():
    result, _ = run(act("look"), thinks_for_ever, config=limited(step_timeout_s=0.05))
    assert (result.outcome, result.state) == (RunOutcome.PARTIAL, AgentState.TIMEOUT)
    assert (result.error_info.code, result.checkpoint.boundary.scope) == (ErrorCode.STEP_TIMEOUT, BoundaryScope.STEP)
    assert result.checkpoint.boundary.reason is BoundaryReason.STEP_TIMEOUT
    assert len(result.checkpoint.completed_action_ids) == 1


def test_a_run_that_takes_too_long_is_partial_and_its_cut_action_is_unknown():
    result, made = run(act("1:write", "2:wait_writing", "3:write"), config=limited(total_timeout_s=0.1))
    assert (result.outcome, result.state) == (RunOutcome.PARTIAL, AgentState.TIMEOUT)
    assert result.error_info.code is ErrorCode.RUN_TIMEOUT
    assert result.checkpoint.boundary.reason is BoundaryReason.RUN_TIMEOUT
    assert result.checkpoint.completed_action_ids == ("1",)
    assert result.checkpoint.unknown_action_ids == ("2",)
    assert [item.action_id for item in result.observations] == ["1", "2", "3"]
    assert made.heard.types.count("observation_created") == 3
    assert made.world.running == 0


def test_what_only_reads_has_no_unknown_effect():
    result, _ = run(act("1:write", "2:wait"), config=limited(total_timeout_s=0.1))
    assert result.outcome is RunOutcome.PARTIAL
    assert result.checkpoint.unknown_action_ids == ()


def test_the_batch_may_take_longer_than_a_step_thinks():
    """step_timeout is for what a step does around its batch: with both, the batch's own limit is the one that fires."""
    config = limited(step_timeout_s=0.05, action_timeout_s=0.2, batch_timeout_s=0.5)
    result, _ = run(act("1:wait"), config=config)
    assert result.outcome is RunOutcome.FINAL
    assert result.observations[0].error_info.code is ErrorCode.ACTION_TIMEOUT


def test_the_clocks_stop_while_a_person_decides():
    async def decides_slowly(request):
        await asyncio.sleep(0.3)
        return ApprovalResult(True)

    config = limited(total_timeout_s=0.25, allow_dangerous=True)
    result, _ = run(act("smash"), config=config, approval_handler=decides_slowly)
    assert result.outcome is RunOutcome.FINAL
    assert result.duration_s < 0.25


def test_the_clocks_stop_while_the_user_is_asked():
    async def main():
        made = Made(AgentDecision.ask("Which?"), config=limited(total_timeout_s=0.25, interactive=True))
        task = asyncio.create_task(made.run())
        await made.heard.until("user_input_requested")
        await asyncio.sleep(0.3)
        made.runtime.respond_to_user("run-1", "that one")
        return await task

    assert asyncio.run(main()).outcome is RunOutcome.FINAL


def test_the_same_run_gives_the_same_checkpoint_whatever_the_time():
    def once(now):
        script = [act("1:look", "2:write"), act("3:look")]
        return run(*script, config=limited(max_steps=2), now=lambda: now)[0].checkpoint

    one, other = once("2026-01-01T00:00:00Z"), once("2027-01-01T00:00:00Z")
    assert one.checkpoint_id == other.checkpoint_id
    assert one.created_at != other.created_at
    different = run(act("1:look"), act("3:look"), config=limited(max_steps=2))[0].checkpoint
    assert different.checkpoint_id != one.checkpoint_id


def test_a_tool_that_blocks_the_loop_ends_by_its_result_and_the_run_by_its_time():
    world = World()
    executor = world.executor()
    executor._functions["look"] = lambda arguments, context: time.sleep(0.15)
    result, _ = run(act("look"), executor=executor, config=limited(total_timeout_s=0.1))
    assert result.outcome is RunOutcome.PARTIAL
    assert len(result.observations) == 1
