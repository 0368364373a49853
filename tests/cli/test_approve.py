"""Approvals on the command line: a person at a real terminal, a file of answers, or nobody."""

import json

import pytest

from mindx.cli.approve import request_lines, shown_word
from mindx.core.command import Exec
from mindx.core.command import Terminal as TerminalSize
from mindx.policy.approval import ApprovalRequest
from mindx.trace.read import read
from mindx.trace.run_folder import RunStore
from tests.workspace.terminal import MINDX, Terminal, environment

POLICY = "version: 1\ncommands:\n  - allow: [echo]\n  - {ask: git, reason: git is asked about}\n  - deny: git push\n"
QUESTION = "deny with [f]eedback? "


def run(*argv, **params):
    return {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "run", "argv": argv, **params}}


@pytest.fixture
def asks(engine_mindx):
    """mindx in a folder with a policy that asks about git."""
    return with_policy(engine_mindx)


def with_policy(mindx):
    path = mindx.folder / "policy.yaml"
    path.write_text(POLICY)
    path.chmod(0o600)
    return mindx


def at_terminal(mindx, words, before=""):
    """Start mindx at a terminal, in its folder, after what the shell does `before`."""
    script = f'cd "$0"; {before} exec {" ".join(MINDX)} {words}'
    return Terminal(["/bin/sh", "-c", script, str(mindx.folder)], environment(mindx.state))


def newest(mindx):
    folder = next(iter(RunStore(mindx.state / "runs").runs()))
    return json.loads(folder.result_path.read_text()), [event.kind for event in read(folder.trace_path)]


def answers(mindx, text):
    path = mindx.folder / "answers.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return path.name


def test_a_person_sees_the_command_and_says_yes_and_no(asks):
    evil = "a\x1b[2Jb"
    plan = asks.plan([run("git", "--version"), run("git", "config", evil)])
    terminal = at_terminal(asks, f"run {plan} --policy policy.yaml")
    shown = terminal.answer(QUESTION, "o")
    assert "program    git" in shown
    assert "arguments  --version" in shown
    assert "directory  /workspace" in shown
    assert "reason     git is asked about" in shown
    assert "[o]nce, for this [s]ession, [d]eny" in shown
    shown = terminal.answer(QUESTION, "f")
    assert "git version 2" in shown
    assert r"config $'a\x1b[2Jb'" in shown
    assert evil not in shown
    terminal.answer("Feedback for the plan's author: ", "leave the configuration alone")
    assert terminal.end() == 3
    assert evil not in terminal.shown
    result, kinds = newest(asks)
    assert [step["status"] for step in result["steps"]] == ["SUCCESS", "DENIED"]
    assert result["steps"][0]["message"] == "a person said yes"
    assert "leave the configuration alone" in result["steps"][1]["message"]
    assert kinds.count("approval_received") == 2


def test_for_the_session_and_other_words_and_the_end_of_input(asks):
    plan = asks.plan([run("git", "--version"), run("git", "--version"), run("git", "--help")])
    terminal = at_terminal(asks, f"run {plan} --policy policy.yaml")
    terminal.answer(QUESTION, "what?")
    terminal.answer(QUESTION, "s")
    assert "arguments  --help" in terminal.expect(QUESTION)
    terminal.type("\x04")
    assert terminal.end() == 3
    result, kinds = newest(asks)
    assert [step["status"] for step in result["steps"]] == ["SUCCESS", "SUCCESS", "DENIED"]
    assert result["steps"][1]["message"] == "allowed for this session"
    assert "nobody answered" in result["steps"][2]["message"]
    assert kinds.count("approval_requested") == 2


def test_the_plans_own_input_answers_nothing_and_ctrl_c_cancels(asks):
    plan = asks.plan([run("git", "--version"), run("git", "--help")])
    terminal = at_terminal(asks, f"run - --policy policy.yaml <{plan}")
    terminal.answer(QUESTION, "o")
    terminal.expect(QUESTION)
    terminal.type("\x03")
    assert terminal.end() == 130
    result, _ = newest(asks)
    assert result["outcome"] == "cancelled"
    assert [step["status"] for step in result["steps"]] == ["SUCCESS", "CANCELLED"]


def test_what_was_typed_before_the_question_is_no_answer(asks):
    plan = asks.plan([run("git", "--version")])
    terminal = at_terminal(asks, f"run {plan} --policy policy.yaml", before="echo ready; read line;")
    terminal.expect("ready")
    terminal.type("\no\no\no\n")
    terminal.answer(QUESTION, "d")
    assert terminal.end() == 3
    assert newest(asks)[0]["steps"][0]["status"] == "DENIED"


def test_exec_and_shell_ask_too(asks):
    terminal = at_terminal(asks, "exec --policy policy.yaml -- git --version")
    terminal.answer(QUESTION, "o")
    terminal.expect("git version 2")
    assert terminal.end() == 0
    terminal = at_terminal(asks, "shell --policy policy.yaml")
    terminal.answer("$", "run git --version")
    terminal.answer(QUESTION, "d")
    terminal.expect("a person said no")
    terminal.answer("$", "exit")
    assert terminal.end() == 0


def test_a_file_of_answers_allows_denies_and_lacks(asks):
    file = answers(
        asks,
        "- {command: git --version, answer: once}\n- {command: git log, answer: deny, feedback: there is no log}\n",
    )
    plan = asks.plan([run("git", "--version"), run("git", "log"), run("git", "status"), run("echo", "x")])
    done = asks("run", plan, "--policy", "policy.yaml", "--approve-from", file, "--keep-going", "--json")
    assert done.code == 3, done.err
    steps = done.json["steps"]
    assert [step["status"] for step in steps] == ["SUCCESS", "DENIED", "DENIED", "SUCCESS"]
    assert "there is no log" in steps[1]["message"]
    assert "answers.yaml has no answer for this command" in steps[2]["message"]
    assert asks("exec", "--policy", "policy.yaml", "--approve-from", file, "--", "git", "--version").code == 0
    assert asks("exec", "--policy", "policy.yaml", "--approve-from", file, "--", "git", "log").code == 126


@pytest.mark.parametrize("text", ["- {command: git, answer: maybe}\n", "{}\n"])
def test_answers_that_are_not_understood_are_bad_input(mindx, text):
    plan = with_policy(mindx).plan([run("git", "--version")])
    done = mindx("run", plan, "--policy", "policy.yaml", "--approve-from", answers(mindx, text))
    assert done.code == 2
    assert "answers.yaml" in done.err


def test_without_anybody_it_is_denied_before_a_container_exists(mindx):
    plan = with_policy(mindx).plan([run("git", "--version")])
    nowhere = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    done = mindx("run", plan, "--policy", "policy.yaml", env=nowhere)
    assert done.code == 3
    assert "--approve-from FILE" in done.err
    done = mindx("exec", "--policy", "policy.yaml", "--", "git", "--version", env=nowhere)
    assert done.code == 126
    assert "--approve-from FILE" in done.err


def test_check_says_what_asks(mindx):
    plan = with_policy(mindx).plan([run("echo", "x"), run("git", "--version")])
    done = mindx("check", plan, "--policy", "policy.yaml")
    assert done.code == 0
    assert "asks: git is asked about" in done.out
    assert "if a person says yes to what asks (1)" in done.out
    steps = mindx("check", plan, "--policy", "policy.yaml", "--json").json["steps"]
    assert [step["verdict"] for step in steps] == ["ok", "asks"]


def test_what_decides_is_shown_whole():
    command = Exec(("git", "a b", ""), env={"A": "x\ny"}, stdin=b"one\ntwo\x1b[m\n", executable="/workspace/v/bin/git")
    text = "\n".join(request_lines(ApprovalRequest(command, "", "write", "commands[1]", "why\r\x1b[A")))
    for part in ("'a b' ''", r"A=$'x\ny'", "one", r"two\x1b[m", "/workspace/v/bin/git", "write", "commands[1]"):
        assert part in text
    assert "\x1b[A" not in text
    assert "\r" not in text
    assert "  terminal " not in text
    command = Exec(("git",), terminal=TerminalSize())
    assert "  terminal " in "\n".join(request_lines(ApprovalRequest(command, "", "write", "commands[1]", "why")))


def test_words_that_differ_never_look_the_same():
    words = [
        "a",
        "a b",
        "a' 'b",
        "\x1b",
        "\\x1b",
        "$'\\x1b'",
        "a\nb",
        "a\\nb",
        "\u202e",
        "\\u202e",
        "'",
        "\n'",
        "\udcff",
    ]
    assert len({shown_word(word) for word in words}) == len(words)
    assert all(shown_word(word).isprintable() for word in words)
