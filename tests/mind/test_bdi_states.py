"""The two axes of a BDI agent, its goals' order, and criteria that are refused when they are set."""

import itertools

import pytest

from mindx.agents.bdi import BDIPhase, BDIStatus, CommandCriterion, FileCriterion, StatementCriterion
from mindx.agents.bdi.criteria import criteria_of
from mindx.agents.bdi.status import PHASE_TABLE, STATUS_TABLE, BDIStateMachine
from mindx.errors import InputError

P, S = BDIPhase, BDIStatus


@pytest.mark.parametrize(("one", "other"), [*itertools.product(S, S)])
def test_only_the_ways_of_the_table_lead_from_status_to_status(one, other):
    machine = BDIStateMachine()
    machine.status = one
    if other is one or other in STATUS_TABLE[one]:
        machine.move(other)
        assert machine.status is other
    else:
        with pytest.raises(InputError, match="no way leads"):
            machine.move(other)
        assert machine.status is one


@pytest.mark.parametrize(("one", "other"), [*itertools.product(P, P)])
def test_only_the_ways_of_the_table_lead_from_phase_to_phase(one, other):
    machine = BDIStateMachine()
    machine.phase = one
    if other is one or other in PHASE_TABLE[one]:
        machine.enter(other)
        assert machine.phase is other
    else:
        with pytest.raises(InputError, match="no way leads"):
            machine.enter(other)


def test_the_tables_say_what_the_seed_draws():
    assert P.EXECUTE in PHASE_TABLE[P.PLAN]
    assert PHASE_TABLE[P.EXECUTE] == {P.PERCEIVE}
    assert PHASE_TABLE[P.PERCEIVE] == {P.DELIBERATE}
    assert set(STATUS_TABLE) == set(S)
    ended = {status for status in S if status.terminal}
    assert all(STATUS_TABLE[status] <= {S.RUNNING} for status in ended)
    assert {S.GOAL_ACHIEVED, S.FAILED_PLANNING, S.FAILED_ACTION, S.TIMED_OUT, S.IDLE_COMPLETE} <= ended


def test_criteria_are_read_from_models_objects_and_texts():
    made = criteria_of([{"command": ["pytest", "-q"]}, {"file": "a.txt", "contains": "x"}, "it is blue"])
    assert made == (
        CommandCriterion(command=("pytest", "-q")),
        FileCriterion(file="a.txt", contains="x"),
        StatementCriterion(statement="it is blue"),
    )


@pytest.mark.parametrize(
    "criterion",
    [
        {},
        {"command": []},
        {"command": "pytest"},
        {"command": ["x"], "file": "y"},
        {"file": "../x"},
        {"file": "/etc/passwd"},
        {"file": "x", "absent": True, "contains": "y"},
        {"file": "x", "contain": "y"},
        {"statement": ""},
    ],
)
def test_what_is_no_criterion_is_refused(criterion):
    with pytest.raises(InputError) as caught:
        criteria_of([criterion])
    assert caught.value.code == "criterion_invalid"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"file": "a", "absent": True}, {"file": "./a"}),
        ({"file": "a", "equals": "1"}, {"file": "a", "equals": "2"}),
        ({"file": "a", "equals": "one"}, {"file": "a", "contains": "two"}),
        ({"command": ["x"]}, {"command": ["x"], "exit_code": 1}),
    ],
)
def test_criteria_that_contradict_each_other_are_refused_at_once(one, other):
    for pair in ((one, other), (other, one)):
        with pytest.raises(InputError, match="both cannot hold") as caught:
            criteria_of(pair)
        assert caught.value.code == "criteria_contradictory"
