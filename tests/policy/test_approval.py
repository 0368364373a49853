import asyncio
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mindx.core.command import Command, Exec, Terminal, WriteFile
from mindx.core.verdict import Verdict
from mindx.errors import InputError
from mindx.policy.approval import (
    Approval,
    ApprovalRequest,
    Approvals,
    answers_from,
    argv_of,
    command_digest,
)
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import parse_policy

PUSH = Exec(("git", "push"))
TEXT = "version: 1\ncommands: [{allow: [git, cp]}, {ask: git push, reason: it leaves}, {ask: cp}, {deny: git fetch}]\n"


@dataclass
class Person:
    """Answers in turn, and remembers what was asked."""

    answers: list[Approval]
    asked: list[ApprovalRequest] = field(default_factory=list)

    async def ask(self, request: ApprovalRequest) -> Approval:
        self.asked.append(request)
        return self.answers.pop(0)


def approvals(*answers: Approval, text: str = TEXT) -> tuple[Approvals, Person]:
    engine = PolicyEngine(parse_policy(text.encode(), source="t").policy, autonomous=False)
    person = Person(list(answers))
    return Approvals(engine, person), person


def decide(one: Approvals, command: Command) -> tuple[Verdict, Command]:
    return asyncio.run(one.decide(command))


def test_allow_and_deny_ask_nobody() -> None:
    one, person = approvals()
    assert decide(one, Exec(("git", "log")))[0].decision == "allow"
    assert decide(one, Exec(("git", "fetch")))[0].decision == "deny"
    assert person.asked == []


def test_a_person_sees_what_it_is_about() -> None:
    one, person = approvals(Approval("once"))
    assert decide(one, replace(PUSH, cwd="/workspace/a"))[0].decision == "allow"
    (request,) = person.asked
    assert (request.argv, request.cwd, request.risk) == (("git", "push"), "/workspace/a", "dangerous")
    assert (request.rule, request.reason) == ("commands[1]", "it leaves")


def test_once_is_once_and_session_is_for_the_same_words_only() -> None:
    one, person = approvals(Approval("once"), Approval("session"), Approval("deny", "not there"))
    assert decide(one, PUSH)[0].allowed
    assert decide(one, PUSH)[0].allowed
    assert decide(one, PUSH)[0].reason == "allowed for this session"
    verdict, _ = decide(one, Exec(("git", "push", "origin")))
    assert (verdict.decision, verdict.reason) == ("deny", "not there")
    assert len(person.asked) == 3


def test_what_is_no_answer_is_no_yes() -> None:
    word: Any = "yes"
    one, _ = approvals(Approval(word))
    assert decide(one, PUSH)[0].decision == "deny"


def test_a_policy_can_forbid_remembering() -> None:
    one, person = approvals(Approval("session"), Approval("deny"), text=TEXT + "approvals: {remember: never}\n")
    assert decide(one, PUSH)[0].allowed
    assert decide(one, PUSH)[0].decision == "deny"
    assert len(person.asked) == 2


def test_changed_arguments_are_judged_anew() -> None:
    fetch, log, copy = Exec(("git", "fetch")), Exec(("git", "log")), Exec(("cp", "a"))
    one, _ = approvals(
        Approval("once", command=fetch), Approval("session", command=log), Approval("session", command=copy)
    )
    assert decide(one, PUSH)[0].decision == "deny"
    assert decide(one, PUSH) == (one.engine.judge(log), log)
    verdict, command = decide(one, PUSH)
    assert (verdict.decision, command) == ("allow", copy)
    assert one.remembered == set()


def test_the_digest_is_of_everything_that_decides() -> None:
    variants: list[Command] = [
        PUSH,
        Exec(("git push",)),
        replace(PUSH, cwd="/workspace/a"),
        replace(PUSH, env={"A": "b"}),
        replace(PUSH, stdin=b"x"),
        replace(PUSH, executable="/workspace/v/bin/python"),
        replace(PUSH, terminal=Terminal()),
        WriteFile("/workspace/a", b"x"),
        WriteFile("/workspace/a", b"y"),
        WriteFile("/workspace/a", b"y", mode=0o600),
    ]
    assert len({command_digest(command) for command in variants}) == len(variants)
    assert command_digest(PUSH) == command_digest(replace(PUSH, timeout_s=5.0))
    sizes = {command_digest(replace(PUSH, terminal=Terminal(rows))) for rows in (24, 25)}
    assert len(sizes) == 1


def test_without_anybody_to_ask_it_is_a_denial_that_says_so() -> None:
    engine = PolicyEngine(parse_policy(TEXT.encode(), source="t").policy, autonomous=False)
    verdict, _ = decide(Approvals(engine), PUSH)
    assert verdict.decision == "deny"
    assert "--approve-from" in verdict.reason


def answers(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "answers.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_file_of_answers(tmp_path: Path) -> None:
    path = answers(
        tmp_path,
        "- {command: git push, answer: once}\n"
        "- {argv: [git, push, 'a b'], answer: deny, feedback: ask me first}\n"
        "- {command: git push x, cwd: /workspace/a, answer: session}\n",
    )
    engine = PolicyEngine(parse_policy(TEXT.encode(), source="t").policy, autonomous=False)
    one = Approvals(engine, answers_from(path))
    assert decide(one, PUSH)[0].allowed
    assert decide(one, Exec(("git", "push", "a b")))[0].reason == "ask me first"
    assert decide(one, Exec(("git", "push", "x"), cwd="/workspace/a"))[0].allowed
    assert "no answer" in decide(one, Exec(("git", "push", "x")))[0].reason
    assert "with input" in decide(one, replace(PUSH, stdin=b"x"))[0].reason


@pytest.mark.parametrize(
    "command",
    [
        replace(PUSH, stdin=b"x"),
        replace(PUSH, env={"A": "b"}),
        replace(PUSH, executable="/workspace/bin/git"),
        replace(PUSH, terminal=Terminal()),
        WriteFile("/workspace/a", b"x"),
    ],
)
def test_what_words_do_not_show_is_answered_by_digest_only(tmp_path: Path, command: Command) -> None:
    def ask(text: str) -> Approval:
        request = ApprovalRequest(command, command_digest(command), "write", "r", "why")
        return asyncio.run(answers_from(answers(tmp_path, text)).ask(request))

    words = f"argv: {json.dumps(argv_of(command))}, answer: once"
    plain = ask(f"- {{{words}}}\n")
    assert plain.choice == "deny"
    assert f"sha256: {command_digest(command)}" in plain.feedback
    assert ask(f"- {{{words}, sha256: '{'0' * 64}'}}\n").choice == "deny"
    assert ask(f"- {{{words}, sha256: '{command_digest(command)}'}}\n").choice == "once"


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "- git push\n",
        "- {command: git push, answer: yes}\n",
        "- {command: git push, answer: once, for: ever}\n",
        "- {answer: once}\n",
        "- {command: git push, answer: once, sha256: ''}\n",
        "- {command: git push, answer: once, sha256: abc}\n",
        "- {argv: [], answer: once}\n",
        "- {argv: [[a]], answer: once}\n",
        '- {command: "git \'push", answer: once}\n',
        "- {command: git push, answer: once}\n- {argv: [git, push], answer: deny}\n",
        "- {command: git push, answer: once, answer: deny}\n",
        "- {command: git push, answer: once, cwd: [a]}\n",
        "",
    ],
)
def test_a_file_of_answers_that_is_not_understood_whole_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as caught:
        answers_from(answers(tmp_path, text))
    assert caught.value.code == "answers_invalid"
