"""How much is said on stderr: `--quiet` leaves out all but errors and questions, `--verbose` says more.

One command runs in a process, so what it was asked for holds for all that it prints.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import click

from mindx.cli.prose import note

F = TypeVar("F", bound=Callable[..., Any])
Progress = Callable[[str], None]
_asked = {"quiet": False, "verbose": False}


def verbosity_options(function: F) -> F:
    """Give a command `-q/--quiet` and `-v/--verbose`; `quiet()` and `verbose()` tell what was given."""
    for name, letter, text in (
        ("verbose", "v", "Say more on stderr of what is being done."),
        ("quiet", "q", "Say nothing on stderr but errors and questions."),
    ):
        option = click.option(
            f"-{letter}", f"--{name}", is_flag=True, expose_value=False, is_eager=True, callback=_take, help=text
        )
        function = option(function)
    return function


def _take(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    _asked[str(parameter.name)] = value
    other = "quiet" if parameter.name == "verbose" else "verbose"
    if value and ctx.meta.get(f"mindx.{other}"):
        raise click.UsageError("--quiet and --verbose do not go together", ctx)
    ctx.meta[f"mindx.{parameter.name}"] = value


def quiet() -> bool:
    """Return whether --quiet was given."""
    return _asked["quiet"]


def verbose() -> bool:
    """Return whether --verbose was given."""
    return _asked["verbose"]


def remark(text: str) -> None:
    """Print one line of prose on stderr that nobody needs: not with --quiet."""
    if not quiet():
        note(text)


@contextmanager
def progress() -> Iterator[Progress]:
    """Give what takes lines of progress: a status line, plain lines with --verbose, nothing with --quiet."""
    if quiet():
        yield _silent
    elif verbose():
        yield note
    else:
        from mindx.cli.status_line import StatusLine

        with StatusLine() as tell:
            yield tell


class StartLine:
    """Takes progress of the start of a session, which says nothing where nobody watches, unless --verbose.

    After `end` it takes nothing: the line is gone before the session's own output comes. Use it with `with`.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._tell: Progress | None = None
        self._lines = 0

    def __call__(self, text: str) -> None:
        """Take one line; from any thread. The first says only that it starts: nobody needs that."""
        self._lines += 1
        if self._tell is not None and (self._lines > 1 or verbose()):
            self._tell(text)

    def end(self) -> None:
        """Take no more; may be called twice."""
        self._tell = None
        self._stack.close()

    def __enter__(self) -> StartLine:
        watched = verbose() or sys.stderr.isatty()
        self._tell = self._stack.enter_context(progress()) if watched else None
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def _silent(text: str) -> None:
    """Progress that nobody looks at."""
