import asyncio
import subprocess
import sys
import time

import pytest

from mindx import (
    AgentDecision,
    AgentRuntime,
    AgentState,
    ErrorCode,
    ErrorPhase,
    InputError,
    RunConfig,
    RunOutcome,
    ScriptedReasoner,
)
from mindx.runtime.reaping import Reaper
from tests.agents.support import Heard, Made, World, act, run

LONG = RunConfig(heartbeat_s=0.0, step_timeout_s=200, interactive=False)


async def thinks_for_ever(context):
    await asyncio.Event().wait()
    return AgentDecision.complete()


def test_cancel_interrupts_a_thought_at_once_whatever_the_steps_time():
    async def main():
        made = Made(thinks_for_ever, config=LONG)
        task = asyncio.create_task(made.run())
        await made.heard.until("state_changed", 2)
        began = time.monotonic()
        assert made.runtime.cancel("run-1") is True
        assert made.runtime.cancel("run-1") is False
        result = await task
        return result, made, time.monotonic() - began

    result, made, took = asyncio.run(main())
    assert (result.outcome, result.state) == (RunOutcome.CANCELLED, AgentState.CANCELLED)
    assert (result.error_info.code, result.error_info.phase) == (ErrorCode.CANCELLED, ErrorPhase.REASONING)
    assert took < 2
    assert made.heard.types[-1] == "run_finished"
    assert made.runtime.get_run_status("run-1").outcome is RunOutcome.CANCELLED
    assert made.runtime.cancel("run-1") is False


def test_cancel_interrupts_a_tool_a_question_and_an_approval():
    async def never(request):
        await asyncio.Event().wait()

    async def main():
        for script, event in (
            (act("wait"), "action_started"),
            (AgentDecision.ask("?"), "user_input_requested"),
            (act("smash"), "approval_requested"),
        ):
            config = RunConfig(heartbeat_s=0.0, allow_dangerous=True)
            made = Made(script, config=config, approval_handler=never)
            task = asyncio.create_task(made.run())
            await made.heard.until(event)
            if event == "approval_requested":
                assert made.runtime.get_run_status("run-1").pending_approval_id == "smash_0"
            made.runtime.cancel("run-1")
            result = await task
            assert result.outcome is RunOutcome.CANCELLED
            assert made.world.running == 0

    asyncio.run(main())


def test_a_caller_that_gives_up_cancels_its_run():
    async def main():
        made = Made(act("wait"))
        task = asyncio.create_task(made.runtime.run("x", run_id="run-1"))
        await made.heard.until("action_started")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert made.world.running == 0
        assert made.runtime.get_run_status("run-1").state is AgentState.CANCELLED

    asyncio.run(main())


def test_a_run_that_is_cancelled_before_it_begins_has_a_result():
    async def main():
        made = Made(act("look"))
        task = asyncio.create_task(made.runtime.run("x", run_id="run-1"))
        await asyncio.sleep(0)
        assert made.runtime.cancel("run-1")
        return await task, made

    result, made = asyncio.run(main())
    assert (result.outcome, result.steps, made.world.calls) == (RunOutcome.CANCELLED, 0, [])


def test_the_status_of_a_run():
    async def main():
        made = Made(act("wait"))
        assert made.runtime.get_run_status("run-1") is None
        task = asyncio.create_task(made.runtime.run("x", run_id="run-1"))
        await made.world.entered.wait()
        status = made.runtime.get_run_status("run-1")
        assert (status.state, status.step, status.outcome) == (AgentState.ACTION_EXECUTING, 1, None)
        assert (status.pending_user_question, status.pending_approval_id) == (None, "")
        assert made.runtime.active_run_ids == ("run-1",)
        made.world.gate.set()
        await task
        assert made.runtime.get_run_status("run-1").outcome is RunOutcome.FINAL
        assert made.runtime.active_run_ids == ()

    asyncio.run(main())


@pytest.mark.parametrize("run_id", ["../x", "", "a/b", ".hidden", "x" * 200, "a\n", "a..b"])
def test_run_ids_are_plain_names(run_id):
    async def main():
        made = Made()
        await made.runtime.run("x", run_id=run_id or "/")

    with pytest.raises(InputError) as refused:
        asyncio.run(main())
    assert refused.value.code == "id_invalid"


def test_two_runs_of_one_id_at_once_are_refused():
    async def main():
        made = Made(act("wait"))
        task = asyncio.create_task(made.runtime.run("x", run_id="run-1"))
        await made.heard.until("action_started")
        with pytest.raises(InputError) as refused:
            await made.runtime.run("y", run_id="run-1")
        assert refused.value.code == "run_exists"
        made.world.gate.set()
        assert (await task).ok

    asyncio.run(main())


class Closeable(ScriptedReasoner):
    closed = 0

    async def close(self):
        self.closed += 1


def test_closing_cancels_runs_and_sessions_and_is_idempotent():
    async def main():
        made = Made(act("wait"))
        task = asyncio.create_task(made.runtime.run("x", run_id="run-1"))
        await made.heard.until("action_started")
        session = made.runtime.create_session("s")
        first, second = await asyncio.gather(made.runtime.close(), made.runtime.close())
        assert first.ok
        assert second.ok
        assert (await task).outcome is RunOutcome.CANCELLED
        assert session.state.value == "closed"
        assert (await made.runtime.close()).ok
        with pytest.raises(InputError) as refused:
            await made.runtime.run("y")
        assert refused.value.code == "runtime_closed"
        with pytest.raises(InputError):
            made.runtime.create_session()
        return made

    assert asyncio.run(main()).world.running == 0


def test_new_work_is_refused_as_soon_as_closing_begins():
    async def main():
        made = Made(act("wait"))
        task = asyncio.create_task(made.runtime.run("x"))
        await made.heard.until("action_started")
        closing = asyncio.create_task(made.runtime.close())
        await asyncio.sleep(0)
        with pytest.raises(InputError):
            await made.runtime.run("y")
        await closing
        await task

    asyncio.run(main())


def test_dependencies_are_closed_only_when_that_is_asked_for():
    async def main():
        reasoner = Closeable()
        async with AgentRuntime(reasoner, World().executor()) as runtime:
            await runtime.run("x")
        assert reasoner.closed == 0
        report = await runtime.close(close_dependencies=True)
        assert (report.ok, reasoner.closed) == (True, 1)

    asyncio.run(main())


def test_what_cannot_be_closed_is_reported():
    class Failing(ScriptedReasoner):
        async def close(self):
            raise OSError("the socket is stuck")

    async def main():
        runtime = AgentRuntime(Failing(), World().executor())
        return await runtime.close(close_dependencies=True)

    report = asyncio.run(main())
    assert not report.ok
    assert "stuck" in report.failures[0].reason


def test_many_runs_go_on_at_once():
    async def main():
        world = World()

        async def both(context):
            world.entries.release()
            await world.gate.wait()
            return AgentDecision.complete(context.run_id)

        class Each:
            async def decide(self, context):
                return await both(context)

        async with AgentRuntime(Each(), world.executor(), config=RunConfig(heartbeat_s=0.0)) as runtime:
            tasks = [asyncio.create_task(runtime.run("x", run_id=f"r{n}")) for n in range(10)]
            for _ in range(10):
                await world.entries.acquire()
            world.gate.set()
            return [(await task).final_answer for task in tasks]

    assert asyncio.run(main()) == [f"r{n}" for n in range(10)]


# Events


def test_the_heartbeat_tells_that_a_run_is_alive():
    async def main():
        made = Made(act("wait"), config=RunConfig(heartbeat_s=0.01, interactive=False))
        task = asyncio.create_task(made.run())
        beat = await made.heard.until("heartbeat", 3)
        made.world.gate.set()
        await task
        return beat, made

    beat, made = asyncio.run(main())
    assert beat.payload["state"] == "action_executing"
    assert made.heard.types[-1] == "run_finished"


def test_events_are_numbered_and_each_has_its_cause():
    _, made = run(act("1:look", "2:look"))
    events = made.heard.events
    assert [event.seq for event in events] == list(range(len(events)))
    ids = {event.event_id: event for event in events}
    assert events[0].cause_id == ""
    assert all(event.cause_id in ids and ids[event.cause_id].seq < event.seq for event in events[1:])
    for action_id in ("1", "2"):
        own = [event for event in events if event.payload.get("action_id") == action_id]
        kinds = [event.event_type.value for event in own]
        assert kinds == ["action_validated", "action_started", "action_finished", "observation_created"]
        assert [ids[event.cause_id].payload.get("action_id") for event in own[1:]] == [action_id] * 3
    assert {event.step for event in events} == {0, 1, 2}
    assert {event.run_id for event in events} == {"run-1"}


def test_the_listed_events_are_all_there():
    async def main():
        async def working(arguments, context):
            from mindx import AgentEventType

            await context.emit(AgentEventType.ACTION_PROGRESS, {"action_id": "1", "message": "half", "progress": 0.5})
            return 1

        world = World()
        executor = world.executor()
        executor._functions["look"] = working
        config = RunConfig(heartbeat_s=0.01)
        made = Made(act("1:look"), AgentDecision.ask("?"), act("wait"), thinks_badly, executor=executor, config=config)
        made.world = world
        task = asyncio.create_task(made.run())
        await made.heard.until("user_input_requested")
        made.runtime.respond_to_user("run-1", "go on")
        await made.heard.until("heartbeat")
        world.gate.set()
        await task
        return made

    def thinks_badly(context):
        raise ZeroDivisionError

    made = asyncio.run(main())
    listed = {
        "state_changed",
        "decision_created",
        "action_validated",
        "action_started",
        "action_progress",
        "action_finished",
        "observation_created",
        "user_input_requested",
        "user_input_received",
        "error_created",
        "heartbeat",
    }
    assert listed <= set(made.heard.types)
    _, other = run()
    assert "final_created" in other.heard.types
    progress = made.heard.of("action_progress")[0]
    assert progress.cause_id == made.heard.of("action_started")[0].event_id


@pytest.mark.parametrize("slow", [False, True])
def test_a_listener_that_fails_or_hangs_changes_nothing(slow):
    async def hangs(event):
        await asyncio.Event().wait()

    def raises(event):
        raise ZeroDivisionError

    async def main():
        config = RunConfig(heartbeat_s=0.0, event_handler_timeout_s=0.01)
        heard = Heard()
        world = World()
        async with AgentRuntime(
            ScriptedReasoner([act("look")]), world.executor(), event_handler=hangs if slow else raises, config=config
        ) as runtime:
            return await runtime.run("x", event_handler=heard), heard

    result, heard = asyncio.run(main())
    assert result.ok
    assert heard.types[-1] == "run_finished"


def test_an_async_listener_is_awaited_in_order():
    heard = []

    async def slow(event):
        await asyncio.sleep(0)
        heard.append(event.seq)

    async def main():
        config = RunConfig(heartbeat_s=0.0)
        async with AgentRuntime(
            ScriptedReasoner([act("look")]), World().executor(), event_handler=slow, config=config
        ) as runtime:
            await runtime.run("x")

    asyncio.run(main())
    assert heard == list(range(len(heard)))
    assert len(heard) > 10


# The floor below


def test_core_knows_no_model_and_no_tool():
    program = (
        "import pkgutil, importlib, sys, mindx.core\n"
        "for found in pkgutil.iter_modules(mindx.core.__path__): importlib.import_module('mindx.core.' + found.name)\n"
        "print(' '.join(name for name in sys.modules if name.startswith('mindx.') or name in ('openai', 'docker')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    floors = {name.split(".")[1] if "." in name else name for name in done.stdout.split()}
    assert floors == {"core", "errors"}


def test_the_reaper_waits_for_all_and_counts_who_stays():
    async def main():
        reaper = Reaper(grace_s=1)
        tasks = [asyncio.create_task(asyncio.Event().wait()) for _ in range(3)]
        await asyncio.sleep(0)
        await reaper.reap(tasks)
        assert all(task.cancelled() for task in tasks)
        assert reaper.failures == []

    asyncio.run(main())
