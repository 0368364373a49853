"""Verdicts: what the policy says of one Command."""

from __future__ import annotations

from typing import Literal

from mindx.core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """`rule` names the rule that decided (`commands[3]`, `paths`, `default`); `reason` is a sentence for people."""

    decision: Literal["allow", "ask", "deny"]
    rule: str
    reason: str

    @property
    def allowed(self) -> bool:
        """True only for allow."""
        return self.decision == "allow"
