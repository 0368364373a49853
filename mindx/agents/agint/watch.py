"""Watching a mission: does it still get anywhere, and is it done?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from mindx.agents.agint.phase import Phase, PhaseStatus

SAME_CYCLES = 4  # cycles without change; a failed attempt alone is a change, since it is counted
SAME_ERRORS = 5


class StuckDetector:
    """Tells a mission that goes round in circles: nothing changed for SAME_CYCLES, or one error came SAME_ERRORS times.

    It keeps fingerprints only; one that is made anew when a mission is taken up again begins to count anew.
    """

    def __init__(self) -> None:
        self._print = ""
        self._cycles = 0
        self._errors: dict[str, int] = {}

    def look(self, phases: Sequence[Phase], marks: Sequence[int], error: str) -> str:
        """Take the state after one cycle; return why the mission is stuck, or "".

        `marks` are counters whose growth is progress (revisions, researches); `error` is what this cycle failed with.
        """
        seen = [[phase.name, phase.task, phase.status.value, phase.attempts] for phase in phases]
        found = hashlib.sha256(json.dumps([seen, list(marks)]).encode()).hexdigest()
        self._cycles = self._cycles + 1 if found == self._print else 1
        self._print = found
        if error:
            self._errors[error] = self._errors.get(error, 0) + 1
            if self._errors[error] >= SAME_ERRORS:
                return f"the same error came {self._errors[error]} times: {error}"
        if self._cycles >= SAME_CYCLES:
            return f"nothing has changed in {self._cycles} cycles"
        return ""


def done(phases: Sequence[Phase]) -> bool:
    """Return whether every phase is achieved; none at all is not done."""
    return bool(phases) and all(phase.status is PhaseStatus.ACHIEVED for phase in phases)


def next_phase(phases: Sequence[Phase]) -> Phase | None:
    """Return the first phase that is not achieved and whose dependencies are, or None."""
    achieved = {phase.name for phase in phases if phase.status is PhaseStatus.ACHIEVED}
    return next((one for one in phases if one.name not in achieved and achieved.issuperset(one.depends_on)), None)
