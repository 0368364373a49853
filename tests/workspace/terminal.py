"""A real pseudo-terminal with a person at it, who reads what comes and answers."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

DEADLINE_S = 30.0
MINDX = [sys.executable, "-m", "mindx.cli.main"]


def environment(state: Path) -> dict[str, str]:
    known = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    return known | {"MINDX_STATE_DIR": str(state), "TERM": "xterm", "LANG": "C.UTF-8"}


def mindx(state: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run mindx without a terminal."""
    env = environment(state) | variables
    return subprocess.run([*MINDX, *words], env=env, capture_output=True, text=True, input="", check=False, timeout=60)


def _own_terminal() -> None:
    """Make standard input the terminal that controls the process, so that Ctrl-C is a signal, and not ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # tests in a shell's background inherit that it is
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """One command in a terminal. Everything that it prints is kept in `shown`."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            list(words), stdin=slave, stdout=slave, stderr=slave, env=dict(env), preexec_fn=_own_terminal
        )
        os.close(slave)
        self.shown = ""
        self._read_to = 0

    def expect(self, text: str) -> str:
        """Wait until `text` comes; return what came since the last time."""
        until = time.monotonic() + DEADLINE_S
        while text not in self.shown[self._read_to :]:
            if not self._more(until):
                raise AssertionError(f"{text!r} never came, it ended with {self.end()}:\n{self.shown}")
        end = self.shown.index(text, self._read_to) + len(text)
        piece, self._read_to = self.shown[self._read_to : end], end
        return piece

    def answer(self, question: str, line: str) -> str:
        """Wait for a question and answer it; return what was shown before."""
        piece = self.expect(question)
        self.type(line + "\n")
        return piece

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def end(self) -> int:
        """Wait for the end and return the exit code."""
        until = time.monotonic() + DEADLINE_S
        while self._more(until):
            pass
        os.close(self._master)
        return self._process.wait(timeout=DEADLINE_S)

    def _more(self, until: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            self._process.kill()
            self._process.wait()
            os.close(self._master)
            raise AssertionError(f"nothing came for {DEADLINE_S:g} s:\n{self.shown}")
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other end was closed
            return False
        self.shown += data.decode("utf-8", "backslashreplace")
        return bool(data)


def at_terminal(state: Path, *words: str) -> Terminal:
    """Start mindx at a terminal."""
    return Terminal([*MINDX, *words], environment(state))
