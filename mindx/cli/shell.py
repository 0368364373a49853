"""`mindx shell`: SimpleCoder, typed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mindx.cli.approve import approver_for
from mindx.cli.errors import INTERRUPTED, say, write_report
from mindx.cli.escape import escape, escape_line
from mindx.cli.interrupt import run_async
from mindx.cli.options import approve_option, autonomous_option, policy_option, workspace_option
from mindx.cli.prose import note, print_json
from mindx.cli.store import run_store
from mindx.core.count import counted
from mindx.core.document import render_json
from mindx.core.folders import state_dir
from mindx.core.observation import Observation, Status
from mindx.core.output import plain_value
from mindx.core.plan import Action
from mindx.core.run import RunResult
from mindx.runtime.shell_run import ShellRun
from mindx.settings import effective_policy
from mindx.tools.simple_coder_state import CoderState, relative

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History

    from mindx.cli.shell_completion import Names

ReadLine = Callable[[CoderState], Awaitable["str | None"]]

EPILOG = """\b
Examples:
  mindx shell --workspace .
  printf 'write a.txt hello\\nread a.txt\\n' | mindx shell

`help` lists the commands; `exit` or Ctrl-D leaves; Ctrl-C stops the command that is running.
What changed is kept as a run: `mindx changes show last`.
Lines from a pipe: exit code 1 if one did not succeed; rm needs --autonomous.
"""


@click.command(name="shell", epilog=EPILOG)
@policy_option
@workspace_option
@autonomous_option
@approve_option
@click.option("--json", "as_json", is_flag=True, help="Print each result as JSON, one document for each line.")
def command(
    policy: str | None, workspace: Path | None, autonomous: bool, approve_from: Path | None, as_json: bool
) -> int:
    """Use SimpleCoder interactively in a container; also reads lines from standard input."""
    typed = sys.stdin is not None and sys.stdin.isatty()
    read_line = _prompting(lambda folder: run.names(folder)) if typed else _reading
    run: ShellRun = ShellRun(
        read_line,
        effective_policy(policy, None, workspace),
        run_store(),
        workspace=workspace,
        autonomous=autonomous,
        person=typed,
        approver=approver_for(approve_from, stdin_is_free=typed),
        on_refused=lambda text: note(f"error: {text}"),
        on_step=(lambda action, observation: _print_json(run, observation)) if as_json or not typed else _print,
        progress=note if typed else None,
        on_bug=write_report,
    )
    if typed and not as_json:
        empty = "" if workspace else "; the workspace is empty (--workspace DIR copies a folder in)"
        note(f"`help` lists the commands, Ctrl-D leaves{empty}")
    try:
        run_async(run.run, run.interrupt)
    except KeyboardInterrupt:
        _part(run.result)
        return INTERRUPTED
    assert run.result is not None
    _part(run.result, person=typed)
    return run.result.outcome.exit_code


def _prompting(names: Names) -> ReadLine:
    """Return a reader with line editing, completion, and a history that outlives the shell."""
    session: PromptSession[str] | None = None

    async def read_line(state: CoderState) -> str | None:
        nonlocal session
        from prompt_toolkit import PromptSession
        from prompt_toolkit.output import ColorDepth

        from mindx.cli.shell_completion import ShellCompleter

        if session is None:
            depth = ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None
            session = PromptSession(
                history=_history(), color_depth=depth, completer=ShellCompleter(names), complete_while_typing=False
            )
        while True:
            try:
                return await session.prompt_async(prompt(state), handle_sigint=False)
            except KeyboardInterrupt:
                continue  # Ctrl-C at the prompt drops the line
            except EOFError:
                return None

    return read_line


async def _reading(state: CoderState) -> str | None:
    """Read a line of standard input; a thread waits, so that a signal is heard."""
    if sys.stdin is None:
        return None
    line = await asyncio.to_thread(sys.stdin.readline)
    return line or None


def prompt(state: CoderState) -> str:
    """Return `(venv) ./cwd $ `, harmless whatever the names are."""
    venv = f"({escape_line(relative(state.venv).rpartition('/')[2], ci=False)}) " if state.venv else ""
    return f"{venv}{escape_line(relative(state.cwd), ci=False)} $ "


def _history() -> History:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    path = state_dir() / "shell_history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _print_json(run: ShellRun, observation: Observation | None) -> None:
    """Print the tool's own dict, and under which policy and without which controls it came about."""
    if observation is not None:
        policy = {"name": run.policy.name, "sha256": run.policy.sha256}
        known = {"policy": policy, "accepted_gaps": list(run.session.accepted_gaps)}
        print_json(render_json(plain_value({**(dict(observation.result) or _bare(observation)), **known})))


def _bare(observation: Observation) -> dict[str, str]:
    return {"status": observation.status.value, "message": observation.message}


def _print(action: Action, observation: Observation | None) -> None:
    """Print a result for a person: what a program printed, a file's content, names, or the message."""
    if observation is None:
        return
    result = observation.result
    execution = observation.execution
    if execution is not None:
        click.echo(escape(execution.stdout_text), nl=False)
        click.echo(escape(execution.stderr_text), nl=False, err=True)
        if not execution.ok:
            code = "" if execution.exit_code is None else f" {execution.exit_code}"
            note(f"[{execution.exit_cause.value}{code}]")
    if "items" in result:
        for item in result["items"]:
            click.echo(escape_line(str(item)))
    elif "content" in result:
        click.echo(escape(str(result["content"])).rstrip("\n"))
    elif "stdout" in result and execution is None:  # `logs`
        for stream, err in (("stdout", False), ("stderr", True)):
            if result[stream]:
                click.echo(escape(str(result[stream])), err=err)
    elif execution is None and observation.message:
        sign = "" if observation.status is Status.SUCCESS else f"{observation.status.value.lower()}: "
        click.echo(escape(f"{sign}{observation.message}"))
        if observation.message.startswith("unknown command") and "did you mean" not in observation.message:
            note("a program is started with `run`, as in: run python3 --version")


def _part(result: RunResult | None, *, person: bool = False) -> None:
    with suppress(BrokenPipeError):
        if result is not None and result.error is not None:
            say(str(result.error["message"]))
        if result is not None and result.changes:
            kept = counted(len(result.changes), "change")
            note(f"{kept} kept in the run {result.run_id}; see `mindx changes show last`")
        elif result is not None and result.error is None and person:
            note("nothing was changed")
