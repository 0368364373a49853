"""What AGInt's rules say, without a model: phases, what may be decided, when it is stuck, what survives."""

from __future__ import annotations

import itertools

import pytest

from mindx.agents.agint.deciding import open_decisions
from mindx.agents.agint.life import WAYS, AGIntDecision, AGIntStatus, moved
from mindx.agents.agint.mission import CycleNote, Mission, MissionBudget, MissionStore, Spent
from mindx.agents.agint.phase import Phase, PhaseStatus, read_phases
from mindx.agents.agint.watch import StuckDetector, done, next_phase
from mindx.errors import InputError
from mindx.providers.failures import provider_error

D, S = AGIntDecision, PhaseStatus


def draft(name, *depends_on, **more):
    return {"name": name, "task": f"do {name}", "depends_on": list(depends_on), **more}


def phases(*given):
    return {"phases": list(given)}


def mission(*made, **more):
    return Mission(mission_id="m", directive="d", phases=made, **more)


def phase(name, status=S.PENDING, *, attempts=0, depends_on=()):
    return Phase(name=name, task="t", status=status, attempts=attempts, depends_on=depends_on)


def test_phases_come_in_an_order_in_which_they_can_be_done():
    found = read_phases(phases(draft("c", "b"), draft("b", "a"), draft("a")))
    assert [one.name for one in found] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "valid dictionary"),
        ([], "valid dictionary"),
        (phases(), "at least 1"),
        (phases(*(draft(f"p{n}") for n in range(17))), "at most 16"),
        (phases({"name": "a"}), "task"),
        (phases(draft("../../etc")), "name"),
        (phases(draft("a", shell="rm -rf /")), "shell"),
        (phases(draft("a", task="x" * 9000)), "8000"),
        (phases(draft("a"), draft("a")), "two phases are called a"),
        (phases(draft("a", "ghost")), "depends on ghost"),
        (phases(draft("a", "b"), draft("b", "a")), "circle"),
        (phases(draft("a", "a")), "circle"),
        (phases(draft("a", criteria=[{"command": "ls"}])), "command"),
        (phases(draft("a", criteria=[{"file": "../x"}])), "no file of the workspace"),
        (phases(draft("a", criteria=[{"file": "x"}, {"file": "x", "absent": True}])), "both cannot hold"),
    ],
)
def test_phases_that_cannot_be_are_refused_with_the_reason(value, reason):
    """A model wrote them: what is wrong goes back to it, and nothing of it is run."""
    with pytest.raises(InputError, match=reason) as caught:
        read_phases(value)
    assert caught.value.code == "phases_invalid"


def test_every_way_that_the_table_does_not_have_is_refused():
    for here, there in itertools.product(AGIntStatus, AGIntStatus):
        if there in WAYS[here]:
            assert moved(here, there) is there
        else:
            with pytest.raises(InputError):
                moved(here, there)
    assert not WAYS[AGIntStatus.COMPLETED]


def test_what_is_open_follows_from_the_phases():
    budget = MissionBudget()
    assert open_decisions(mission(), budget, None).options == (D.PLAN_PHASES,)
    assert open_decisions(mission(phase("a")), budget, None).options == (D.DELEGATE_TO_BDI,)
    assert open_decisions(mission(phase("a", S.RUNNING)), budget, None).options == (D.DELEGATE_TO_BDI,)
    assert open_decisions(mission(phase("a", S.ACHIEVED)), budget, None).options == (D.COMPLETE,)


def test_after_a_failure_the_model_chooses_among_what_the_budget_leaves():
    """Each way out is bounded: a model that always asks for the same one comes to an end."""
    budget = MissionBudget(max_attempts=2, max_revisions=1, max_researches=1)
    failed = mission(phase("a", S.FAILED, attempts=1))
    assert open_decisions(failed, budget, None).options == (D.DELEGATE_TO_BDI, D.REVISE_PHASES, D.RESEARCH, D.GIVE_UP)
    tried = mission(phase("a", S.FAILED, attempts=2), spent=Spent(revisions=0, researches=1))
    assert open_decisions(tried, budget, None).options == (D.REVISE_PHASES, D.GIVE_UP)
    spent = mission(phase("a", S.FAILED, attempts=2), spent=Spent(revisions=1))
    assert open_decisions(spent, budget, None).options == (D.GIVE_UP,)


def test_a_model_that_fails_is_repaired_within_bounds_and_never_when_it_cannot_be():
    budget, down = MissionBudget(max_repairs=2), provider_error("provider_timeout", "slow")
    assert open_decisions(mission(), budget, down).options == (D.PERFORM_SELF_REPAIR,)
    repaired = mission(notes=(CycleNote(cycle=1, at=0, decision=D.PERFORM_SELF_REPAIR),))
    assert open_decisions(repaired, budget, down).options == (D.ENTER_COOLDOWN,)
    assert open_decisions(mission(spent=Spent(repairs=2)), budget, down).options == (D.GIVE_UP,)
    assert open_decisions(mission(), budget, provider_error("provider_auth", "no")).options == (D.GIVE_UP,)


def test_the_next_phase_waits_for_what_it_depends_on():
    made = (phase("a", S.FAILED), phase("b", depends_on=("a",)), phase("c"))
    assert next_phase(made).name == "a"
    made = (phase("a", S.ACHIEVED), phase("b", depends_on=("c",)), phase("c"))
    assert next_phase(made).name == "c"
    assert not done(())
    assert not done(made)
    assert done(tuple(phase(name, S.ACHIEVED) for name in "ab"))


def test_a_mission_that_goes_round_in_circles_is_seen():
    same, errors = StuckDetector(), StuckDetector()
    made = (phase("a"),)
    assert [bool(same.look(made, (0,), "")) for _ in range(5)] == [False, False, False, True, True]
    assert not same.look(made, (1,), "")  # a revision is a change
    assert [bool(errors.look(made, (n,), "no such file")) for n in range(5)] == [False, False, False, False, True]


def test_a_mission_is_kept_whole_and_has_one_writer(tmp_path):
    store = MissionStore(tmp_path)
    made = mission(phase("a", S.ACHIEVED, attempts=1))
    with store.writing("m"):
        store.save(made)
        with pytest.raises(InputError) as caught, store.writing("m"):
            pytest.fail("two AGInts on one mission")
    assert caught.value.code == "mission_in_use"
    assert store.load("m") == made
    assert store.list() == (made,)


@pytest.mark.parametrize("data", ["", "{", "[]", '{"mission_id": "m"}', '{"mission_id": "n", "directive": "d"}'])
def test_a_damaged_record_is_told_and_left_as_it_is(tmp_path, data):
    path = tmp_path / "m" / "mission.json"
    path.parent.mkdir()
    path.write_text(data)
    with pytest.raises(InputError) as caught:
        MissionStore(tmp_path).load("m")
    assert caught.value.code == "mission_corrupt"
    assert path.read_text() == data
    assert MissionStore(tmp_path).list() == ()


def test_ids_are_no_paths(tmp_path):
    for name in ("../m", "", "a/b"):
        with pytest.raises(InputError):
            MissionStore(tmp_path).load(name)
    with pytest.raises(InputError) as caught:
        MissionStore(tmp_path).load("none")
    assert caught.value.code == "mission_unknown"
