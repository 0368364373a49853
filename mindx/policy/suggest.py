"""Suggesting rules: the smallest that would have allowed what runs did, each with its evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from mindx.core.command import Command, Exec
from mindx.core.count import counted
from mindx.policy.engine import PolicyEngine
from mindx.policy.review import INTERPRETERS
from mindx.policy.risk import Risk, classify, table
from mindx.policy.words import Argv, Dynamic, shown

MAX_EVIDENCE = 5
MAX_PATTERN = 4096
_QUIET = re.compile(r"[A-Za-z0-9_./:=@%+,-]+", re.ASCII)


@dataclass
class Suggestion:
    """One rule to add: its pattern, the risk to stop at (None: it says all by itself), and who would have needed it."""

    pattern: str
    at_most: str | None
    evidence: list[str] = field(default_factory=list)
    count: int = 0


@dataclass
class Suggestions:
    """Rules that would have been enough, and the commands that no rule can allow, with the reason."""

    rules: list[Suggestion] = field(default_factory=list)
    impossible: list[tuple[str, str]] = field(default_factory=list)


def suggest(engine: PolicyEngine, commands: Iterable[tuple[str, Command]]) -> Suggestions:
    """Return rules for the commands that `engine` denies for want of a rule; each comes with its run's id."""
    found: dict[tuple[str, str | None], Suggestion] = {}
    impossible: dict[str, str] = {}
    for run, command in commands:
        if not isinstance(command, Exec):
            continue
        for step in engine.explain(command).steps:
            if step.verdict.decision != "deny":
                continue
            if not step.verdict.rule.endswith("default") or not step.argv:
                impossible[shown(command.argv)] = step.verdict.reason
                continue
            key = _rule_for(step.argv)
            if key is None:
                impossible[shown(step.argv)] = (
                    "no rule for just these words can be made: they are too long, hold both kinds of quotes, or are "
                    "known only when it runs, or an interpreter has none; write the rule by hand"
                )
                continue
            entry = found.setdefault(key, Suggestion(*key))
            entry.count += 1
            line = f"{run}: {shown(step.argv)}"
            if line not in entry.evidence and len(entry.evidence) < MAX_EVIDENCE:
                entry.evidence.append(line)
    rules = sorted(found.values(), key=lambda entry: (-entry.count, entry.pattern))
    return Suggestions(rules, sorted(impossible.items()))


def _rule_for(argv: Argv) -> tuple[str, str | None] | None:
    """Return pattern and at_most for one argv: by risk where the table knows it, else the very words.

    None when no pattern says just these words: a `*` for one, or an interpreter's bare name, would allow any code.
    """
    program, risk = argv[0], classify(argv)
    if risk is Risk.DANGEROUS or program in INTERPRETERS or program not in table():
        if any(isinstance(word, Dynamic) for word in argv) or (program in INTERPRETERS and len(argv) == 1):
            return None
        words = [_quoted(word) for word in argv]
        text = " ".join(word for word in words if word is not None)
        return (text, None) if None not in words and len(text) <= MAX_PATTERN else None
    if "subcommands" in table()[program].marks and len(argv) > 1 and f"{program} {argv[1]}" in table():
        return f"{program} {argv[1]} **", risk.word
    return program, risk.word


def _quoted(word: str) -> str | None:
    """Return the word as a pattern that means just it, None when it holds both kinds of quotes."""
    if _QUIET.fullmatch(word):
        return word
    if "'" not in word:
        return f"'{word}'"
    return '"' + word + '"' if '"' not in word else None


def as_yaml(found: Suggestions) -> str:
    """Return the suggestions as lines for a policy's `commands`."""
    lines = ["commands:"] if found.rules else []
    for rule in found.rules:
        lines += [f"  # {line}" for line in rule.evidence]
        if rule.count > len(rule.evidence):
            lines.append(f"  # {counted(rule.count, 'time')} in all")
        lines.append(f"  - allow: {_yaml(rule.pattern)}")
        if rule.at_most:
            lines.append(f"    at_most: {rule.at_most}")
    for command, reason in found.impossible:
        lines += [f"# no rule can allow: {command}", f"#   {reason}"]
    return "\n".join(lines) + "\n" if lines else ""


def _yaml(pattern: str) -> str:
    return '"' + pattern.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'
