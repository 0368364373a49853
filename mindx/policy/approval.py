"""Approvals: the verdict `ask` stops before the action, until a person, or a file of answers, says yes or no.

The answer is about one exact command: the digest of its argv, directory, variables, input, executable and terminal or
none. It never covers a program as such, and the plan's own words never decide. Whoever asks stops the clocks of the run
meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from mindx.core.command import WORKSPACE, Command, Exec
from mindx.core.frozen import dataclass
from mindx.core.verdict import Verdict
from mindx.errors import InputError
from mindx.policy.document import read_document
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import read_policy_file

Choice = Literal["once", "session", "deny"]
_DIGEST = re.compile(r"[0-9a-f]{64}")
NOBODY = "nobody can be asked here; run at a terminal, or give answers with --approve-from FILE"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a person is shown: the Command, its digest, its risk (as a policy writes it), the rule and its reason.

    `may_remember` is False when the policy wants each yes to count once.
    """

    command: Command
    digest: str
    risk: str
    rule: str
    reason: str
    may_remember: bool = True

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the arguments; for a file operation its name and path."""
        return argv_of(self.command)

    @property
    def cwd(self) -> str:
        """Return the directory that the command starts in."""
        return self.command.cwd if isinstance(self.command, Exec) else WORKSPACE


@dataclass(frozen=True, slots=True)
class Approval:
    """An answer. `feedback` is for the planner; `command`, if given, runs instead, after it was judged anew."""

    choice: Choice
    feedback: str = ""
    command: Command | None = None


class Approver(Protocol):
    """Who is asked. A request that cannot be answered is a denial with a feedback that says so."""

    async def ask(self, request: ApprovalRequest) -> Approval:
        """Return the answer to one request."""
        ...


class NobodyToAsk:
    """The approver without a terminal: deny."""

    async def ask(self, request: ApprovalRequest) -> Approval:
        """Return a denial that says what to do."""
        return Approval("deny", NOBODY)


@dataclass(frozen=True, slots=True)
class Answers:
    """The approver of `--approve-from FILE`: exact commands with their answers, by argv, cwd and digest ("": none).

    Any other command is denied. Input, variables, another executable and a file's content decide what a command does
    too, and words do not show them: such a command has an answer only when that names its digest.
    """

    answers: Mapping[tuple[tuple[str, ...], str, str], Approval]
    source: str = "the file"

    async def ask(self, request: ApprovalRequest) -> Approval:
        """Return the file's answer."""
        found = self.answers.get((request.argv, request.cwd, request.digest))
        hidden = _beyond_words(request.command)
        if found is None and hidden:
            text = f"{self.source} answers for a command with {hidden} only by its digest: sha256: {request.digest}"
            return Approval("deny", text)
        found = found or self.answers.get((request.argv, request.cwd, ""))
        return found or Approval("deny", f"{self.source} has no answer for this command")


@dataclass
class Approvals:
    """The approvals of one session: asks, and remembers what was allowed for the session, by exact digest."""

    engine: PolicyEngine
    approver: Approver = field(default_factory=NobodyToAsk)
    remembered: set[str] = field(default_factory=set)

    async def decide(self, command: Command) -> tuple[Verdict, Command]:
        """Return the final Verdict, allow or deny, and the Command it is about: the one given, or a modified one.

        A modified Command is judged like any other; if it needs a yes of its own, the answer that brought it counts
        for it once.
        """
        explanation = self.engine.explain(command)
        verdict = explanation.verdict
        if verdict.decision != "ask":
            return verdict, command
        digest = command_digest(command)
        if digest in self.remembered:
            return replace(verdict, decision="allow", reason="allowed for this session"), command
        may_remember = self.engine.policy.approvals.remember == "session"
        request = ApprovalRequest(command, digest, explanation.risk.word, verdict.rule, verdict.reason, may_remember)
        answer = await self.approver.ask(request)
        if command_digest(command) != digest:  # somebody holds the same dict of variables, and changed it meanwhile
            return replace(verdict, decision="deny", reason="the command changed while a person decided"), command
        if answer.choice not in ("once", "session"):
            return replace(verdict, decision="deny", reason=answer.feedback or "a person said no"), command
        if answer.command is not None and command_digest(answer.command) != digest:
            return self._modified(answer.command)
        if answer.choice == "session" and may_remember:
            self.remembered.add(digest)
        return replace(verdict, decision="allow", reason="a person said yes"), command

    def _modified(self, command: Command) -> tuple[Verdict, Command]:
        verdict = self.engine.judge(command)
        if verdict.decision == "ask":
            verdict = replace(verdict, decision="allow", reason="a person said yes to these arguments")
        return verdict, command


def argv_of(command: Command) -> tuple[str, ...]:
    """Return what identifies a Command to people: its argv, or the file operation and its path."""
    if isinstance(command, Exec):
        return command.argv
    return (type(command).__name__, command.path)


def _beyond_words(command: Command) -> str:
    """Return what decides a command besides its words and its directory, or ""."""
    if not isinstance(command, Exec):
        return "content" if getattr(command, "data", None) is not None else ""
    parts: dict[str, object] = {"input": command.stdin, "variables": command.env}
    parts |= {"a terminal": command.terminal, "an executable of its own": command.executable}
    return ", ".join(name for name, value in parts.items() if value)


def command_digest(command: Command) -> str:
    """Return the SHA-256 of everything that decides what a Command does."""
    parts: dict[str, Any] = {"kind": type(command).__name__, "argv": argv_of(command)}
    if isinstance(command, Exec):
        parts |= {"cwd": command.cwd, "env": dict(command.env), "executable": command.executable}
        parts["stdin"] = hashlib.sha256(command.stdin).hexdigest()
        if command.terminal is not None:
            parts["terminal"] = True  # whatever its size: what will be typed into it nobody knows yet
    data, mode = getattr(command, "data", None), getattr(command, "mode", None)
    if data is not None:
        parts |= {"data": hashlib.sha256(data).hexdigest(), "mode": mode}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def answers_from(path: Path) -> Answers:
    """Return the approver of a file of answers.

    The file is YAML: a list of `{command: "git push", answer: once|session|deny, cwd: /workspace, feedback: ...}`;
    `argv: [git, push]` may stand for `command`; `sha256:` is the command's digest, which a denial names where it is
    needed. It must be a file that nobody else can write. Raises InputError, code
    answers_invalid.
    """
    source = str(path)
    document = read_document(read_policy_file(source))
    if document.faults:
        first = document.faults[0]
        raise _invalid(source, first.line, first.message)
    if not isinstance(document.value, list):
        raise _invalid(source, 1, "write a list, each item with command and answer")
    answers: dict[tuple[tuple[str, ...], str, str], Approval] = {}
    for index, item in enumerate(document.value):
        line = document.places.get((index,), (None,))[0]
        key, answer = _answer(item, source, line)
        if key in answers:
            raise _invalid(source, line, "this command has an answer already")
        answers[key] = answer
    return Answers(answers, source)


def _answer(item: Any, source: str, line: int | None) -> tuple[tuple[tuple[str, ...], str, str], Approval]:
    if not isinstance(item, dict) or set(item) - {"command", "argv", "answer", "cwd", "sha256", "feedback"}:
        raise _invalid(source, line, "the keys of an answer are command or argv, answer, cwd, sha256 and feedback")
    if item.get("answer") not in ("once", "session", "deny"):
        raise _invalid(source, line, "answer must be once, session or deny")
    argv = item.get("argv")
    if "command" in item and argv is None:
        try:
            argv = shlex.split(str(item["command"] or ""))
        except ValueError:
            raise _invalid(source, line, "the quotes of this command do not match") from None
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        raise _invalid(source, line, "name the command, as command: or as argv: [..]")
    cwd, feedback = item.get("cwd") or WORKSPACE, item.get("feedback") or ""
    if not isinstance(cwd, str) or not isinstance(feedback, str):
        raise _invalid(source, line, "cwd and feedback are plain text")
    digest = item.get("sha256", "")
    if "sha256" in item and not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        raise _invalid(source, line, "sha256 is the command's digest: 64 digits and letters a to f, in quotes")
    return (tuple(argv), cwd, digest), Approval(item["answer"], feedback)


def _invalid(source: str, line: int | None, message: str) -> InputError:
    place = f"{source}:{line}" if line else source
    return InputError("answers_invalid", f"{place}: {message}")
