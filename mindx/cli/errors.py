"""From what went wrong to one message and one exit code."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import click

from mindx.cli.escape import escape
from mindx.errors import DeniedError, MindxError

INTERRUPTED = 130
BROKEN_PIPE = 128 + signal.SIGPIPE
EXEC_FAILED = 125
EXEC_DENIED = 126
_OUTCOMES = {2: "invalid", 3: "denied"}
# click names the types of its own for what is not a number at all.
_PLAIN = (("is not a valid float range", "is not a number"), ("is not a valid integer range", "is not a whole number"))


class ReaderGoneError(Exception):
    """Whoever read our output has gone. click ends on a BrokenPipeError by itself, and with exit code 1."""


def guarded(function: Callable[[], Any], arguments: Sequence[str] = ()) -> int:
    """Call it and return the exit code, having told the user in one message what went wrong.

    `arguments` are those of the command line: with `--json` an error is a document on stdout as well.

    The function may return an exit code, raise `SystemExit` or any exception. SIGTERM and SIGHUP become
    KeyboardInterrupt, as Ctrl-C is, unless whoever started us has them ignored (nohup).
    """
    try:
        _catch_signals()
        code = _called(function, _own(arguments))
        return _flushed(code, _verb(_own(arguments)))
    except KeyboardInterrupt:
        with suppress(Exception):
            say("interrupted")
            _flushed(INTERRUPTED)
        return INTERRUPTED


def say(message: str) -> None:
    """Print one message of mindx itself on stderr, harmless whatever it quotes."""
    tell(f"mindx: {escape(message)}")


def tell(text: str, *, nl: bool = True) -> None:
    """Print on stderr; when its reader has gone, or its disk is full, the words are lost and the work goes on."""
    try:
        click.echo(text, err=True, nl=nl)
    except (OSError, ValueError):
        _drop(sys.stderr)


def exit_code(error: MindxError, verb: str | None = None) -> int:
    """Return the exit code of an error; `exec` has codes of its own, since all others are the program's."""
    if verb != "exec":
        return error.exit_code
    return EXEC_DENIED if isinstance(error, DeniedError) else EXEC_FAILED


def _called(function: Callable[[], Any], arguments: Sequence[str]) -> int:
    verb = _verb(arguments)
    try:
        code = function()
    except MindxError as error:
        say(error.message)
        if "--json" in arguments:
            document = {
                "schema_version": 1,
                "outcome": _OUTCOMES.get(error.exit_code, "error"),
                "error": error.to_dict(),
            }
            click.echo(json.dumps(document, indent=2))
        return exit_code(error, verb)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.UsageError as error:
        return _usage(error)
    except click.ClickException as error:
        say(error.format_message())
        return EXEC_FAILED if verb == "exec" else error.exit_code
    except (KeyboardInterrupt, click.Abort):
        raise KeyboardInterrupt from None
    except (ReaderGoneError, BrokenPipeError):
        return _pipe_broke()
    except OSError as error:
        if error.filename is not None:
            return _bug(error, verb)  # whoever opens a file says so itself
        if isinstance(error, FileNotFoundError) and _is_lost():
            say("the current folder has been deleted; go to another one (cd) and try again")
            return EXEC_FAILED if verb == "exec" else 2
        return _output_failed(error, 0, verb)
    except SystemExit as end:
        code = end.code
    except Exception as error:  # noqa: BLE001 - the last resort: a bug gets one line and a file, never a traceback
        return _bug(error, verb)
    if code is None or isinstance(code, int):
        return code or 0
    say(str(code))  # an end with a text is a failure, as in Python itself
    return 1


def _verb(arguments: Sequence[str]) -> str | None:
    return next((argument for argument in arguments if not argument.startswith("-")), None)


def _flushed(code: int, verb: str | None = None) -> int:
    """Write out what is buffered: only then is it known whether the output arrived."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        return _pipe_broke()
    except (OSError, ValueError) as error:
        return _output_failed(error, code, verb)
    return code


def _output_failed(error: Exception, code: int, verb: str | None) -> int:
    """The disk behind standard output is full, or its device refuses."""
    _drop(sys.stdout)
    say(f"standard output cannot be written: {getattr(error, 'strerror', None) or error}")
    return code or (EXEC_FAILED if verb == "exec" else 1)


def _is_lost() -> bool:
    """Return True when the current folder is no more."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _usage(error: click.UsageError) -> int:
    hint = f" (see `{error.ctx.command_path} --help`)" if error.ctx is not None else ""
    said = _missing(error) or " ".join(error.format_message().split())
    for theirs, plain in _PLAIN:
        said = said.replace(theirs, plain)
    say(f"{said}{hint}")
    inside = error.ctx.command.name if error.ctx is not None else None
    return EXEC_FAILED if inside == "exec" else 2


def _missing(error: click.UsageError) -> str:
    """Return what to write for an argument that was left out, "" for any other mistake."""
    if not isinstance(error, click.MissingParameter) or not isinstance(error.param, click.Argument) or not error.ctx:
        return ""
    pieces = [piece for piece in error.ctx.command.collect_usage_pieces(error.ctx) if piece != "[OPTIONS]"]
    name = error.param.human_readable_name.removeprefix("-- ").removesuffix("...")
    return f"{name} is missing; write {error.ctx.command_path} {' '.join(pieces)}"


def _pipe_broke() -> int:
    """Whoever read our output has gone (`| head`): end as a program that SIGPIPE ends, without a word."""
    _drop(sys.stdout)
    return BROKEN_PIPE


def _drop(stream: TextIO) -> None:
    # What is still buffered would raise once more when the interpreter ends.
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _bug(error: Exception, verb: str | None) -> int:
    path = write_report(error)
    where = f"; the details are in {path}" if path is not None else ""
    say(f"this is a mistake in mindx itself: {type(error).__name__}{where}")
    return EXEC_FAILED if verb == "exec" else 4


def write_report(error: BaseException, folder: Path | None = None) -> Path | None:
    """Write the traceback into the folder, or else the state folder's logs; return where, or None if that failed."""
    from mindx.core.folders import state_dir

    with suppress(OSError):
        folder = folder or state_dir() / "logs"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"bug-{datetime.now(timezone.utc):%Y%m%dT%H%M%S%f}.txt"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("".join(traceback.format_exception(type(error), error, error.__traceback__)))
        return path
    return None


def _own(arguments: Sequence[str]) -> Sequence[str]:
    """The arguments that are ours: those before a `--`."""
    own = list(arguments)
    return own[: own.index("--")] if "--" in own else own


def _catch_signals() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
