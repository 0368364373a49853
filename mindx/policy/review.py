"""Reviewing a policy's command rules: what never decides, what can never allow, and what is broader than it looks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from mindx.policy.judge import Judge, strictest
from mindx.policy.model import Policy
from mindx.policy.pattern import Element, Pattern
from mindx.policy.risk import Risk, classify, table
from mindx.policy.rules import Entry, RuleSet
from mindx.policy.words import Argv
from mindx.policy.wrappers import SHELLS

INTERPRETERS = SHELLS | frozenset(
    {"python", "python3", "perl", "ruby", "node", "php", "lua", "tclsh", "java", "deno", "bun", "make", "gmake", "awk"}
    | {"mawk", "gawk", "nawk", "vi", "vim", "ed", "ex", "emacs", "nano", "less", "gdb", "expect"}
)
MAX_SAMPLES = 128


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about a rule: `index` of the rule, `kind` (shadowed, unreachable, broad), and a sentence."""

    index: int
    kind: str
    message: str


def review(policy: Policy) -> list[Finding]:
    """Return what is odd about the rules, in their order. An empty list means nothing was found."""
    rules, judge = RuleSet(policy.commands), Judge(policy)
    found: list[Finding] = []
    for index, rule in enumerate(policy.commands):
        entries = [entry for entry in rules.entries if entry.rule is rule]
        for entry in entries:
            finding = _never(index, entry, rules, judge) or _broad(index, entry, rules)
            if finding is not None:
                found.append(finding)
    return found


def _never(index: int, entry: Entry, rules: RuleSet, judge: Judge) -> Finding | None:
    text, decision = entry.pattern.text, entry.rule.decision
    samples = list(itertools.islice(_samples(entry.pattern), MAX_SAMPLES))
    fitting = [argv for argv in samples if decision != "allow" or classify(argv) <= entry.rule.ceiling]
    if not fitting:
        word = entry.rule.ceiling.word
        return Finding(index, "unreachable", f"{text!r} can never allow: no arguments of it are at most {word}")
    deciding = [rules.find(argv, classify(argv)) for argv in fitting]
    if all(other is not None and other.rule is not entry.rule for other in deciding):
        other = next(other for other in deciding if other is not None)
        return Finding(index, "shadowed", f"{text!r} never decides: {other.name} ({other.pattern.text!r}) is before it")
    if decision == "allow":
        verdicts = [strictest(judge.command(argv)) for argv in fitting]
        if all(verdict.rule in ("arguments", "wrappers") for verdict in verdicts):
            return Finding(index, "unreachable", f"{text!r} can never allow: {verdicts[0].reason}")
    return None


def _broad(index: int, entry: Entry, rules: RuleSet) -> Finding | None:
    """Return a finding for an allow rule that lets any code run; a reason says that somebody thought about it."""
    if entry.rule.decision != "allow" or entry.rule.reason or entry.rule.ceiling is not Risk.DANGEROUS:
        return None
    program, bare = entry.pattern.programs[0], entry.pattern.elements[:1] == (Element("rest"),)
    if program in INTERPRETERS and bare:
        return Finding(index, "broad", f"{entry.pattern.text!r} allows any code: {program} runs what it is given")
    if _any_code_allowed(rules):
        return None
    spec = table().get(program)
    if bare and (spec is None or "subcommands" in spec.marks or any(o.runs for o in spec.options.values())):
        known = "is not a known program" if spec is None else "can start other programs"
        message = f"{entry.pattern.text!r} is broader than it looks: {program} {known}"
        return Finding(index, "broad", f"{message}; narrow its arguments, add at_most, or give a reason")
    return None


def _any_code_allowed(rules: RuleSet) -> bool:
    return any(
        entry.rule.decision == "allow" and entry.pattern.programs[0] in INTERPRETERS
        and entry.pattern.elements[:1] == (Element("rest"),)
        for entry in rules.entries
    )  # fmt: skip


def _samples(pattern: Pattern) -> Iterator[Argv]:
    """Yield argvs that the pattern covers: each alternative once, `*` and `**` as one word, `**` also as none."""
    choices: list[list[Argv]] = [[(program,) for program in pattern.programs]]
    for element in pattern.elements:
        if element.kind == "rest":
            choices.append([(), ("x",)])
        elif element.kind == "any":
            choices.append([("x",)])
        else:
            words: list[Argv] = [(item.text.replace("*", "x") if item.regex else item.text,) for item in element.items]
            choices.append([(), *words] if element.kind in ("optional", "options") else words)
    for parts in itertools.product(*choices):
        yield tuple(itertools.chain.from_iterable(parts))
