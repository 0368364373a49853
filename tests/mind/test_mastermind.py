"""Mastermind with its real BDI agent, Coordinator and registry; containers are in memory, development answers at once.

The whole cycle with real containers and the real improvement agent is tests/e2e/test_campaign.py.
"""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from mindx.agents.bdi import BDIAgent
from mindx.agents.constitution import ConstitutionError
from mindx.agents.coordinator.interaction import InteractionType
from mindx.agents.improvement.models import ImprovementResult
from mindx.agents.mastermind.campaign import DEFAULT_DIRECTIVE, CampaignBudget, CampaignStatus
from mindx.agents.mastermind.campaign_store import HISTORY_FILE
from mindx.agents.mastermind.strategist import META_ACTIONS
from mindx.errors import DeniedError, InputError, StateError
from mindx.providers.failures import provider_error
from mindx.providers.scripted import ScriptedTurn
from tests.mind.campaign_support import SEED_PLAN, STRATEGY, Developer, Strategist, system
from tests.mind.improvement_support import SPEC, developed
from tests.mind.mission_support import phases, write

REGISTER = {"type": "REGISTER_TOOL", "params": {}}


def launch(folder, model=None, developer=None, *, directive="", cycles=None, **options):
    """Run one campaign in a system of its own; return it, the system and the developer."""
    model, developer = model or Strategist(), developer or Developer()

    async def main():
        async with system(folder, model, developer, **options) as made:
            campaign = await made.mastermind.launch_campaign(directive, max_bdi_cycles=cycles)
            return campaign, made

    campaign, made = asyncio.run(main())
    return campaign, made, developer


def test_the_plan_of_the_seeds_runs_and_the_campaign_registers_what_it_left_out(tmp_path):
    """Its parameters are "...", for they do not exist when it is made; and it has no REGISTER_TOOL."""
    told = []
    model = Strategist(plan=[SEED_PLAN])
    campaign, made, _ = launch(tmp_path, model, on_campaign=lambda one, text: told.append(text))
    assert campaign.status is CampaignStatus.COMPLETED
    assert campaign.directive == DEFAULT_DIRECTIVE
    assert model.asked == ["plan", "assess", "strategy", "concept"]
    (entry,) = made.registry.entries()
    assert (entry.id, entry.status.value, entry.runs_in) == ("word_count", "active", "container")
    assert "word_count was developed and not registered by the plan; registering it" in told
    assert [(task.registered, task.used) for task in campaign.sub_tasks] == [(True, True)]
    history = json.loads((tmp_path / HISTORY_FILE).read_text())
    assert [(one["campaign_id"], one["status"]) for one in history["campaigns"]] == [
        (campaign.campaign_id, "COMPLETED")
    ]
    assert history["campaigns"][0]["outcome"]["final_bdi_status"] == "GOAL_ACHIEVED"


def test_the_request_carries_the_whole_specification(tmp_path):
    campaign, _, developer = launch(tmp_path)
    (request,) = developer.requests
    assert request.tool_spec.model_dump(mode="json", exclude_unset=True) == SPEC
    assert request.interaction_id == campaign.sub_tasks[0].interaction_id


def test_references_and_a_plan_that_registers_by_itself(tmp_path):
    """SUCCESS of the Coordinator reaches the agent, which goes on with its plan."""
    plan = [
        SEED_PLAN[0],
        {"type": "ASSESS_TOOL_SUITE", "params": {"system_state": {"$ref": "steps.1.result.system_state"}}},
        {"type": "PROPOSE_TOOL_STRATEGY", "params": {"assessment": {"$ref": "steps.2.result.assessment"}}},
        {"type": "CONCEPTUALIZE_NEW_TOOL", "params": {"identified_need": {"$ref": "steps.3.result.identified_need"}}},
        {"type": "INITIATE_TOOL_DEVELOPMENT", "params": {"tool_concept": {"$ref": "steps.4.result.tool_concept"}}},
        {"type": "REGISTER_TOOL", "params": {"tool_id": {"$ref": "steps.5.result.tool_id"}}},
    ]
    told = []
    campaign, _, _ = launch(tmp_path, Strategist(plan=[plan]), on_campaign=lambda one, text: told.append(text))
    assert campaign.status is CampaignStatus.COMPLETED
    assert not any("registering it" in text for text in told)


def test_the_new_tool_is_usable_in_the_same_campaign(tmp_path):
    """Each plan of the agent begins with the tools as they are then: the second one uses what the first had made."""
    use = {"type": "EXECUTE_TOOL", "params": {"tool_id": "word_count", "text": "a b c"}}
    split = {"type": "DECOMPOSE_GOAL", "params": {"subgoals": ["use the new tool"]}}
    model = Strategist(plan=[[*SEED_PLAN, REGISTER, split], [use]])
    campaign, _, _ = launch(tmp_path, model)
    assert campaign.status is CampaignStatus.COMPLETED
    second = [one for one in model.provider.requests if one.messages[0].text.startswith("You plan")][1]
    assert "word_count" in second.messages[0].text


def test_a_directive_goes_down_through_all_layers(tmp_path):
    """Mastermind gives it to AGInt, which gives a phase to a BDI agent, whose SimpleCoder works in a container."""
    mission = {"type": "LAUNCH_MISSION", "params": {"directive": "write a note"}}
    model = Strategist(
        plan=[[*SEED_PLAN, mission], write("note.txt")], divide=[phases("one", one=[{"file": "note.txt"}])]
    )
    campaign, made, _ = launch(tmp_path, model)
    assert campaign.status is CampaignStatus.COMPLETED, campaign.outcome
    (told,) = campaign.facts["missions"]
    assert told["status"] == "completed"
    assert made.beliefs.path == tmp_path / "beliefs.sqlite3"
    nothing = Strategist(plan=[[mission]], divide=["No."])
    campaign, _, _ = launch(tmp_path / "b", nothing)
    assert campaign.status is CampaignStatus.FAILED_INCOMPLETE
    assert campaign.facts["missions"][0]["status"] == "failed"


def test_the_meta_actions_are_mastermind_own(tmp_path):
    """An agent of another layer does not know their names; each is there for the campaign's agent."""
    names = [made.name for made in META_ACTIONS]
    assert names == [
        "OBSERVE_SYSTEM_STATE",
        "ASSESS_TOOL_SUITE",
        "PROPOSE_TOOL_STRATEGY",
        "CONCEPTUALIZE_NEW_TOOL",
        "INITIATE_TOOL_DEVELOPMENT",
        "REGISTER_TOOL",
        "DEPRECATE_TOOL",
        "LAUNCH_MISSION",
    ]
    model = Strategist()

    async def main():
        async with system(tmp_path, model, Developer()) as made:
            agent = BDIAgent(model.provider, made.tools("other"), beliefs=made.beliefs)
            agent.set_goal("evolve")
            result = await agent.run()
            await agent.close()
            assert made.registry.entries() == ()
            return result

    result = asyncio.run(main())
    assert result.status.value == "FAILED_PLANNING"
    assert "OBSERVE_SYSTEM_STATE" in result.message


@pytest.mark.parametrize("layer", ["agint", "bdi", "tool"])
def test_only_mastermind_has_tools_developed_and_only_it_writes_the_registry(tmp_path, layer):
    async def main():
        async with system(tmp_path, Strategist(), developer := Developer()) as made:
            made.coordinator.register_agent(f"a_{layer}", layer)
            asked = await made.coordinator.ask(
                InteractionType.COMPONENT_IMPROVEMENT, "make it", metadata={"tool_spec": SPEC}, agent_id=f"a_{layer}"
            )
            assert asked.error.code == "constitution_forbids"
            assert developer.requests == []

    asyncio.run(main())


HOSTILE = [
    {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "run", "cmdline": "cat /etc/shadow"}},
    {"type": "REGISTER_TOOL", "params": {"tool_id": "evil", "tool_spec": {**SPEC, "id": "evil"}}},
    {"type": "WRITE_REGISTRY", "params": {"path": "/etc/passwd"}},
]


@pytest.mark.parametrize(
    ("plan", "seen"),
    [
        ("I would rather not.", "came to nothing|could be taken"),
        ([{"type": "EVOLVE", "params": {}}], "unknown type"),
        ([{"type": "REGISTER_TOOL", "params": {"tool_id": "x"}}], "before"),
        ([{"type": "INITIATE_TOOL_DEVELOPMENT", "params": {"tool_concept": "..."}}], "before"),
        ([{"type": "NO_OP", "params": {}}], "there is no system_state"),
        ([SEED_PLAN[0]] * 200, "actions"),
        (HOSTILE, "unknown type"),
        (HOSTILE[:2], "there is no system_state"),
    ],
)
def test_hostile_and_incompetent_planners_change_nothing(tmp_path, plan, seen):
    """Whatever a planner writes: the budget holds, nothing is registered, and the outcome says what is missing."""
    campaign, made, developer = launch(tmp_path, Strategist(plan=[plan]), cycles=10)
    assert campaign.status is CampaignStatus.FAILED_INCOMPLETE
    assert made.registry.entries() == ()
    assert developer.requests == []
    assert campaign.outcome.exit_code == 1
    assert re.search(seen, campaign.outcome.summary), campaign.outcome.summary


@pytest.mark.parametrize(("example", "count"), [(True, 1), (False, 0)])
def test_a_specification_of_the_planners_own_is_held_to_the_same_rules(tmp_path, example, count):
    """A planner that leaves out the conception: with an example its tool is made, without one it is not."""
    capability = {name: value for name, value in SPEC["capabilities"][0].items() if example or name != "examples"}
    concept = {**SPEC, "capabilities": [capability]}
    steps = [*SEED_PLAN[:2], {"type": "INITIATE_TOOL_DEVELOPMENT", "params": {"tool_concept": concept}}]
    campaign, made, developer = launch(tmp_path, Strategist(plan=[steps]), cycles=10)
    assert len(developer.requests) == count
    assert len(made.registry.entries()) == count, campaign.outcome.summary
    assert (campaign.status is CampaignStatus.COMPLETED) is example, campaign.outcome.summary


@pytest.mark.parametrize(
    "concept",
    [
        {**SPEC, "id": "../../etc"},
        {**SPEC, "module_path": "/usr/lib/python3/os.py"},
        {**SPEC, "capabilities": [{"name": "import"}]},
        {**SPEC, "capabilities": [{"name": "count"}]},
        {**SPEC, "capabilities": [{**SPEC["capabilities"][0], "input_schema": {"$ref": "file:///etc/passwd"}}]},
        "You need no tool.",
    ],
)
def test_a_specification_that_cannot_be_is_never_developed(tmp_path, concept):
    campaign, _, developer = launch(tmp_path, Strategist(concept=[concept]), cycles=10)
    assert campaign.status is CampaignStatus.FAILED_INCOMPLETE
    assert developer.requests == []
    assert "nothing was done about the need" in campaign.outcome.summary


def test_a_model_that_writes_too_much_is_cut_short_and_the_state_stays_small(tmp_path):
    long = {"assessment": "x" * 4000, "gaps": [{"need": "n" * 4000, "why": "w" * 4000}] * 20}

    async def main():
        async with system(tmp_path, Strategist(assess=[long]), Developer()) as made:
            for number in range(40):
                made.beliefs.add(f"b{number}", "x" * 60_000)
            return await made.mastermind.launch_campaign()

    campaign = asyncio.run(main())
    assert campaign.status is CampaignStatus.COMPLETED
    assert len(json.dumps(campaign.facts["system_state"])) < 100_000


def test_a_development_that_fails_is_told_and_tried_again_within_its_bound(tmp_path):
    again = [SEED_PLAN[4]]
    model = Strategist(plan=[SEED_PLAN, again])
    campaign, made, developer = launch(tmp_path, model, Developer("the tests failed"))
    assert campaign.status is CampaignStatus.COMPLETED
    assert [(one.attempt, one.status) for one in campaign.sub_tasks] == [(1, "failed"), (2, "completed")]
    again, nothing = SEED_PLAN[4], {"type": "NO_OP", "params": {}}
    model = Strategist(plan=[SEED_PLAN, [again], [nothing, again], [nothing, nothing, again]])
    always, bound = Developer(*["the tests failed"] * 9), CampaignBudget(max_developments=2)
    campaign, made, developer = launch(tmp_path / "b", model, always, campaign_budget=bound)
    assert campaign.status is CampaignStatus.FAILED_INCOMPLETE
    assert len(developer.requests) == 2
    assert "word_count came to nothing" in campaign.outcome.summary
    assert made.registry.entries() == ()


def test_what_was_not_tested_is_never_registered(tmp_path):
    """Not even when the improvement agent says SUCCESS: the evidence is looked at, and the digest must fit."""

    async def untested(request):
        return developed(request, "def count(arguments): ...\n", passed=None)

    async def altered(request):
        answer = developed(request, "def count(arguments): ...\n").model_dump(mode="json")
        answer["data"]["cycle_results"][0]["new_content"] += "import os\n"
        return ImprovementResult.model_validate(answer)

    async def other(request):
        return developed(
            request.model_copy(update={"tool_spec": request.tool_spec.model_copy(update={"id": "b"})}), "x"
        )

    for number, developer in enumerate((untested, altered, other)):
        campaign, made, _ = launch(tmp_path / str(number), Strategist(), developer)
        assert campaign.status is CampaignStatus.FAILED_INCOMPLETE
        assert made.registry.entries() == ()


def test_a_tool_that_does_not_do_what_its_example_says_stays_experimental(tmp_path):
    wrong = json.loads(json.dumps(SPEC))
    wrong["capabilities"][0]["examples"] = [{"arguments": {"text": "one two"}, "result": {"words": 3}}]
    campaign, made, _ = launch(tmp_path, Strategist(concept=[wrong]))
    assert campaign.status is CampaignStatus.FAILED_INCOMPLETE
    assert "was not seen to work" in campaign.outcome.summary
    assert made.registry.entry("word_count").status.value == "experimental"


def test_a_tool_is_deprecated_with_a_reason_and_agents_have_it_no_more(tmp_path):
    launch(tmp_path)
    gone = {"type": "DEPRECATE_TOOL", "params": {"tool_id": "word_count", "reason": "nobody uses it"}}
    nothing = {**STRATEGY, "identified_need": ""}
    campaign, made, _ = launch(tmp_path, Strategist(plan=[[*SEED_PLAN[:3], gone]], strategy=[nothing]))
    assert campaign.status is CampaignStatus.COMPLETED
    entry = made.registry.entry("word_count")
    assert (entry.status.value, entry.deprecation_reason) == ("deprecated", "nobody uses it")
    assert "word_count" not in made.tools("mastermind")


def test_a_second_campaign_sees_the_first_and_builds_upon_it(tmp_path):
    """State of this layer persists: registry and history, seen by the next OBSERVE_SYSTEM_STATE."""
    first, _, _ = launch(tmp_path)
    newer = {**SPEC, "version": "0.2.0"}
    second, made, _ = launch(tmp_path, Strategist(concept=[SPEC, newer]))
    assert second.status is CampaignStatus.COMPLETED
    state = second.facts["system_state"]
    assert [tool["id"] for tool in state["tools"]] == ["word_count"]
    assert first.directive[:300] in [one["directive"] for one in state["campaigns"]]
    assert made.registry.entry("word_count").version == "0.2.0"  # the same version again was refused
    assert len(made.mastermind.store.history().campaigns) == 2


def test_long_term_objectives_outlive_campaigns_and_are_seen_by_each(tmp_path):
    async def first():
        async with system(tmp_path, Strategist(), Developer()) as made:
            objectives = made.mastermind.objectives
            kept, gone = objectives.add("Count everything."), objectives.add("Sing.")
            assert objectives.add(" Count everything. ") == kept
            objectives.reach(gone.objective_id)
            for wrong in (lambda: objectives.add(""), lambda: objectives.reach("none")):
                with pytest.raises(InputError):
                    wrong()

    asyncio.run(first())
    campaign, made, _ = launch(tmp_path)
    assert campaign.facts["system_state"]["objectives"] == ["Count everything."]
    assert [one.reached for one in made.mastermind.objectives.all()] == [False, True]


def test_a_model_that_fails_ends_the_campaign_with_its_exit_code(tmp_path):
    down = provider_error("provider_auth", "no")
    for kind in ("plan", "assess"):
        campaign, made, _ = launch(tmp_path / kind, Strategist(**{kind: [down]}))
        assert campaign.status is CampaignStatus.FAILED_INCOMPLETE
        assert campaign.outcome.exit_code == (6 if kind == "plan" else 1)
        assert made.registry.entries() == ()
        done = asyncio.run(again(tmp_path / kind, campaign.campaign_id))  # once there is a model again
        assert done.status is CampaignStatus.COMPLETED


async def again(folder, campaign_id):
    async with system(folder, Strategist(), Developer()) as made:
        return await made.mastermind.take_up(campaign_id)


def test_budgets_hold(tmp_path):
    campaign, _, _ = launch(tmp_path / "cycles", cycles=3)
    assert (campaign.status, campaign.outcome.exit_code) == (CampaignStatus.PARTIAL, 5)
    assert campaign.cycles <= 3
    with pytest.raises(InputError) as caught:
        launch(tmp_path / "more", cycles=26)
    assert caught.value.code == "campaign_budget"
    one = CampaignBudget(max_per_day=1)
    launch(tmp_path / "day", campaign_budget=one)
    with pytest.raises(InputError) as caught:
        launch(tmp_path / "day", campaign_budget=one)
    assert caught.value.code == "campaign_budget"
    never = ScriptedTurn(text="x", gate=asyncio.Event())
    quick = CampaignBudget(max_seconds=0.2)
    campaign, _, _ = launch(tmp_path / "seconds", Strategist(plan=[never]), campaign_budget=quick)
    assert (campaign.status, campaign.outcome.exit_code) == (CampaignStatus.PARTIAL, 5)


def test_a_campaign_that_ran_into_its_budget_goes_on_with_a_fresh_one(tmp_path):
    async def main():
        async with system(tmp_path, model := Strategist(), Developer()) as made:
            short = await made.mastermind.launch_campaign(max_bdi_cycles=3, campaign_id="c")
            assert short.status is CampaignStatus.PARTIAL
            done = await made.mastermind.take_up("c")
            assert done.status is CampaignStatus.COMPLETED
            assert model.asked.count("plan") == 1  # the plan went on
            assert done.cycles <= 6

    asyncio.run(main())


def test_a_listener_that_raises_hurts_nobody(tmp_path):
    def bad(campaign, text):
        raise ZeroDivisionError

    campaign, _, _ = launch(tmp_path, on_campaign=bad)
    assert campaign.status is CampaignStatus.COMPLETED


def test_two_systems_on_one_folder_are_an_error_and_the_first_goes_on(tmp_path):
    async def main():
        async with system(tmp_path, Strategist(), Developer()) as first:
            with pytest.raises(InputError) as caught:
                async with system(tmp_path, Strategist(), Developer()):
                    pytest.fail("two Masterminds on one state folder")
            assert caught.value.code == "system_in_use"
            return await first.mastermind.launch_campaign()

    assert asyncio.run(main()).status is CampaignStatus.COMPLETED
    launch(tmp_path, Strategist(concept=[{**SPEC, "version": "0.2.0"}]))  # the folder is free again


@pytest.mark.parametrize(
    "name", ["official_tools_registry.json", HISTORY_FILE, "mastermind_objectives.json", "beliefs.sqlite3"]
)
def test_a_damaged_state_is_told_before_anything_is_done_and_left_as_it_is(tmp_path, name):
    (tmp_path / name).write_text("{ no such thing" * 100)
    model = Strategist()
    with pytest.raises(StateError) as caught:
        launch(tmp_path, model)
    assert caught.value.exit_code == 4
    assert model.asked == []
    assert (tmp_path / name).read_text() == "{ no such thing" * 100


def test_the_stop_switch_ends_the_campaign_and_holds_until_it_is_released(tmp_path):
    async def main():
        developer = Developer()
        developer.gate.clear()
        async with system(tmp_path, Strategist(), developer) as made:
            mastermind = made.mastermind
            work = asyncio.create_task(mastermind.launch_campaign(campaign_id="c"))
            await developer.asked.wait()
            mastermind.switch.set()
            stopped = await work
            assert (stopped.status, stopped.outcome.exit_code) == (CampaignStatus.STOPPED, 130)
            for again in (mastermind.launch_campaign(), mastermind.take_up("c")):
                with pytest.raises(DeniedError) as caught:
                    await again
                assert caught.value.code == "campaigns_stopped"
            mastermind.switch.release()
            developer.gate.set()
            done = await mastermind.take_up("c")
            assert done.status is CampaignStatus.COMPLETED
            with pytest.raises(InputError) as caught:
                await mastermind.take_up("c")
            assert caught.value.code == "campaign_ended"

    asyncio.run(main())


def test_a_campaign_whose_caller_is_cancelled_is_stopped_and_on_record(tmp_path):
    async def main():
        developer = Developer()
        developer.gate.clear()
        async with system(tmp_path, Strategist(), developer) as made:
            work = asyncio.create_task(made.mastermind.launch_campaign(campaign_id="c"))
            await developer.asked.wait()
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            assert made.mastermind.store.load("c").status is CampaignStatus.STOPPED

    asyncio.run(main())


def test_the_autonomous_worker_sleeps_first_and_does_nothing_twice(tmp_path):
    """It is off until it is started, bounded by the budget of a day, and ended by the switch."""

    async def main():
        model = Strategist()
        async with system(tmp_path, model, Developer()) as made:
            mastermind = made.mastermind
            rounds, slept = asyncio.Semaphore(0), []

            async def sleep(seconds):
                slept.append((seconds, len(mastermind.store.list())))
                await rounds.acquire()

            mastermind._sleep = sleep
            assert model.asked == []
            mastermind.start_worker(60.0)
            with pytest.raises(InputError):
                mastermind.start_worker(60.0)
            rounds.release()
            while len(slept) < 2:  # noqa: ASYNC110 - the worker is awaited, which tells nobody
                await asyncio.sleep(0.01)
            (first,) = mastermind.store.list()
            assert (first.status, first.autonomous) == (CampaignStatus.COMPLETED, True)
            assert slept == [(60.0, 0), (60.0, 1)]
            rounds.release()
            while len(slept) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert len(mastermind.store.list()) == 1  # completed not long ago
            mastermind.switch.set()
            await mastermind.wait_worker()  # in the middle of its sleep

    asyncio.run(main())


def test_the_constitution_of_the_folder_is_asked(tmp_path):
    (tmp_path / "constitution.yaml").write_text("version: 1\ntrust: {mastermind: [model.call]}\n")
    with pytest.raises(ConstitutionError):
        launch(tmp_path)
