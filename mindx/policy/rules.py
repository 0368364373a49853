"""Command rules: which of them decides on an argv."""

from __future__ import annotations

from collections.abc import Sequence

from mindx.core.verdict import Verdict
from mindx.policy.model import Rule

_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
_PACKAGE_PROGRAMS = ("pip", "pip3", "apt", "apt-get", "npm", "conda", "uv", "poetry")


class RuleSet:
    """The rules of one policy. Several rules that match: the strictest wins. None: deny."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._patterns = [(index, rule, pattern) for index, rule in enumerate(rules) for pattern in rule.patterns]

    def judge(self, argv: tuple[str, ...]) -> Verdict:
        """Return the verdict on one argv."""
        found = [(index, rule) for index, rule, pattern in self._patterns if pattern.matches(argv)]
        if not found:
            return Verdict("deny", "default", _no_rule(argv[0]))
        index, rule = max(found, key=lambda item: _STRICTNESS[item[1].decision])
        reason = rule.reason or f"{rule.decision} {argv[0]}"
        return Verdict(rule.decision, f"commands[{index}]", reason)


def _no_rule(program: str) -> str:
    if program in _PACKAGE_PROGRAMS:
        return f"{program} is not allowed: installing packages comes with a later version; use what is in the image"
    return f"no rule allows {program}; if the plan may run it, add this to the policy's commands: - allow: {program}"
