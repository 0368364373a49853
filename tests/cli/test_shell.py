"""`shell`: SimpleCoder typed, from standard input and at a real terminal."""

import asyncio
import fcntl
import json
import os
import pty
import select
import termios
import time

import pytest

from mindx.cli.shell import prompt
from mindx.tools.simple_coder_line import parse_line
from mindx.tools.simple_coder_state import CoderState


def documents(text: str):
    """Return the JSON documents that follow each other."""
    decoder = json.JSONDecoder()
    found, text = [], text.strip()
    while text:
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:].strip()
    return found


def test_the_prompt_shows_place_and_venv():
    assert prompt(CoderState()) == ". $ "
    state = CoderState(cwd="/workspace/app", venv="/workspace/app/.venv")
    assert prompt(state) == "(.venv) ./app $ "
    assert "\x1b" not in prompt(CoderState(cwd="/workspace/\x1b[2J"))


def test_lines_of_standard_input(engine_mindx):
    lines = [
        "mkdir app",
        "cd app",
        "write a.txt hello world",
        "read a.txt",
        "",
        "run cat a.txt",
        "run false",
        "no_such_command",
        "write 'open",
        "rm a.txt",
        "toggle_autonomous_mode",
        "rm a.txt",
        "exit",
        "mkdir never",
    ]
    done = engine_mindx("shell", "--autonomous", stdin="\n".join(lines).encode())
    assert done.code == 1, done.err
    found = documents(done.out)
    assert [item["status"] for item in found] == [
        "SUCCESS", "SUCCESS", "SUCCESS", "SUCCESS", "SUCCESS", "FAILURE", "ERROR", "SUCCESS", "SUCCESS", "ERROR",
    ]  # fmt: skip
    assert found[3]["content"] == "hello world"
    assert {(item["policy"]["name"], len(item["policy"]["sha256"])) for item in found} == {("default", 64)}
    assert all(isinstance(item["accepted_gaps"], list) for item in found)
    assert (found[4]["return_code"], found[4]["stdout"]) == (0, "hello world")
    assert "quote" in done.err
    result = engine_mindx("runs", "show", "last", "--json").json
    assert [change["path"] for change in result["changes"]] == ["app"]
    assert len(result["steps"]) == 10
    assert result["outcome"] == "failed"


def test_piped_lines_that_all_succeed_end_well_and_one_that_is_no_call_does_not(engine_mindx):
    assert engine_mindx("shell", stdin=b"mkdir a\nls\n").code == 0
    assert engine_mindx("shell", stdin=b"ls\nwrite 'open\n").code == 1


def test_piped_text_does_not_grant_autonomous_mode(engine_mindx):
    done = engine_mindx("shell", stdin=b"write x 1\ntoggle_autonomous_mode\nrm x\n")
    assert done.code == 1
    written, toggled, removed = documents(done.out)
    assert written["status"] == "SUCCESS"
    assert (toggled["status"], removed["status"]) == ("ERROR", "ERROR")
    for denied in (toggled, removed):
        assert "only a person at a terminal, or --autonomous" in denied["message"]


def test_a_policy_that_says_never_refuses_the_toggle(engine_mindx):
    (engine_mindx.folder / "never.yaml").write_text("version: 1\nautonomous: never\n")
    done = engine_mindx("shell", "--policy", "never.yaml", "--autonomous", stdin=b"toggle_autonomous_mode\n")
    assert done.code == 1
    assert documents(done.out)[0]["message"].endswith("the policy says `autonomous: never`")


def own_terminal():
    """Make standard input the controlling terminal, so that Ctrl-C is a signal there."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """A person at a pseudo-terminal."""

    def __init__(self, mindx, *arguments):
        self.master, slave = pty.openpty()
        env = {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        streams = {"stdin": slave, "stdout": slave, "stderr": slave}
        self.process = mindx.start(*arguments, **streams, env=env, preexec_fn=own_terminal)
        os.close(slave)
        self.seen = b""

    def expect(self, text: bytes, seconds: float = 40.0) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.master], [], [], 0.2)[0]:
                self.seen += os.read(self.master, 65536)
        self.seen = self.seen[self.seen.index(text) + len(text) :]

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def close(self) -> int:
        try:
            return self.process.wait(40)
        finally:
            if self.process.poll() is None:
                self.process.kill()
            os.close(self.master)


@pytest.mark.timeout(110)
def test_at_a_terminal(engine_mindx):
    terminal = Terminal(engine_mindx, "shell")
    terminal.expect(b". $")
    terminal.type("mkdir app\r")
    terminal.expect(b"created")
    terminal.type("ls a\t")  # names come from the container
    terminal.expect(b"pp/")
    terminal.type("\x15")
    terminal.type("python3 -V\r")  # what people type first; the shell is no bash
    terminal.expect(b"a program is started with `run`")
    terminal.type("rm x\r")
    terminal.expect(b"toggle_autonomous_mode switches it on")
    terminal.type("cd app\r")
    terminal.expect(b"./app $")
    terminal.type("dropped\x03")  # Ctrl-C at the prompt drops the line
    terminal.expect(b"./app $")
    terminal.type("run printf '\\033[2Jdone'\r")
    terminal.expect(b"\\x1b[2Jdone")
    terminal.expect(b"./app $")
    terminal.type("run sleep 60\r")
    engine_mindx.watched("sleep 60")
    terminal.type("\x03")  # Ctrl-C during a command ends that command alone
    terminal.expect(b"cancelled")
    terminal.expect(b"./app $")
    terminal.type("\x1b[A\x1b[A\r")  # the history: not the sleep, the printf before it
    terminal.expect(b"\\x1b[2Jdone")
    terminal.expect(b"./app $")
    terminal.type("\x04")
    assert terminal.close() == 0
    assert (engine_mindx.state / "shell_history").stat().st_mode & 0o777 == 0o600
    assert "run sleep 60" in (engine_mindx.state / "shell_history").read_text()


TREE = {
    ".": [("app", True), ("my notes.txt", False), (".git", True), ("\x1b[2J", False), ("a'b", False)],
    "app/": [("main.py", False), ("lib", True)],
}


def offered(text):
    """Return what Tab makes of a line."""
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from mindx.cli.shell_completion import ShellCompleter

    async def names(folder):
        return TREE.get(folder, ())

    async def asked():
        completer = ShellCompleter(names)
        found = completer.get_completions_async(Document(text), CompleteEvent())
        return {text[: len(text) + one.start_position] + one.text async for one in found}

    return asyncio.run(asked())


def test_tab_offers_the_commands():
    assert offered("s") >= {"search", "start", "stop"}
    assert offered("help env_") == {"help env_set", "help env_unset", "help env_list"}
    assert offered("env_set fi") == offered("help ls fi") == set()


def test_tab_offers_names_of_the_workspace():
    """What is offered can be typed and means that name: quoted where need be, never a control sequence."""
    assert offered("read ") == {"read app/", "read 'my notes.txt'", "read 'a'\"'\"'b'"}
    assert offered("read app/m") == {"read app/main.py"}
    assert offered("cd ") == {"cd app/"}
    assert offered("ls .") == {"ls .git/"}
    assert offered("read 'my n") == offered("read my") == {"read 'my notes.txt'"}
    assert offered("run python3 app/") == {"run python3 app/main.py", "run python3 app/lib/"}
    assert offered("search words ap") == {"search words app/"}
    assert offered("search ap") == offered("read a b") == offered("poll a") == set()
    for line in offered("read "):
        assert parse_line(line)["path"] in {"app/", "my notes.txt", "a'b"}
