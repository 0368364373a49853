"""Where a BDI agent is: the phase of its cycle, and the status of its work. Two axes, each with the only ways on."""

from __future__ import annotations

from enum import Enum

from mindx.errors import InputError


class BDIPhase(str, Enum):
    """What the agent does at this moment of its cycle."""

    PERCEIVE = "perceive"
    DELIBERATE = "deliberate"
    PLAN = "plan"
    EXECUTE = "execute"


class BDIStatus(str, Enum):
    """How its work stands."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZED = "INITIALIZED"
    RUNNING = "RUNNING"
    PLANNING = "PLANNING"
    EXECUTING_ACTION = "EXECUTING_ACTION"
    WAITING_FOR_USER = "WAITING_FOR_USER"
    IDLE_COMPLETE = "IDLE_COMPLETE"  # there is no goal to pursue
    GOAL_ACHIEVED = "GOAL_ACHIEVED"
    FAILED_INITIALIZATION = "FAILED_INITIALIZATION"
    FAILED_PLANNING = "FAILED_PLANNING"
    FAILED_ACTION = "FAILED_ACTION"
    FAILED_UNRECOVERABLE = "FAILED_UNRECOVERABLE"
    TIMED_OUT = "TIMED_OUT"  # a budget is spent
    CANCELLED = "CANCELLED"

    @property
    def failed(self) -> bool:
        """True for the four that begin with FAILED."""
        return self.value.startswith("FAILED")

    @property
    def terminal(self) -> bool:
        """True when a run has ended with it; the next run begins at RUNNING."""
        return self in _TERMINAL


_S, _P = BDIStatus, BDIPhase
_FAILED = {_S.FAILED_PLANNING, _S.FAILED_ACTION, _S.FAILED_UNRECOVERABLE}
_TERMINAL = frozenset(
    {*_FAILED, _S.FAILED_INITIALIZATION, _S.IDLE_COMPLETE, _S.GOAL_ACHIEVED, _S.TIMED_OUT, _S.CANCELLED}
)
_ENDS = {_S.TIMED_OUT, _S.CANCELLED, _S.FAILED_UNRECOVERABLE}
STATUS_TABLE: dict[BDIStatus, frozenset[BDIStatus]] = {
    _S.UNINITIALIZED: frozenset({_S.INITIALIZED, _S.FAILED_INITIALIZATION}),
    _S.INITIALIZED: frozenset({_S.RUNNING}),
    _S.RUNNING: frozenset({_S.PLANNING, _S.EXECUTING_ACTION, _S.IDLE_COMPLETE, _S.GOAL_ACHIEVED, *_FAILED, *_ENDS}),
    _S.PLANNING: frozenset({_S.RUNNING, _S.FAILED_PLANNING, *_ENDS}),
    _S.EXECUTING_ACTION: frozenset({_S.RUNNING, _S.WAITING_FOR_USER, *_ENDS}),
    _S.WAITING_FOR_USER: frozenset({_S.RUNNING, *_ENDS}),
    **{ended: frozenset({_S.RUNNING}) for ended in _TERMINAL},
    _S.FAILED_INITIALIZATION: frozenset(),
}
PHASE_TABLE: dict[BDIPhase, frozenset[BDIPhase]] = {
    _P.PERCEIVE: frozenset({_P.DELIBERATE}),
    _P.DELIBERATE: frozenset({_P.PLAN, _P.EXECUTE, _P.PERCEIVE}),
    _P.PLAN: frozenset({_P.EXECUTE, _P.DELIBERATE, _P.PERCEIVE}),
    _P.EXECUTE: frozenset({_P.PERCEIVE}),
}


class BDIStateMachine:
    """Phase and status of one agent. Raises InputError (bdi_state_invalid) for a way that no table has."""

    def __init__(self) -> None:
        self.phase = BDIPhase.PERCEIVE
        self.status = BDIStatus.UNINITIALIZED

    def move(self, status: BDIStatus) -> None:
        """Go to another status; to stay is no move."""
        if status is not self.status:
            if status not in STATUS_TABLE[self.status]:
                raise InputError("bdi_state_invalid", f"no way leads from {self.status.value} to {status.value}")
            self.status = status

    def enter(self, phase: BDIPhase) -> None:
        """Go to another phase of the cycle; to stay is no move."""
        if phase is not self.phase:
            if phase not in PHASE_TABLE[self.phase]:
                raise InputError("bdi_state_invalid", f"no way leads from {self.phase.value} to {phase.value}")
            self.phase = phase
