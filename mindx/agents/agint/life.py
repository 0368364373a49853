"""The life of a mission: how it stands, what the cycle is doing, and what it may decide."""

from __future__ import annotations

from enum import Enum

from mindx.errors import InputError


class AGIntStatus(str, Enum):
    """How a mission stands."""

    INACTIVE = "inactive"  # nothing has begun
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"  # by a person or a signal; it can be taken up again
    PARTIAL = "partial"  # a limit was reached; it can be taken up again
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """True when nothing is being done any more."""
        return self in (self.STOPPED, self.PARTIAL, self.COMPLETED, self.FAILED)


class AGIntStage(str, Enum):
    """What the cognitive loop is doing; the other axis beside the status."""

    IDLE = "idle"
    PERCEIVE = "perceive"
    ORIENT = "orient"
    DECIDE = "decide"
    ACT = "act"


class AGIntDecision(str, Enum):
    """What one cycle decided."""

    PLAN_PHASES = "plan_phases"
    DELEGATE_TO_BDI = "delegate_to_bdi"
    RESEARCH = "research"  # a BDI agent finds out why something failed
    REVISE_PHASES = "revise_phases"
    PERFORM_SELF_REPAIR = "perform_self_repair"  # ask the model for a sign of life
    ENTER_COOLDOWN = "enter_cooldown"
    COMPLETE = "complete"
    GIVE_UP = "give_up"


_S = AGIntStatus
_ENDS = frozenset({_S.STOPPED, _S.PARTIAL, _S.COMPLETED, _S.FAILED})
WAYS: dict[AGIntStatus, frozenset[AGIntStatus]] = {
    _S.INACTIVE: frozenset({_S.RUNNING}),
    _S.RUNNING: _ENDS | {_S.PAUSED, _S.STOPPING},
    _S.PAUSED: _ENDS | {_S.RUNNING, _S.STOPPING},
    _S.STOPPING: _ENDS,  # what ended by itself meanwhile is told as it was
    # Taken up again, by this process or the next.
    _S.STOPPED: frozenset({_S.RUNNING}),
    _S.PARTIAL: frozenset({_S.RUNNING}),
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset({_S.RUNNING}),
}


def moved(present: AGIntStatus, to: AGIntStatus) -> AGIntStatus:
    """Return the new status. Raises InputError (mission_state) when no way leads there."""
    if to not in WAYS[present]:
        raise InputError("mission_state", f"a mission that is {present.value} cannot become {to.value}")
    return to
