"""Judging by rules: a command, every command inside it, and every leaf of a shell line. The strictest wins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from mindx.core.command import WORKSPACE
from mindx.core.frozen import dataclass
from mindx.core.verdict import Verdict
from mindx.policy import paths
from mindx.policy.builtins import STARTERS, builtin_problem, is_builtin
from mindx.policy.model import Policy
from mindx.policy.risk import Risk, classify
from mindx.policy.rules import STRICTNESS, Entry, RuleSet, no_rule
from mindx.policy.shell import leaves
from mindx.policy.shell_leaf import Leaf, ShellFault
from mindx.policy.variables import variable_problem
from mindx.policy.words import PROGRAM_NAME, Argv, Dynamic, shown
from mindx.policy.wrappers import Inner, inner, reads_input

MAX_DEPTH = 8
MAX_STEPS = 300
MAX_PATHS = 20_000


@dataclass(frozen=True, slots=True)
class Step:
    """One judged command. `via` names what it stands in (`bash -c`, line 1, column 5), or is ""."""

    argv: Argv
    verdict: Verdict
    risk: Risk
    via: str = ""


@dataclass(slots=True)
class _Walk:
    """What is known while one Command is judged: its steps, and the folders that a line may be in."""

    folders: list[str]
    stdin: bytes = b""
    steps: list[Step] = field(default_factory=list)
    looked_at: int = 0

    def deny(self, argv: Argv, rule: str, reason: str, via: str) -> None:
        where = f"in {via}: " if via else ""
        self.steps.append(Step(argv, Verdict("deny", rule, where + reason), Risk.DANGEROUS, via))


def strictest(steps: Sequence[Step]) -> Verdict:
    """Return the verdict of the first of the strictest steps."""
    return max(steps, key=lambda step: STRICTNESS[step.verdict.decision]).verdict


class Judge:
    """The rules of all layers of one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._base, *self._layers = [RuleSet(rules, name) for name, rules in policy.command_layers]

    def command(self, argv: Argv, cwd: str = WORKSPACE, stdin: bytes = b"") -> list[Step]:
        """Return the steps of one argv with its standard input; there is at least one."""
        walk = _Walk([cwd], stdin)
        self._argv(argv, walk, "", 0)
        return walk.steps

    def line(self, text: str, cwd: str = WORKSPACE) -> list[Step]:
        """Return the steps of a line for the shell, without the shell itself."""
        walk = _Walk([cwd])
        self._line(text, walk, "the line", 0)
        return walk.steps

    def _argv(self, argv: Argv, walk: _Walk, via: str, depth: int, in_line: bool = False, note: str = "") -> None:
        if depth > MAX_DEPTH or len(walk.steps) > MAX_STEPS:
            walk.deny(argv, "limits", "too many commands inside one another to be judged", via)
            return
        builtin = in_line and is_builtin(argv[0])
        problem = builtin_problem(argv, walk.folders) if builtin else _program_problem(argv[0])
        if problem is not None:
            walk.deny(argv, "arguments", problem, via)
            return
        risk = Risk.READ_ONLY if builtin else classify(argv)
        walk.steps.append(Step(argv, self._verdict(argv, risk, via, in_line, note), risk, via))
        self._protected(argv, risk, walk, via)
        for found in inner(argv):
            self._inner(argv, found, walk, via, depth + 1, in_line)
        if walk.stdin and reads_input(argv):
            text, walk.stdin = walk.stdin.decode("utf-8", "surrogateescape"), b""
            self._line(text, walk, f"{via}, {argv[0]}'s input" if via else f"{argv[0]}'s input", depth + 1)

    def _inner(self, argv: Argv, found: Inner, walk: _Walk, via: str, depth: int, in_line: bool) -> None:
        inside = f"{via}, {argv[0]}" if via else argv[0]
        for name, value in found.env:
            problem = variable_problem(name, value)
            if problem is not None:
                walk.deny(argv, "arguments", problem, inside)
        if found.unknown:
            walk.deny(argv, "wrappers", found.unknown, via)
        elif found.line is not None:
            self._line(found.line, walk, inside, depth)
        elif found.argv:
            self._argv(found.argv, walk, inside, depth, in_line and argv[0] in STARTERS - {"exec", "time"})

    def _line(self, text: str, walk: _Walk, via: str, depth: int) -> None:
        if isinstance(text, Dynamic):
            walk.deny((), "shell", f"the line {text[:40]!a} is known only when it runs; write it out", via)
            return
        try:
            found = leaves(text)
        except ShellFault as fault:
            walk.deny((), "shell", str(fault), via)
            return
        walk.steps.append(Step((), Verdict("allow", "shell", "the line is understood"), Risk.READ_ONLY, via))
        for leaf in found:
            self._leaf(leaf, walk, via, depth)

    def _leaf(self, leaf: Leaf, walk: _Walk, via: str, depth: int) -> None:
        inside = f"{via}, line {leaf.place[0]}, column {leaf.place[1]}"
        if leaf.line is not None:
            self._line(leaf.line, walk, inside, depth + 1)
            return
        problem = self._file_problem(leaf.file, walk.folders) if leaf.file is not None else None
        if problem is not None:
            walk.deny(leaf.argv, "paths", problem, inside)
            return
        self._argv(leaf.argv, walk, inside, depth + 1, in_line=not leaf.stands_for, note=leaf.stands_for)

    def _verdict(self, argv: Argv, risk: Risk, via: str, in_line: bool, note: str) -> Verdict:
        """Return the verdict on one argv by itself: the strictest of all layers."""
        verdict = self._by_layer(self._base, argv, risk, in_line, required=True)
        for layer in self._layers:
            other = self._by_layer(layer, argv, risk, in_line, required=layer.allows)
            if STRICTNESS[other.decision] > STRICTNESS[verdict.decision]:
                verdict = other
        where = f"in {via}: " if via else ""
        stands = f"{note} counts as {argv[0]}: " if note else ""
        return Verdict(verdict.decision, verdict.rule, where + stands + verdict.reason)

    def _by_layer(self, layer: RuleSet, argv: Argv, risk: Risk, in_line: bool, required: bool) -> Verdict:
        entry = layer.find(argv, risk)
        if entry is not None:
            return Verdict(entry.rule.decision, entry.name, _reason(entry, argv))
        if in_line and is_builtin(argv[0]):
            return Verdict("allow", "shell", f"{argv[0]} is part of the shell")
        if not required:
            return Verdict("allow", "default", "no rule of this layer speaks of it")
        return Verdict("deny", f"{layer.name}:default" if layer.name else "default", no_rule(argv, risk, layer))

    def _protected(self, argv: Argv, risk: Risk, walk: _Walk, via: str) -> None:
        if risk is Risk.READ_ONLY:
            return
        if not self._policy.workspace.protected:
            return
        for word in argv[1:]:
            found = _paths_in(word)
            walk.looked_at += len(found)
            if walk.looked_at > MAX_PATHS:
                walk.deny(argv, "limits", "too many words that may be protected paths to be judged", via)
                return
            named = next((p for p in found if any(self._protects(p, folder) for folder in walk.folders)), None)
            if named is not None:
                walk.deny(argv, "workspace.protected", f"{named[:80]!a} is protected: a plan may not change it", via)

    def _protects(self, word: str, folder: str) -> bool:
        try:
            path = paths.resolve(word, folder)
        except paths.PathRefused:
            return False
        return self._policy.workspace.protects(f"{path}/")  # as a folder, which a pattern for files covers as well

    def _file_problem(self, target: str, folders: list[str]) -> str | None:
        """Return why a line may not write this file, or None."""
        if target.startswith("/tmp/") and ".." not in target.split("/"):
            return None
        try:
            found = [paths.resolve(target, folder) for folder in folders]
        except paths.PathRefused as refused:
            return refused.message
        if any(self._policy.workspace.protects(path) for path in found):
            return f"{target[:80]!a} is protected: a plan may not change it"
        return None


def _paths_in(word: str) -> list[str]:
    """Return the paths that a word may name: itself, what follows a `=`, and what may be attached to an option.

    Which letters of `-uoMakefile` are options is the program's own business: every end of the word counts, if only
    letters and digits are before it. An end that is too long for a path is none.
    """
    tail = word[-paths.MAX_PATH_BYTES :]
    found = [word, *(tail[at + 1 :] for at, char in enumerate(tail) if char == "=")]
    letters = re.match(r"-[A-Za-z0-9]*", word)  # of a long option, the first dash alone
    end = letters.end() if letters else 0
    return found + [word[at:] for at in range(max(2, len(word) - paths.MAX_PATH_BYTES), min(end + 1, len(word)))]


def _program_problem(program: str) -> str | None:
    if isinstance(program, Dynamic):
        return "which program this is, is known only when it runs; name it"
    if "/" in program:
        name = ascii(program.rsplit("/", 1)[1][:80])
        if program.startswith("/"):
            return f"{program[:80]!a} is a path; name the program alone, such as {name}"
        interpreter = "python3" if program.endswith(".py") else "sh"
        return f"{program[:80]!a} is a path; a script stands after its interpreter: {interpreter} {program[:80]!a}"
    if PROGRAM_NAME.fullmatch(program) is None:
        return f"{program[:80]!a} is not the name of a program"
    return None


def _reason(entry: Entry, argv: Argv) -> str:
    if entry.rule.reason:
        return entry.rule.reason
    if entry.rule.decision == "allow":
        return f"the rule {entry.pattern.text!r} allows it"
    word = "denies" if entry.rule.decision == "deny" else "asks about"
    return f"the rule {entry.pattern.text!r} {word} {shown(argv, 80)}"
