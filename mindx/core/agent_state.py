"""The states of an agent's run, and the only ways from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType

from mindx.errors import MindxError


class AgentState(str, Enum):
    """Where a run stands."""

    IDLE = "idle"
    CONTEXT_BUILDING = "context_building"
    THINKING = "thinking"
    ACTION_VALIDATING = "action_validating"
    NEED_HUMAN_APPROVAL = "need_human_approval"
    ACTION_EXECUTING = "action_executing"
    OBSERVING = "observing"
    CONTEXT_UPDATING = "context_updating"
    WAITING_FOR_USER = "waiting_for_user"
    FINAL = "final"
    ERROR = "error"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"

    @property
    def terminal(self) -> bool:
        """True when nothing follows."""
        return self in TERMINAL_STATES


TERMINAL_STATES = frozenset({AgentState.FINAL, AgentState.ERROR, AgentState.CANCELLED, AgentState.TIMEOUT})

_STOPS = frozenset({AgentState.ERROR, AgentState.CANCELLED, AgentState.TIMEOUT})
_STEPS: dict[AgentState, frozenset[AgentState]] = {
    AgentState.CONTEXT_BUILDING: frozenset({AgentState.THINKING}),
    AgentState.THINKING: frozenset({AgentState.ACTION_VALIDATING, AgentState.WAITING_FOR_USER, AgentState.FINAL}),
    AgentState.ACTION_VALIDATING: frozenset(
        {AgentState.NEED_HUMAN_APPROVAL, AgentState.ACTION_EXECUTING, AgentState.OBSERVING}
    ),
    AgentState.NEED_HUMAN_APPROVAL: frozenset({AgentState.ACTION_EXECUTING, AgentState.OBSERVING}),
    AgentState.ACTION_EXECUTING: frozenset({AgentState.OBSERVING}),
    AgentState.OBSERVING: frozenset({AgentState.CONTEXT_UPDATING}),
    AgentState.CONTEXT_UPDATING: frozenset({AgentState.THINKING, AgentState.WAITING_FOR_USER}),
    AgentState.WAITING_FOR_USER: frozenset({AgentState.THINKING}),
}
TRANSITIONS: Mapping[AgentState, frozenset[AgentState]] = MappingProxyType(
    {
        AgentState.IDLE: frozenset({AgentState.CONTEXT_BUILDING, AgentState.CANCELLED}),
        **{state: following | _STOPS for state, following in _STEPS.items()},
        **{state: frozenset[AgentState]() for state in TERMINAL_STATES},
    }
)


class StateMachineError(MindxError):
    """A run was to go where no way leads. Code: state_transition."""


class AgentStateMachine:
    """The state of one run. `on_change` is called with the old and the new state after each change."""

    def __init__(self, on_change: Callable[[AgentState, AgentState], None] | None = None) -> None:
        self.state = AgentState.IDLE
        self._on_change = on_change

    def can(self, state: AgentState) -> bool:
        """Return whether a way leads from here to `state`."""
        return state in TRANSITIONS[self.state]

    def move(self, state: AgentState) -> None:
        """Go to `state`. Raises StateMachineError, and stays, when no way leads there."""
        before = self.state
        if state not in TRANSITIONS[before]:
            raise StateMachineError("state_transition", f"a run cannot go from {before.value} to {state.value}")
        self.state = state
        if self._on_change is not None:
            self._on_change(before, state)
