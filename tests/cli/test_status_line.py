"""The status line: in place at a terminal, plain lines elsewhere."""

import os
import pty
import subprocess
import sys

from mindx.cli.status_line import last_line

PROGRAM = """
import threading
from mindx.cli import status_line
status_line.TICK_S = status_line.SHOWN_AFTER_S = 0.01
with status_line.StatusLine() as tell:
    tell("one \\x1b[31mred")
    drawn = threading.Event()
    draw = status_line._draw
    def seen(line):
        draw(line)
        drawn.set()
    status_line._draw = seen
    assert drawn.wait(20)
    tell("two")
print("done")
"""


def test_elsewhere_each_step_is_a_line():
    program = (
        "from mindx.cli.status_line import StatusLine\nwith StatusLine() as tell:\n    tell('one')\n    tell('two')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "one\ntwo\n")


def test_at_a_terminal_there_is_one_line_and_nothing_is_left():
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "60"}
    env.pop("NO_COLOR", None)
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=env, text=True) as process:
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 4096):
                seen += piece
        except OSError:  # the other side is closed
            pass
        out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert (process.returncode, out) == (0, "done\n")
    assert b"\n" not in seen
    assert b"\x1b[31m" not in seen, "what a program says cannot colour our line"
    assert b" s  one" in seen
    assert seen.endswith(b"two\r\x1b[2K")


def at_a_terminal(command, cwd, env, answers=()):
    """Run a command whose stderr and stdin are a terminal; return its exit code and what was shown there.

    Each of `answers` is a text to wait for, and what is typed then.
    """
    ours, theirs = pty.openpty()
    waiting = list(answers)
    with subprocess.Popen(command, cwd=cwd, env=env, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 4096):
                seen += piece
                if waiting and waiting[0][0] in seen:
                    os.write(ours, waiting.pop(0)[1])
        except OSError:  # the other side is closed
            pass
        process.communicate(timeout=60)
    os.close(ours)
    return process.returncode, seen


SLOW = "import sys, time; print('a\\x1b]0;title\\x07 word', flush=True); time.sleep(1.3); print('the end')"


def coder(**params):
    return {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "run", **params}}


def test_a_step_shows_its_last_line_while_it_runs(engine_mindx):
    """What the program says is seen before it has ended, with the seconds, and harmless; nothing of it stays."""
    plan = engine_mindx.plan([coder(argv=["python3", "-c", SLOW])])
    env = {**engine_mindx.env, "TERM": "xterm", "COLUMNS": "200"}
    env.pop("NO_COLOR")
    code, seen = at_a_terminal([sys.executable, "-m", "mindx.cli.main", "run", plan], engine_mindx.folder, env)
    assert code == 0
    while_it_ran, _, after = seen.partition(b"SUCCESS")
    assert b" word" in while_it_ran
    assert b"... 1 s  a" in while_it_ran
    assert b"\x1b]0;" not in seen
    assert b"the end" in after
    last = while_it_ran.rpartition(b"\r\x1b[2K")[2]  # the line was taken away before the result came
    assert last.startswith(b"[1/1] run python3")
    assert b" word" not in last.partition(b"print")[0]


def test_the_last_line_is_the_last_that_says_something():
    assert last_line(b"one\ntwo\n\n  \n") == "two"
    assert last_line(b"10 %\r20 %\r") == "20 %"
    assert last_line(b"") == ""
    assert "\x1b" not in last_line(b"\x1b[31mred\x9b\xff")
