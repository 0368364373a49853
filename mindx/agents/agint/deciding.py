"""What a cycle may do next: rules bound the choice, and leave it to the model only where there is one."""

from __future__ import annotations

from dataclasses import dataclass

from mindx.agents.agint.life import AGIntDecision
from mindx.agents.agint.mission import Mission, MissionBudget
from mindx.agents.agint.phase import PhaseStatus
from mindx.agents.agint.watch import done, next_phase
from mindx.errors import MindxError

_D = AGIntDecision


@dataclass(frozen=True, slots=True)
class Open:
    """The decisions that are open now, the rules' own choice first, and why."""

    options: tuple[AGIntDecision, ...]
    reason: str


def open_decisions(mission: Mission, budget: MissionBudget, trouble: MindxError | None) -> Open:
    """Return what may be decided. `trouble` is the failure of the model that is not repaired yet, or None."""
    if trouble is not None:
        return _in_trouble(mission, budget, trouble)
    if not mission.phases:
        return Open((_D.PLAN_PHASES,), "there are no phases yet")
    if done(mission.phases):
        return Open((_D.COMPLETE,), "every phase is achieved")
    phase = next_phase(mission.phases)
    if phase is None:
        return Open((_D.GIVE_UP,), "no phase can be begun")
    if phase.status is PhaseStatus.RUNNING:
        return Open((_D.DELEGATE_TO_BDI,), f"phase {phase.name} was interrupted")
    if phase.status is PhaseStatus.PENDING:
        return Open((_D.DELEGATE_TO_BDI,), f"phase {phase.name} is next")
    options = []
    if phase.attempts < budget.max_attempts:
        options.append(_D.DELEGATE_TO_BDI)
    if mission.spent.revisions < budget.max_revisions:
        options.append(_D.REVISE_PHASES)
    researched = bool(mission.notes) and mission.notes[-1].decision is _D.RESEARCH
    if options and mission.spent.researches < budget.max_researches and not researched:
        options.append(_D.RESEARCH)
    return Open((*options, _D.GIVE_UP), f"phase {phase.name} has failed: {phase.told}"[:2000])


def _in_trouble(mission: Mission, budget: MissionBudget, trouble: MindxError) -> Open:
    reason = f"the model failed: {trouble.message}"[:2000]
    if not trouble.recoverable or mission.spent.repairs >= budget.max_repairs:
        return Open((_D.GIVE_UP,), reason)
    last = mission.notes[-1] if mission.notes else None
    if last is not None and last.decision is _D.PERFORM_SELF_REPAIR:
        return Open((_D.ENTER_COOLDOWN,), reason)
    return Open((_D.PERFORM_SELF_REPAIR,), reason)
