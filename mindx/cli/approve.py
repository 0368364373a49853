"""Approvals at the terminal: a command is shown whole and harmless, and a person says yes or no."""

from __future__ import annotations

import asyncio
import os
import select
import shlex
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mindx.cli.escape import escape_line
from mindx.cli.prose import colours, styled
from mindx.core.command import Exec
from mindx.core.count import counted
from mindx.core.frozen import dataclass
from mindx.policy.approval import Approval, ApprovalRequest, Approver, answers_from

if TYPE_CHECKING:
    from mindx.cli.status_line import StepLine

TERMINAL = "/dev/tty"
MAX_INPUT_LINES = 20


def approver_for(answers: Path | None, *, stdin_is_free: bool) -> Approver | None:
    """Return who is asked: the file of answers, else a person at the terminal, else nobody (None).

    `stdin_is_free` False keeps standard input for what it brings (a plan, a program's input), even when the terminal
    cannot be opened otherwise. Raises InputError (answers_invalid, policy_unsafe, policy_not_found).
    """
    if answers is not None:
        return answers_from(answers)
    if sys.stderr is None or not sys.stderr.isatty():
        return None  # the question would not be seen
    approver = TerminalApprover(stdin_is_free)
    try:
        with approver.terminal():
            return approver
    except OSError:
        return None


@dataclass(frozen=True)
class TerminalApprover:
    """Asks on standard error and reads the terminal itself, never what standard input brings."""

    stdin_is_free: bool = False

    async def ask(self, request: ApprovalRequest) -> Approval:
        """Return a person's answer; the end of input, and a terminal that cannot be read, are a no."""
        try:
            with self.terminal() as handle:
                return await _asked(request, handle)
        except (OSError, EOFError):
            _say("")
            return Approval("deny", "nobody answered")

    @contextmanager
    def terminal(self) -> Iterator[int]:
        """Give the handle of the terminal. Raises OSError when there is none."""
        try:
            handle = os.open(TERMINAL, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            if not self.stdin_is_free or sys.stdin is None or not sys.stdin.isatty():
                raise
            handle = os.dup(sys.stdin.fileno())
        try:
            yield handle
        finally:
            os.close(handle)


@dataclass(frozen=True)
class BesideLine:
    """Asks as `approver` does, while the line of the step that runs is away."""

    approver: Approver
    line: StepLine

    async def ask(self, request: ApprovalRequest) -> Approval:
        """Return what it answers."""
        with self.line.paused():
            return await self.approver.ask(request)


async def _asked(request: ApprovalRequest, handle: int) -> Approval:
    if colours(sys.stderr):
        click.echo("\r\x1b[2K", err=True, nl=False)  # the line of the step that has begun
    for line in request_lines(request):
        _say(line)
    choices = {"o": "allow [o]nce", "s": "for this [s]ession", "d": "[d]eny", "f": "deny with [f]eedback"}
    if not request.may_remember:
        del choices["s"]
    question = ", ".join(choices.values()) + "? "
    while True:
        answer = (await _read_line(question, handle)).strip().lower()
        if answer in ("o", "once"):
            return Approval("once")
        if answer in ("s", "session") and request.may_remember:
            return Approval("session")
        if answer in ("d", "deny"):
            return Approval("deny")
        if answer in ("f", "feedback"):
            return Approval("deny", (await _read_line("Feedback for the plan's author: ", handle)).strip())
        _say(f"please answer {', '.join(choices)}")


def request_lines(request: ApprovalRequest) -> list[str]:
    """Return what a person must know to decide, each on one harmless line; nothing that decides is left out."""
    program, *arguments = request.argv
    rows = [("program", shown_word(program)), ("arguments", " ".join(map(shown_word, arguments)) or "none")]
    rows.append(("directory", shown_word(request.cwd)))
    command = request.command
    if isinstance(command, Exec):
        if command.executable:
            rows.append(("started as", shown_word(command.executable)))
        rows.extend(("variable", f"{shown_word(name)}={shown_word(text)}") for name, text in command.env.items())
        rows.extend(("input", line) for line in _input_lines(command.stdin))
        if command.terminal is not None:
            rows.append(("terminal", "it gets one; what is typed into it later is not asked about"))
    rows += [("risk", request.risk), ("rule", request.rule), ("reason", request.reason)]
    heading = styled("The policy asks: may this run?", "yellow", sys.stderr, bold=True)
    return [heading, *(f"  {name:<10} {escape_line(text, ci=False)}" for name, text in rows)]


def shown_word(word: str) -> str:
    """Return a word as a shell would take it, on one line: two words that differ never look the same."""
    shown = escape_line(word, ci=False)
    if shown == word and word.isprintable():
        return shlex.quote(word)
    doubled = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{escape_line(doubled, ci=False)}'"


def _input_lines(stdin: bytes) -> list[str]:
    if not stdin:
        return []
    lines = stdin.decode("utf-8", "backslashreplace").splitlines()
    shown = [counted(len(stdin), "byte"), *lines[:MAX_INPUT_LINES]]
    return shown + ([f"[{counted(len(lines) - MAX_INPUT_LINES, 'line')} more]"] if len(lines) > MAX_INPUT_LINES else [])


async def _read_line(question: str, handle: int) -> str:
    """Ask and return the line that is typed after that. Raises EOFError, OSError; a cancellation ends it at once."""
    with suppress(termios.error):
        termios.tcflush(handle, termios.TCIFLUSH)  # what was typed before the question answers nothing
    click.echo(question, err=True, nl=False)
    typed = b""
    while not typed.endswith(b"\n"):
        await _readable(handle)
        piece = os.read(handle, 4096)
        if not piece:
            raise EOFError
        typed += piece
    return typed.decode("utf-8", "replace")


async def _readable(handle: int) -> None:
    """Wait in a thread, which a second handle wakes: not every system's event loop can watch a terminal."""
    woken, wake = os.pipe()

    def wait() -> None:
        try:
            select.select([own, woken], [], [])
        finally:
            os.close(own)
            os.close(woken)

    own = os.dup(handle)  # the thread may outlive the caller's handle by a moment
    waiting = asyncio.get_running_loop().run_in_executor(None, wait)
    try:
        await asyncio.shield(waiting)
    finally:
        os.close(wake)  # the other end becomes readable


def _say(line: str) -> None:
    click.echo(line, err=True)
