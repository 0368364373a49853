import itertools

import pytest

from mindx import AgentState, AgentStateMachine, StateMachineError
from mindx.core.agent_state import TERMINAL_STATES, TRANSITIONS
from tests.agents.support import act, run

STOPS = {"error", "cancelled", "timeout"}
WAYS = {
    "idle": {"context_building", "cancelled"},
    "context_building": {"thinking"} | STOPS,
    "thinking": {"action_validating", "waiting_for_user", "final"} | STOPS,
    "action_validating": {"need_human_approval", "action_executing", "observing"} | STOPS,
    "need_human_approval": {"action_executing", "observing"} | STOPS,
    "action_executing": {"observing"} | STOPS,
    "observing": {"context_updating"} | STOPS,
    "context_updating": {"thinking", "waiting_for_user"} | STOPS,
    "waiting_for_user": {"thinking"} | STOPS,
    "final": set(),
    "error": set(),
    "cancelled": set(),
    "timeout": set(),
}


def at(state):
    machine = AgentStateMachine()
    machine.state = state
    return machine


@pytest.mark.parametrize(("before", "after"), list(itertools.product(AgentState, AgentState)))
def test_only_the_ways_of_the_table_lead_on(before, after):
    machine = at(before)
    allowed = after.value in WAYS[before.value]
    assert machine.can(after) is allowed
    if allowed:
        machine.move(after)
        assert machine.state is after
    else:
        with pytest.raises(StateMachineError):
            machine.move(after)
        assert machine.state is before


def test_nothing_follows_an_end_and_every_state_is_in_the_table():
    assert {state.value for state in TRANSITIONS} == set(WAYS)
    assert {state.value for state in TERMINAL_STATES} == {"final", "error", "cancelled", "timeout"}
    assert all(state.terminal == (not TRANSITIONS[state]) for state in AgentState)


def test_the_listener_hears_each_change():
    told = []
    machine = AgentStateMachine(lambda before, after: told.append((before.value, after.value)))
    machine.move(AgentState.CONTEXT_BUILDING)
    machine.move(AgentState.THINKING)
    assert told == [("idle", "context_building"), ("context_building", "thinking")]


def test_a_run_walks_think_validate_execute_observe_update():
    result, made = run(act("look"))
    assert made.heard.states == [
        "context_building",
        "thinking",
        "action_validating",
        "action_executing",
        "observing",
        "context_updating",
        "thinking",
        "final",
    ]
    assert result.state is AgentState.FINAL
