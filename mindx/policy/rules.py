"""Command rules: which of them decides on one program with its arguments."""

from __future__ import annotations

from collections.abc import Sequence

from mindx.core.frozen import dataclass
from mindx.policy.model import Decision, Rule
from mindx.policy.pattern import Pattern
from mindx.policy.risk import Risk
from mindx.policy.words import Argv, Dynamic

STRICTNESS: dict[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}
_INSTALLERS = frozenset(
    {"pip", "pip3", "pipx", "apt", "apt-get", "dpkg", "npm", "npx", "yarn", "conda", "uv", "poetry", "gem", "cargo"}
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One pattern of one rule. `name` is the rule's place: `commands[3]`, or `project:commands[3]` of another layer."""

    name: str
    rule: Rule
    pattern: Pattern

    @property
    def rank(self) -> tuple[tuple[int, int, int], int]:
        """Return what orders entries that match: the most specific first, and the stricter of equals."""
        return self.pattern.specificity, STRICTNESS[self.rule.decision]


class RuleSet:
    """The rules of one layer. `name` is "" for the policy itself."""

    def __init__(self, rules: Sequence[Rule], name: str = "") -> None:
        self.name = name
        self.allows = any(rule.decision == "allow" for rule in rules)
        self.entries = tuple(
            Entry(f"{name}:commands[{index}]" if name else f"commands[{index}]", rule, pattern)
            for index, rule in enumerate(rules)
            for pattern in rule.patterns
        )
        self._by_program: dict[str, list[Entry]] = {}
        for entry in sorted(self.entries, key=lambda entry: entry.rank, reverse=True):
            for program in entry.pattern.programs:
                self._by_program.setdefault(program, []).append(entry)

    def find(self, argv: Argv, risk: Risk) -> Entry | None:
        """Return the entry that decides on an argv of this risk, or None when no rule covers it."""
        unknown, words = any(isinstance(word, Dynamic) for word in argv), set(argv)
        for entry in self._by_program.get(argv[0], ()):
            if not unknown and any(choice.isdisjoint(words) for choice in entry.pattern.needed):
                continue
            wide = entry.rule.decision != "allow"
            if risk <= entry.rule.ceiling and entry.pattern.matches(argv, wide=wide):
                return entry
        return None


def no_rule(argv: Argv, risk: Risk, rules: RuleSet) -> str:
    """Return why an argv without a rule is denied, and what to do about it."""
    program = argv[0]
    limited = [entry for entry in rules.entries if entry.pattern.matches(argv)]
    if limited:
        first = limited[0]
        return f"{first.name} allows {program} for {first.rule.ceiling.word} arguments only; these are {risk.word}"
    if program in _INSTALLERS:
        how = "add packages of the distribution to the image (docs/images.md)"
        return f"{program} is not allowed: there is no network inside; {how}"
    return f"no rule allows {program}; if the plan may run it, add this to the policy's commands: - allow: {program}"
