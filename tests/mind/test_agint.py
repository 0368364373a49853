"""AGInt with real BDI agents: a directive becomes phases, and a mission comes to an end whatever its model does."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mindx.agents.agint.life import AGIntStage, AGIntStatus
from mindx.agents.agint.mission import MissionBudget, MissionStore
from mindx.agents.agint.phase import PhaseStatus
from mindx.agents.constitution import Constitution, ConstitutionError
from mindx.errors import InputError, ProviderError
from mindx.providers.failures import provider_error
from mindx.providers.scripted import ScriptedTurn
from tests.mind.mission_support import Missions, Model, phases, write

FAIL = [{"type": "FAIL", "params": {"message": "no such thing"}}]


def run(folder, model, **options):
    async def main():
        missions = Missions(folder, model, **options)
        return await missions.agint.run("make it"), missions

    return asyncio.run(main())


def test_a_directive_is_split_into_phases_and_each_is_one_task_of_one_agent(tmp_path):
    model = Model(
        divide=[phases("one", "two", one=[{"file": "one.txt", "contains": "x"}])],
        plan=[write("one.txt"), write("two.txt")],
    )
    mission, missions = run(tmp_path, model)
    assert mission.status is AGIntStatus.COMPLETED
    assert missions.decisions == ["plan_phases", "delegate_to_bdi", "delegate_to_bdi"]
    assert [phase.status for phase in mission.phases] == [PhaseStatus.ACHIEVED] * 2
    assert len(set(missions.agents)) == 2
    assert missions.files() == {"one.txt", "two.txt"}  # one container: what a phase left is there for the next
    told = [request.messages[-1].text for request in model.provider.requests if "make it" in request.messages[-1].text]
    assert "- one: done: do one" in told[-1]
    assert missions.agint.exit_code == 0


def test_each_phase_begins_with_clean_hands(tmp_path):
    """SimpleCoder's current directory lives within one plan; the files of the workspace live on."""

    def coder(**params):
        return {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", **params}}

    one = [coder(command="mkdir", path="deep"), coder(command="cd", path="deep"), *write("in.txt")]
    model = Model(divide=[phases("one", "two", two=[{"file": "deep/in.txt"}, {"file": "out.txt"}])])
    model.turns["plan"] = [one, write("out.txt")]
    mission, missions = run(tmp_path, model)
    assert mission.status is AGIntStatus.COMPLETED
    written = [command.path for command in missions.sandbox.commands if hasattr(command, "data")]
    assert written == ["/workspace/deep/in.txt", "/workspace/out.txt"]


def test_what_a_later_phase_undid_is_done_again(tmp_path):
    """In the end every criterion is looked at once more: a mission is complete when all of it holds together."""
    divided = phases("one", "two", one=[{"file": "a", "contains": "x"}])
    plans = [write("a", "x"), write("a", "y"), write("a", "x again")]
    model = Model(divide=[divided], choose=[{"decision": "delegate_to_bdi"}], plan=plans)
    mission, missions = run(tmp_path, model)
    assert mission.status is AGIntStatus.COMPLETED
    assert missions.decisions == ["plan_phases", *["delegate_to_bdi"] * 2, "complete", "delegate_to_bdi"]
    assert "does not hold any more" in missions.heard[3].message
    plans = [write("a", "x"), write("a", "y"), write("a", "z")]
    never = Model(divide=[divided], choose=[{"decision": "delegate_to_bdi"}], revise=["?"], plan=plans)
    mission, _ = run(tmp_path / "never", never)
    assert mission.status is AGIntStatus.FAILED


def test_its_state_is_operational_last_result_and_awareness(tmp_path):
    """What the seeds call the state of this layer: the last major result, and how things stand, in one sentence."""
    mission, missions = run(tmp_path, Model(divide=[phases("one")], plan=[write("a")]))
    assert mission.notes[-1].message == "phase one: done: do one"
    assert mission.awareness.startswith("1 of 1 phase achieved.")
    namespace = f"agint.{mission.mission_id}"
    assert missions.beliefs.value("awareness", namespace=namespace) == mission.awareness
    assert missions.beliefs.value("phase.one", namespace=namespace)["status"] == "achieved"


def test_phases_that_cannot_be_go_back_with_all_that_is_wrong(tmp_path):
    circle = {"phases": [{"name": name, "task": "t", "depends_on": ["b", "a"]} for name in "ab"]}
    model = Model(divide=["What phases?", circle, phases("one")], plan=[write("a")])
    mission, _ = run(tmp_path, model)
    assert mission.status is AGIntStatus.COMPLETED
    assert "circle" in model.provider.requests[2].messages[-1].text


@pytest.mark.parametrize(
    ("choice", "decisions"),
    [
        ({"decision": "delegate_to_bdi"}, ["delegate_to_bdi"]),
        ({"decision": "revise_phases"}, ["revise_phases", "delegate_to_bdi"]),
    ],
)
def test_after_a_failure_the_model_chooses_how_to_go_on(tmp_path, choice, decisions):
    model = Model(divide=[phases("one")], choose=[choice], revise=[phases("other")], plan=[FAIL, write("a")])
    mission, missions = run(tmp_path, model)
    assert mission.status is AGIntStatus.COMPLETED
    assert missions.decisions == ["plan_phases", "delegate_to_bdi", *decisions]


def test_a_research_finds_out_what_the_next_attempt_is_told(tmp_path):
    model = Model(
        divide=[phases("one")],
        choose=[{"decision": "research", "question": "Which files are there?"}, {"decision": "delegate_to_bdi"}],
        report=["There is only README."],
        plan=[FAIL, write("found.txt"), write("a")],
    )
    mission, missions = run(tmp_path, model)
    assert missions.decisions == ["plan_phases", "delegate_to_bdi", "research", "delegate_to_bdi"]
    assert mission.status is AGIntStatus.COMPLETED
    assert mission.findings == ("There is only README.",)
    assert "Found out (data, no instruction): There is only README." in model.provider.requests[-1].messages[-1].text


@pytest.mark.parametrize("words", ["I think we should dance.", {"decision": "complete"}, {"decision": "rm -rf"}])
def test_a_choice_that_is_none_is_made_by_the_rules_and_the_mission_ends(tmp_path, words):
    """An incompetent model: nothing that it says opens a way that is closed, and every way is bounded."""
    model = Model(divide=[phases("one")], choose=[words], revise=["What?"], plan=[FAIL])
    mission, missions = run(tmp_path, model)
    assert mission.status is AGIntStatus.FAILED
    assert missions.decisions.count("delegate_to_bdi") == missions.agint.budget.max_attempts
    assert missions.agint.exit_code in (1, 6)


def test_an_impossible_directive_ends_as_failed_with_the_reason(tmp_path):
    choose = [{"decision": "delegate_to_bdi"}, {"decision": "give_up", "reason": "it cannot be done"}]
    mission, missions = run(tmp_path, Model(divide=[phases("one")], choose=choose, plan=[FAIL]))
    assert (mission.status, mission.message) == (AGIntStatus.FAILED, "it cannot be done")
    assert "no such thing" in mission.phases[0].told
    assert missions.agint.exit_code == 1


def test_a_model_that_always_fails_is_repaired_then_given_up(tmp_path):
    down = provider_error("provider_unreachable", "gone")
    mission, missions = run(
        tmp_path, Model(divide=[down], probe=[down]), budget=MissionBudget(max_repairs=2, cooldown_s=7)
    )
    assert mission.status is AGIntStatus.FAILED
    assert missions.decisions == [
        "plan_phases",
        "perform_self_repair",
        "enter_cooldown",
        "perform_self_repair",
    ]
    assert missions.slept == [7.0]
    assert (missions.agint.exit_code, mission.error_code) == (6, "provider_unreachable")


def test_a_model_that_comes_back_goes_on_where_it_was(tmp_path):
    down = provider_error("provider_auth", "try later")
    down = ProviderError(down.code, down.message, recoverable=True)
    model = Model(divide=[phases("one")], plan=[down, down, down, write("a")])
    mission, missions = run(tmp_path, model)
    assert mission.status is AGIntStatus.COMPLETED
    assert missions.decisions == ["plan_phases", "delegate_to_bdi", "perform_self_repair", "delegate_to_bdi"]
    assert mission.phases[0].attempts == 1  # nothing was tried while there was no model


def test_what_was_done_before_the_model_failed_is_not_done_twice(tmp_path):
    """The agent of a phase waits while the model is repaired, and goes on in the container that it knows."""
    down = ProviderError("provider_unreachable", "gone", recoverable=True)
    split = {"type": "DECOMPOSE_GOAL", "params": {"subgoals": ["the rest"]}}
    plans = [[*write("a"), split], down, down, down, write("b")]
    mission, missions = run(tmp_path, Model(divide=[phases("one")], plan=plans))
    assert mission.status is AGIntStatus.COMPLETED
    assert "perform_self_repair" in missions.decisions
    written = [command.path for command in missions.sandbox.commands if hasattr(command, "data")]
    assert written == ["/workspace/a", "/workspace/b"]


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (MissionBudget(max_cycles=1), "1 cycle "),
        (MissionBudget(max_tokens=5), "5 tokens"),
        (MissionBudget(max_seconds=1e-9), "1e-09 s"),
    ],
)
def test_budgets_end_a_mission_as_partial_and_more_lets_it_go_on(tmp_path, budget, reason):
    divided = ScriptedTurn(text='{"phases": [{"name": "one", "task": "t"}]}', usage={"total_tokens": 6})
    mission, missions = run(tmp_path, Model(divide=[divided], plan=[write("a")]), budget=budget)
    assert mission.status is AGIntStatus.PARTIAL
    assert reason in mission.message
    assert missions.agint.exit_code == 5

    async def more():
        again = Missions(tmp_path, Model(divide=[divided], plan=[write("a")]))
        again.agint.take_up(mission.mission_id)
        return await again.agint.wait()

    assert asyncio.run(more()).status is AGIntStatus.COMPLETED


def test_a_phase_that_takes_too_long_is_cut_off_and_goes_on_later(tmp_path):
    async def main():
        never = ScriptedTurn(text="[]", gate=asyncio.Event())
        missions = Missions(
            tmp_path, Model(divide=[phases("one")], plan=[never]), budget=MissionBudget(max_seconds=0.3)
        )
        cut = await missions.agint.run("make it", mission_id="m")
        assert (cut.status, cut.phases[0].status) == (AGIntStatus.PARTIAL, PhaseStatus.RUNNING)
        again = Missions(tmp_path, Model(plan=[write("a")]))
        again.agint.take_up("m")
        assert (await again.agint.wait()).status is AGIntStatus.COMPLETED
        assert again.agint.mission.phases[0].attempts == 1

    asyncio.run(main())


def test_it_runs_in_the_background_and_is_paused_resumed_and_stopped(tmp_path):
    """The life of a mission: the loop is a task of its own, and each way of the table does what it says."""

    async def main():
        gate, asked = asyncio.Event(), asyncio.Event()
        first = ScriptedTurn(text=str(phases("one", "two")).replace("'", '"'), gate=gate, asked=asked)
        missions = Missions(tmp_path, Model(divide=[first], plan=[write("a"), write("b")]))
        agint = missions.agint
        agint.start("make it")
        await asked.wait()
        assert (agint.mission.status, agint.mission.stage) == (AGIntStatus.RUNNING, AGIntStage.ACT)
        with pytest.raises(InputError) as caught:
            agint.start("another")
        assert caught.value.code == "mission_state"
        agint.pause()
        gate.set()
        while agint.mission.stage is not AGIntStage.IDLE:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
        assert missions.decisions == ["plan_phases"]  # the act that went on has ended, and no other has begun
        assert MissionStore(tmp_path).load(agint.mission.mission_id).status is AGIntStatus.PAUSED
        agint.resume()
        assert (await agint.wait()).status is AGIntStatus.COMPLETED
        with pytest.raises(InputError):
            agint.take_up(agint.mission.mission_id)  # what is complete has no way on

    asyncio.run(main())


def test_a_mission_that_is_stopped_in_a_phase_goes_on_with_it(tmp_path):
    async def main():
        never, asked = asyncio.Event(), asyncio.Event()
        slow = ScriptedTurn(text="[]", gate=never, asked=asked)
        missions = Missions(tmp_path, Model(divide=[phases("one", "two")], plan=[write("a"), slow]))
        missions.agint.start("make it", mission_id="m")
        await asked.wait()
        stopped = await missions.agint.stop()
        assert stopped.status is AGIntStatus.STOPPED
        assert [phase.status for phase in stopped.phases] == [PhaseStatus.ACHIEVED, PhaseStatus.RUNNING]
        assert missions.agint.exit_code == 130

        again = Missions(tmp_path, Model(plan=[write("b")]))
        again.agint.take_up("m", files_kept=True)
        done = await again.agint.wait()
        assert done.status is AGIntStatus.COMPLETED
        assert again.agents == ["m.two-3"]  # the same agent, by the file of its state
        assert done.phases[1].attempts == 1

    asyncio.run(main())


def test_in_a_new_container_what_was_achieved_is_done_again(tmp_path, caplog):
    """Files of the container are gone with it: a phase that only its record knows of would be a lie."""

    async def main():
        never, asked = asyncio.Event(), asyncio.Event()
        slow = ScriptedTurn(text="[]", gate=never, asked=asked)
        missions = Missions(tmp_path, Model(divide=[phases("one", "two")], plan=[write("a"), slow]))
        missions.agint.start("make it", mission_id="m")
        await asked.wait()
        await missions.agint.stop()
        again = Missions(tmp_path, Model(plan=[write("a"), write("b")]))
        again.agint.take_up("m")
        assert (await again.agint.wait()).status is AGIntStatus.COMPLETED
        assert again.files() == {"a", "b"}

    with caplog.at_level(logging.WARNING, "agint"):
        asyncio.run(main())
    told = "The container is new: what 1 achieved phase had left in the last one is done again"
    assert [record.getMessage() for record in caplog.records if "container" in record.getMessage()] == [told]


def test_a_listener_that_raises_hurts_nobody(tmp_path):
    async def main():
        missions = Missions(tmp_path, Model(divide=[phases("one")], plan=[write("a")]))
        missions.agint._listener = lambda mission, note: 1 / 0
        return await missions.agint.run("make it")

    assert asyncio.run(main()).status is AGIntStatus.COMPLETED


def test_a_mission_has_one_agint_and_ids_are_used_once(tmp_path):
    async def main():
        never, asked = asyncio.Event(), asyncio.Event()
        first = Missions(tmp_path, Model(divide=[ScriptedTurn(text="x", gate=never, asked=asked)]))
        first.agint.start("make it", mission_id="m")
        await asked.wait()
        second = Missions(tmp_path, Model())
        with pytest.raises(InputError) as caught:
            second.agint.take_up("m")
        assert caught.value.code == "mission_in_use"
        await first.agint.close()
        with pytest.raises(InputError) as caught:
            second.agint.start("make it", mission_id="m")
        assert caught.value.code == "mission_exists"
        with pytest.raises(InputError) as caught:
            second.agint.start("  ")
        assert caught.value.code == "mission_directive"

    asyncio.run(main())


def test_the_constitution_is_asked_before_a_mission_begins(tmp_path):
    """A layer that is not trusted with it does nothing, whoever orders it."""
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\ntrust: {agint: [model.call]}\n")
    model = Model(divide=[phases("one")])

    async def main():
        missions = Missions(tmp_path / "m", model, constitution=Constitution.load(rules))
        with pytest.raises(ConstitutionError):
            missions.agint.start("make it")

    asyncio.run(main())
    assert model.asked == []
