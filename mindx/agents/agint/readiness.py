"""A mission that ended or was cut off, made ready to be taken up again."""

from __future__ import annotations

from mindx.agents.agint.life import AGIntStatus
from mindx.agents.agint.mission import Mission
from mindx.agents.agint.phase import PhaseStatus


def readied(mission: Mission, *, files_kept: bool) -> Mission:
    """Return a mission as it can be taken up."""
    if mission.status is AGIntStatus.COMPLETED:
        return mission  # there is no way on, and its status says so
    failed = mission.status is AGIntStatus.FAILED
    phases = []
    for phase in mission.phases:
        if phase.status is PhaseStatus.ACHIEVED and not files_kept:
            phase = phase.model_copy(update={"status": PhaseStatus.PENDING, "attempts": 0})
        elif failed:
            phase = phase.model_copy(update={"attempts": 0})
        phases.append(phase)
    spent = mission.spent
    if failed:
        spent = spent.model_copy(update={"revisions": 0, "researches": 0, "repairs": 0})
    # Who holds the lock knows that nobody is at it: a status that goes on is that of a process that died.
    status = mission.status if mission.status.ended else AGIntStatus.STOPPED
    return mission.model_copy(update={"phases": tuple(phases), "spent": spent, "status": status})
