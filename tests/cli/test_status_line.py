"""The status line: in place at a terminal, plain lines elsewhere."""

import os
import pty
import subprocess
import sys

PROGRAM = """
import threading
from mindx.cli import status_line
status_line.TICK_S = status_line.SHOWN_AFTER_S = 0.01
with status_line.StatusLine() as tell:
    tell("one \\x1b[31mred")
    drawn = threading.Event()
    draw = status_line.StatusLine._draw
    def seen(self):
        draw(self)
        drawn.set()
    status_line.StatusLine._draw = seen
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
