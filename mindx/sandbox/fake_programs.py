"""The fake's programs: plain coroutines that behave like their namesakes of a Linux system."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import anyio
import anyio.lowlevel

from mindx.core.receipt import ExitCause
from mindx.errors import FileError
from mindx.sandbox.fake_terminal import FakeTerminal
from mindx.sandbox.fake_tree import Tree

PIECE_BYTES = 64 * 1024  # what a pipe holds


class ProgramEnd(Exception):
    """A program raises it to end in another way than with an exit code (a signal, OOM)."""

    def __init__(
        self, exit_cause: ExitCause, *, exit_code: int | None = None, signal: int | None = None, oom_kills: int = 0
    ) -> None:
        super().__init__(exit_cause.value)
        self.exit_cause = exit_cause
        self.exit_code = exit_code
        self.signal = signal
        self.oom_kills = oom_kills


@dataclass(frozen=True, slots=True)
class ProgramContext:
    """What a program sees: its arguments, folder, variables and input, two outputs and the container's files.

    With a terminal both outputs are its, and so is the input, line by line.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    stdin: bytes
    write_stdout: Callable[[bytes], None]
    write_stderr: Callable[[bytes], None]
    fs: Tree
    terminal: FakeTerminal | None = None

    def resolve(self, path: str) -> str:
        """Return `path` as an absolute one, as seen from cwd."""
        return posixpath.normpath(posixpath.join(self.cwd, path))

    def fail(self, message: str, code: int = 1) -> int:
        """Write `message` to stderr after the program's name and return `code`."""
        self.write_stderr(f"{self.argv[0]}: {message}\n".encode("utf-8", "surrogateescape"))
        return code


Program = Callable[[ProgramContext], Coroutine[Any, Any, int]]


async def true(ctx: ProgramContext) -> int:
    """Succeed."""
    return 0


async def false(ctx: ProgramContext) -> int:
    """Fail."""
    return 1


async def exit_with(ctx: ProgramContext) -> int:
    """End with the code that is given (`exit 7`); no real system has it as a program."""
    return int(ctx.argv[1]) & 0xFF if len(ctx.argv) > 1 else 0


async def echo(ctx: ProgramContext) -> int:
    """Write the arguments, with a line end unless `-n` comes first."""
    words = ctx.argv[1:]
    end = "\n"
    if words[:1] == ("-n",):
        words, end = words[1:], ""
    ctx.write_stdout((" ".join(words) + end).encode("utf-8", "surrogateescape"))
    return 0


async def cat(ctx: ProgramContext) -> int:
    """Write files (stdin for `-` or none) one after another; one that cannot be read makes the exit code 1."""
    code = 0
    for name in ctx.argv[1:] or ("-",):
        if name == "-" and ctx.terminal is not None:
            while line := await ctx.terminal.read():
                ctx.write_stdout(line)
            continue
        try:
            data = ctx.stdin if name == "-" else ctx.fs.read(ctx.resolve(name), follow=True)
        except FileError as error:
            code = ctx.fail(f"{name}: {error.message.rpartition(': ')[2]}")
            continue
        for start in range(0, len(data), PIECE_BYTES):
            ctx.write_stdout(data[start : start + PIECE_BYTES])
            await anyio.lowlevel.checkpoint()
    return code


async def sleep(ctx: ProgramContext) -> int:
    """Wait for the sum of the arguments, in seconds."""
    if len(ctx.argv) < 2:
        return ctx.fail("missing operand")
    try:
        delay_s = sum(float(word) for word in ctx.argv[1:])
    except ValueError:
        return ctx.fail("invalid time interval")
    await anyio.sleep(delay_s)
    return 0


async def stty(ctx: ProgramContext) -> int:
    """Write the rows and columns of the terminal (`stty size`)."""
    if ctx.argv[1:] != ("size",) or ctx.terminal is None:
        return ctx.fail("only `size` of a terminal is known")
    ctx.write_stdout(b"%d %d\n" % (ctx.terminal.size.rows, ctx.terminal.size.cols))
    return 0


async def tty(ctx: ProgramContext) -> int:
    """Say whether there is a terminal."""
    ctx.write_stdout(b"/dev/pts/0\n" if ctx.terminal else b"not a tty\n")
    return 0 if ctx.terminal else 1


async def pwd(ctx: ProgramContext) -> int:
    """Write the folder it runs in."""
    ctx.write_stdout(ctx.cwd.encode("utf-8", "surrogateescape") + b"\n")
    return 0


async def printenv(ctx: ProgramContext) -> int:
    """Write all variables, or the values of those named; one that is not set makes the exit code 1."""
    names = ctx.argv[1:]
    lines = [ctx.env[name] for name in names if name in ctx.env]
    if not names:
        lines = [f"{name}={value}" for name, value in ctx.env.items()]
    ctx.write_stdout("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
    return 0 if all(name in ctx.env for name in names) else 1


async def chmod(ctx: ProgramContext) -> int:
    """Give files an octal mode."""
    for name in ctx.argv[2:]:
        ctx.fs.look(ctx.resolve(name), follow=True).mode = int(ctx.argv[1], 8)
    return 0


async def yes(ctx: ProgramContext) -> int:
    """Write the same line until it is killed."""
    line = " ".join(ctx.argv[1:] or ("y",)).encode("utf-8", "surrogateescape") + b"\n"
    piece = line * max(1, 8192 // len(line))
    while True:
        ctx.write_stdout(piece)
        await anyio.lowlevel.checkpoint()


PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        "true": true,
        "false": false,
        "exit": exit_with,
        "echo": echo,
        "cat": cat,
        "sleep": sleep,
        "stty": stty,
        "tty": tty,
        "pwd": pwd,
        "printenv": printenv,
        "chmod": chmod,
        "yes": yes,
    }
)
