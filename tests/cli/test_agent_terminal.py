"""`mindx chat` and `agent` with a person at the terminal: approvals and questions in place, Ctrl-C, Ctrl-D."""

import json

import pytest

from tests.cli.test_shell import Terminal

ECHO = {"calls": [{"name": "exec_command", "arguments": {"command": ["echo", "pushed"]}}]}
POLICY = "version: 1\ncommands: [{allow: sleep}, {ask: echo, reason: it speaks}]\n"
ASK = {"calls": [{"name": "mindx_ask_user", "arguments": {"question": "Which \u001b[2Jcolour?"}}]}
SLEEP = {"calls": [{"name": "exec_command", "arguments": {"command": ["sleep", "200"], "timeout_seconds": 300}}]}


def write(mindx, *turns):
    (mindx.folder / "turns.jsonl").write_text("".join(f"{json.dumps(turn)}\n" for turn in turns))
    return "turns.jsonl"


@pytest.mark.timeout(110)
def test_a_conversation_at_a_terminal(engine_mindx):
    (engine_mindx.folder / "asks.yaml").write_text(POLICY)
    del engine_mindx.env["NO_COLOR"]
    turns = write(engine_mindx, ECHO, "I will not.", ECHO, "I did.", ASK, "Blue it is.", SLEEP, "Bye.")
    terminal = Terminal(engine_mindx, "chat", "--policy", "asks.yaml", "--script", turns)
    terminal.expect(b">")
    terminal.type("push it\r")
    terminal.expect(b"wants to use exec_command")
    terminal.expect(b"Do it?")
    terminal.type("n\r")
    terminal.expect(b"DENIED")
    terminal.expect(b"I will not.")
    terminal.expect(b">")
    terminal.type("do\r")
    terminal.expect(b"Do it?")
    terminal.type("y\r")
    terminal.expect(b"\x1b[32mSUCCESS")  # a colour that the terminal shows, and not its letters
    terminal.expect(b"I did.")
    terminal.expect(b">")
    terminal.type("paint\r")
    terminal.expect(b"Which \\x1b[2Jcolour?")
    terminal.expect(b"answer:")
    terminal.type("blue\r")
    terminal.expect(b"Blue it is.")
    terminal.expect(b">")
    terminal.type("wait\r")
    engine_mindx.watched('["sleep", "200"]')  # the decision; it begins at once
    terminal.type("\x03")
    terminal.expect(b"stopped")
    terminal.expect(b">")
    terminal.type("bye\r")
    terminal.expect(b"Bye.")
    terminal.expect(b">")
    terminal.type("\x04")
    assert terminal.close() == 0


@pytest.mark.timeout(110)
def test_a_goal_at_a_terminal(mindx):
    terminal = Terminal(mindx, "agent", "--mind", "react", "paint it", "--script", write(mindx, ASK, "No colour then."))
    terminal.expect(b"colour?")
    terminal.expect(b"answer:")
    terminal.type("\x04")
    terminal.expect(b"No colour then.")
    assert terminal.close() == 0


@pytest.mark.timeout(110)
def test_an_agent_with_goals_asks_in_place(engine_mindx):
    """A question of its plan, and the yes to what the policy asks about; the time it takes counts for no budget."""
    (engine_mindx.folder / "asks.yaml").write_text(POLICY)
    coder = {"tool_id": "simple_coder", "command": "run", "cmdline": "echo blue"}
    plan = [
        {"type": "ASK_USER", "params": {"question": "Which \x1b[2Jcolour?"}},
        {"type": "UPDATE_BELIEF", "params": {"key": "colour", "value": {"$ref": "steps.1.result.answer"}}},
        {"type": "EXECUTE_TOOL", "params": coder},
    ]
    turns = write(engine_mindx, json.dumps({"plan": plan, "complete": True}), "Blue it is.")
    terminal = Terminal(engine_mindx, "agent", "paint it", "--policy", "asks.yaml", "--script", turns)
    terminal.expect(b"Which \\x1b[2Jcolour?")
    terminal.expect(b"answer:")
    terminal.type("blue\r")
    terminal.expect(b"wants to use simple_coder")
    terminal.expect(b"Do it?")
    terminal.type("y\r")
    terminal.expect(b"GOAL_ACHIEVED")
    terminal.expect(b"Blue it is.")
    assert terminal.close() == 0
    assert engine_mindx("beliefs", "show", "colour", "--json").json["belief"]["value"] == "blue"
