"""`mindx exec`: one program in a container, with its own streams and exit code."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import select
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mindx.cli.approve import approver_for
from mindx.cli.errors import EXEC_DENIED, EXEC_FAILED, INTERRUPTED, say
from mindx.cli.interrupt import run_async
from mindx.cli.live import LiveOutput
from mindx.cli.options import (
    approve_option,
    autonomous_option,
    image_option,
    json_option,
    policy_option,
    workspace_option,
)
from mindx.cli.prose import note, print_json
from mindx.cli.verbosity import StartLine, remark, verbose, verbosity_options
from mindx.core.command import Exec
from mindx.core.count import counted
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.output import encode_output, plain_text
from mindx.core.receipt import ExecResult, ExitCause
from mindx.errors import DeniedError, FileError, InputError
from mindx.policy.approval import NOBODY
from mindx.policy.load import LoadedPolicy
from mindx.runtime.session import Session
from mindx.settings import effective_policy

MAX_STDIN_BYTES = 64 * 1024 * 1024
STDIN_NOTICE_S = 3.0
TIMED_OUT = 124
NOT_FOUND = 127

EPILOG = """\b
Examples:
  mindx exec -- python3 -c 'print(6 * 7)'
  mindx exec --workspace . --timeout 10 -- grep -rn TODO .
  echo hello | mindx exec -- tr a-z A-Z

Exit codes: the program's own; 124 deadline; 125 mindx itself failed; 126 denied by policy or not
executable; 127 not found; 128 + n ended by signal n; 130 interrupted. The workspace is a copy and
is thrown away; use `mindx run` to keep changes.
"""


class _ExecCommand(click.Command):
    """Its arguments are another program's: an option that is not ours is most likely that program's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and say where `--` belongs."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if "--" in given:
                raise
            told = f"{error.format_message().rstrip('.')}; what belongs to the program comes after `--`"
            raise click.UsageError(f"{told}: mindx exec -- PROGRAM ARGUMENTS", ctx) from None


@click.command(name="exec", cls=_ExecCommand, epilog=EPILOG)
@click.argument("argv", nargs=-1, required=True, metavar="-- ARGV...")
@policy_option
@workspace_option
@autonomous_option
@image_option
@approve_option
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Deadline."
)
@click.option("--cwd", metavar="PATH", help="Where to start, a path in the workspace.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable; may be repeated.")
@click.option("--no-stdin", is_flag=True, help="Do not read standard input; a terminal is never read.")
@click.option("--raw", is_flag=True, help="Pass every byte on, also to a terminal or a CI log.")
@verbosity_options
@json_option
def command(
    argv: tuple[str, ...],
    policy: str | None,
    workspace: Path | None,
    autonomous: bool,
    image: str | None,
    approve_from: Path | None,
    timeout_s: float | None,
    cwd: str | None,
    variables: tuple[str, ...],
    no_stdin: bool,
    raw: bool,
    as_json: bool,
) -> int:
    """Run one program in a container, without a shell, and exit with its code."""
    approver = approver_for(approve_from, stdin_is_free=True)  # a terminal is never read for the program
    loaded = effective_policy(policy, image, workspace)
    session = Session(loaded, workspace, autonomous=autonomous, approver=approver, tells_files=True)
    wanted = session.command(argv, cwd=cwd, env=dict(map(_pair, variables)), timeout_s=timeout_s)
    verdict = session.engine.judge(wanted)
    if verdict.decision == "deny" or (verdict.decision == "ask" and approver is None):
        # Before standard input is read and a container started.
        advice = f" (it needs a person's yes: {NOBODY})" if verdict.decision == "ask" else ""
        raise DeniedError("denied_by_policy", verdict.reason + advice, details={"rule": verdict.rule})
    wanted = dataclasses.replace(wanted, stdin=b"" if no_stdin else read_stdin(alone=len(argv) == 1))
    result, no_folder = run_async(lambda: _execute(session, wanted, None if as_json else raw))
    if as_json:
        print_json(render_json(document_of(result, loaded, session.accepted_gaps)))
    if no_folder:
        say(f"there is no folder {result.command.cwd} in the container to start in; --workspace DIR copies one in")
    else:
        _explain(result, as_json)
    return exit_code_of(result)


async def _execute(session: Session, wanted: Exec, raw: bool | None) -> tuple[ExecResult, bool]:
    """Run it in a session of its own; `raw` None keeps the output for the document.

    True as well when nothing ran since there is no folder to start in.
    """
    try:
        with StartLine() as start:
            await session.open(start)
        result = await _executed(session, wanted, raw)
        return result, result.exit_cause is ExitCause.NOT_EXECUTABLE and not await _is_folder(session, wanted.cwd)
    finally:
        await session.close()


async def _is_folder(session: Session, path: str) -> bool:
    """Return False only where that is known."""
    try:
        return (await session.stat(path)).kind == "directory"
    except DeniedError:
        return True
    except FileError:
        return False


async def _executed(session: Session, wanted: Exec, raw: bool | None) -> ExecResult:
    if raw is None:
        return await session.sandbox.execute(wanted)
    live = LiveOutput(raw=raw)
    try:
        result = await session.sandbox.execute(wanted, live)
    except asyncio.CancelledError:
        if live.broken is not None:
            raise live.broken from None
        raise
    await live.finish(result.stdout, result.stderr)
    return result


def exit_code_of(result: ExecResult) -> int:
    """Return what `mindx exec` exits with. Unknown is never 0."""
    cause, receipt = result.exit_cause, result.receipt
    if cause is ExitCause.EXIT and receipt.exit_code is not None:
        return receipt.exit_code
    if cause is ExitCause.OOM:
        return receipt.exit_code or 128 + 9
    if cause is ExitCause.SIGNAL and receipt.signal is not None:
        return 128 + receipt.signal
    return {
        ExitCause.TIMEOUT: TIMED_OUT,
        ExitCause.CANCELLED: INTERRUPTED,
        ExitCause.NOT_FOUND: NOT_FOUND,
        ExitCause.NOT_EXECUTABLE: EXEC_DENIED,
        ExitCause.POLICY: EXEC_DENIED,
    }.get(cause, EXEC_FAILED)


def document_of(result: ExecResult, policy: LoadedPolicy, accepted_gaps: Sequence[str]) -> dict[str, Any]:
    """Return the document of `exec --json`."""
    receipt = result.receipt
    stdout, stdout_encoding = encode_output(result.stdout)
    stderr, stderr_encoding = encode_output(result.stderr)
    return {
        "schema_version": SCHEMA_VERSION,
        "policy": {"name": policy.name, "sha256": policy.sha256},
        "accepted_gaps": list(accepted_gaps),
        "argv": [plain_text(word) for word in result.argv],
        **receipt.figures(),
        "stdout": stdout,
        "stderr": stderr,
        "stdout_encoding": stdout_encoding,
        "stderr_encoding": stderr_encoding,
        "truncated": result.truncated,
        "files_changed": [plain_text(name) for name in receipt.files_changed],
        "files_changed_count": receipt.files_changed_count,
        "files_changed_complete": receipt.files_changed_complete,
    }


def read_stdin(*, alone: bool = False) -> bytes:
    """Return all of standard input when it is a pipe, a socket or a file; nothing from a terminal or a device.

    A program `alone`, without arguments, most likely waits for input: then a terminal is told of.
    Raises InputError when it is too large.
    """
    if sys.stdin is None:
        return b""
    try:
        handle = sys.stdin.fileno()
        if sys.stdin.isatty() and (alone or verbose()):
            remark("standard input is a terminal and is not passed on; pipe it in")
        mode = os.fstat(handle).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
            return b""
        if not select.select([handle], [], [], STDIN_NOTICE_S)[0]:
            remark("waiting for standard input to end; give --no-stdin or < /dev/null if there is none")
        data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    except (OSError, ValueError):
        return b""
    if len(data) > MAX_STDIN_BYTES:
        raise InputError(
            "stdin_too_big", f"standard input is larger than {MAX_STDIN_BYTES // 1024**2} MiB; use --workspace"
        )
    return data


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--env")
    return name, value


def _explain(result: ExecResult, as_json: bool) -> None:
    """Say on stderr what the exit code alone does not."""
    name = result.argv[0]
    texts = {
        ExitCause.TIMEOUT: f"the deadline of {result.command.timeout_s:g} s was reached; all of it was killed",
        ExitCause.OOM: "the container's memory was used up",
        ExitCause.NOT_FOUND: f"{name}: there is no such program in the container",
        ExitCause.NOT_EXECUTABLE: f"{name}: it cannot be executed",
        ExitCause.ENGINE: "the sandbox broke; what ran is not known",
    }
    if result.exit_cause in texts:
        say(texts[result.exit_cause])
    if verbose():
        _tell_receipt(result)
    if not as_json:
        for stream, cut, total in (
            ("stdout", result.stdout_truncated, result.receipt.stdout_bytes),
            ("stderr", result.stderr_truncated, result.receipt.stderr_bytes),
        ):
            if cut:
                kept = result.command.max_output_bytes
                figures = f"{kept:,} kept (beginning and end), {total - kept:,} left out"
                say(f"{stream} was cut: {counted(total, 'byte')} in all, {figures}; raise limits.output in the policy")


def _tell_receipt(result: ExecResult) -> None:
    """Say on stderr what the program took."""
    receipt = result.receipt
    peak = receipt.memory_peak_bytes or receipt.max_rss_bytes
    figures = [f"{receipt.duration_s:.2f} s", f"{receipt.cpu_s:.2f} s of CPU", f"{peak / 1e6:.0f} MB at most"]
    figures += [f"{counted(receipt.killed_count, 'process')} killed at the end"] if receipt.killed_count else []
    note(", ".join(figures))
