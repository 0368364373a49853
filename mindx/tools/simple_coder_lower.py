"""From SimpleCoder's calls to Commands, and to the state that follows.

Pure: a whole plan is judged this way before a container exists.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mindx.core.command import (
    DEFAULT_MAX_OUTPUT_BYTES,
    DEFAULT_TIMEOUT_S,
    WORKSPACE,
    Exec,
    ListDir,
    MakeDir,
    ReadFile,
    Remove,
    Stat,
    Terminal,
    WriteFile,
)
from mindx.core.frozen import dataclass
from mindx.core.nearest import did_you_mean
from mindx.core.quote import quoted
from mindx.policy.paths import PathRefused, resolve
from mindx.tools import simple_coder_args as args
from mindx.tools.command_tool import CallError, Lowered, ParamFault
from mindx.tools.simple_coder_fields import MAX_CONTENT_BYTES
from mindx.tools.simple_coder_search import search_argv
from mindx.tools.simple_coder_state import CoderState

MAX_VARIABLES = 256
AUTONOMOUS_HINT = "start the run with --autonomous if you want this"


@dataclass(frozen=True, slots=True)
class CoderSettings:
    """`timeout_s` and `max_output_bytes` are for a `run` that names none; None means no deadline.

    `operator` is True only where a person types the commands (`mindx shell`): then toggle_autonomous_mode works.
    `no_grant` says, where a person types, why the toggle is refused all the same.
    `background` is the policy's `limits.background`; 0 refuses `start`, `pty_open` and what asks about jobs.
    """

    timeout_s: float | None = DEFAULT_TIMEOUT_S
    max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES
    operator: bool = False
    background: int = 0
    no_grant: str = ""


def lower_call(call: args.Call, state: CoderState, settings: CoderSettings) -> Lowered[CoderState]:
    """Return the Commands of a call and the state after it. Raises CallError when the state does not allow it."""
    return _LOWERINGS[type(call)](call, state, settings)


def _path(path: str, state: CoderState) -> str:
    try:
        return resolve(path, state.cwd)
    except PathRefused as error:
        raise CallError([ParamFault(".path", error.message)]) from None


def absolute_path_faults(path: object) -> tuple[ParamFault, ...]:
    """Return what is wrong with a path wherever the current directory may be: of a call that is wrong in more."""
    if not isinstance(path, str) or not path.startswith("/"):
        return ()
    try:
        resolve(path, WORKSPACE)
    except PathRefused as error:
        return (ParamFault(".path", error.message),)
    return ()


def _ls(call: args.Ls, state: CoderState, _: CoderSettings) -> Lowered[CoderState]:
    return Lowered((ListDir(_path(call.path, state)),), state, ".path")


def _cd(call: args.Cd, state: CoderState, _: CoderSettings) -> Lowered[CoderState]:
    path = _path(call.path, state)
    return Lowered((Stat(path),), replace(state, cwd=path), ".path")


def _read(call: args.Read, state: CoderState, _: CoderSettings) -> Lowered[CoderState]:
    return Lowered((ReadFile(_path(call.path, state), MAX_CONTENT_BYTES),), state, ".path")


def _write(call: args.Write, state: CoderState, _: CoderSettings) -> Lowered[CoderState]:
    path = _path(call.path, state)
    if path == WORKSPACE or call.path.endswith("/"):
        raise CallError([ParamFault(".path", f"{quoted(call.path)} is a directory", "name a file in it")])
    parent = posixpath.dirname(path)
    write = WriteFile(path, call.content.encode())
    on_the_way = (MakeDir(parent),) if parent not in (WORKSPACE, state.cwd) else ()
    return Lowered((*on_the_way, write), state, ".path")


def _mkdir(call: args.Mkdir, state: CoderState, _: CoderSettings) -> Lowered[CoderState]:
    path = _path(call.path, state)
    return Lowered((MakeDir(path),) if path != WORKSPACE else (), state, ".path")  # the workspace is always there


def _rm(call: args.Rm, state: CoderState, settings: CoderSettings) -> Lowered[CoderState]:
    path = _path(call.path, state)
    if not state.autonomous:
        message, hint = "`rm` needs autonomous mode, which is off", AUTONOMOUS_HINT
        if settings.operator:  # the shell shows the message only
            message, hint = f"{message}; {settings.no_grant or 'toggle_autonomous_mode switches it on'}", ""
        raise CallError([ParamFault(".command", message, hint, "denied")])
    if path == WORKSPACE or f"{state.cwd}/".startswith(f"{path}/"):
        raise CallError([ParamFault(".path", f"{quoted(call.path)} is a directory; `rm` removes one file")])
    return Lowered((Remove(path),), state, ".path")


def _search(call: args.Search, state: CoderState, settings: CoderSettings) -> Lowered[CoderState]:
    if call.names and "/" in call.text:
        raise CallError([ParamFault(".text", "a name holds no slash", "use `path` for the directory")])
    command = Exec(
        search_argv(call.text, _path(call.path, state), call.names),
        cwd=state.cwd,
        timeout_s=settings.timeout_s,
        max_output_bytes=settings.max_output_bytes,
    )
    return Lowered((command,), state, ".text")


def _run(call: args.Run, state: CoderState, settings: CoderSettings) -> Lowered[CoderState]:
    command = replace(_program(call, call.timeout_seconds, state, settings), stdin=call.stdin.encode())
    return Lowered((command,), state, call.subject)


def _program(call: args.ProgramCall, timeout_s: float | None, state: CoderState, settings: CoderSettings) -> Exec:
    words = call.words
    return Exec(
        words,
        cwd=state.cwd,
        env=state.program_env(),
        timeout_s=timeout_s if timeout_s is not None else settings.timeout_s,
        max_output_bytes=settings.max_output_bytes,
        executable=state.executable(words[0]),
    )


def _start(call: args.Start, state: CoderState, settings: CoderSettings) -> Lowered[CoderState]:
    """Lower to what the policy judges.

    A job without a deadline carries the session's own here: no policy allows a foreground program without one, and
    the driver judges such a job in the same way. The step takes it off again.
    """
    _needs_background(call, settings)
    command = _program(call, call.timeout_seconds, state, settings)
    return Lowered((command,), state.with_job(state.next_job), call.subject)


def _about_job(call: args.JobCall, state: CoderState, settings: CoderSettings) -> Lowered[CoderState]:
    _needs_background(call, settings)
    if call.job not in state.jobs:
        known = f"the jobs are {', '.join(state.jobs)}" if state.jobs else "no job was started"
        raise CallError([ParamFault(".job", f"there is no job {quoted(call.job)}", known)])
    return Lowered((), state, ".job")


def _pty_open(call: args.PtyOpen, state: CoderState, settings: CoderSettings) -> Lowered[CoderState]:
    _needs_background(call, settings)
    command = _program(call, call.timeout_seconds, state, settings)
    job = state.next_job
    command = replace(command, terminal=Terminal(call.rows, call.cols))
    return Lowered((command,), state.with_job(job).with_terminal(job), call.subject)


def _about_terminal(call: args.PtyCall, state: CoderState, settings: CoderSettings) -> Lowered[CoderState]:
    lowered = _about_job(call, state, settings)
    if call.job not in state.terminals:
        raise CallError([ParamFault(".job", f"{quoted(call.job)} has no terminal", "`pty_open` starts a job in one")])
    return lowered


def _pty_expect(call: args.PtyExpect, state: CoderState, settings: CoderSettings) -> Lowered[CoderState]:
    most, asked = settings.timeout_s, call.timeout_seconds
    if most is not None and asked is not None and asked > most:
        message = f"{asked:g} s is longer than the policy's limits.command_timeout of {most:g} s"
        raise CallError([ParamFault(".timeout_seconds", message, "", "denied")])
    return _about_terminal(call, state, settings)


def _needs_background(call: args.Call, settings: CoderSettings) -> None:
    if not settings.background:
        message = f"`{call.command}` needs background commands, and the policy allows none: its limits.background is 0"
        raise CallError([ParamFault(".command", message, "limits: {background: 2} in a policy allows two", "denied")])


def _create_venv(call: args.CreateVenv, state: CoderState, settings: CoderSettings) -> Lowered[CoderState]:
    path = resolve(call.venv_name, state.cwd)
    make = Exec(
        ("python3", "-m", "venv", path),
        cwd=state.cwd,
        env=dict(state.env),
        timeout_s=settings.timeout_s,
        max_output_bytes=settings.max_output_bytes,
    )
    return Lowered((Stat(path), make), state, ".venv_name")


def _activate_venv(call: args.ActivateVenv, state: CoderState, _: CoderSettings) -> Lowered[CoderState]:
    path = resolve(call.venv_name, state.cwd)
    return Lowered((Stat(f"{path}/bin/python"),), replace(state, venv=path), ".venv_name")


def _deactivate_venv(call: args.DeactivateVenv, state: CoderState, _: CoderSettings) -> Lowered[CoderState]:
    return Lowered((), replace(state, venv=None))


def _env_set(call: args.EnvSet, state: CoderState, _: CoderSettings) -> Lowered[CoderState]:
    if call.name not in state.env and len(state.env) >= MAX_VARIABLES:
        raise CallError([ParamFault(".name", f"{MAX_VARIABLES} variables are set; no more fit")])
    return Lowered((), state.with_variable(call.name, call.value))


def _env_unset(call: args.EnvUnset, state: CoderState, _: CoderSettings) -> Lowered[CoderState]:
    return Lowered((), state.with_variable(call.name, None))


def _env_list(call: args.EnvList, state: CoderState, _: CoderSettings) -> Lowered[CoderState]:
    return Lowered((), state)


def _toggle(call: args.ToggleAutonomousMode, state: CoderState, settings: CoderSettings) -> Lowered[CoderState]:
    if not settings.operator:
        message = "autonomous mode is granted by the operator, never by a plan"
        raise CallError([ParamFault(".command", message, f"remove this step; {AUTONOMOUS_HINT}", "denied")])
    if settings.no_grant:
        raise CallError([ParamFault(".command", settings.no_grant, "", "denied")])
    return Lowered((), replace(state, autonomous=not state.autonomous))


def _help(call: args.Help, state: CoderState, _: CoderSettings) -> Lowered[CoderState]:
    if call.topic and call.topic not in args.COMMANDS:
        raise CallError([unknown_command(call.topic, ".topic")])
    return Lowered((), state)


def unknown_command(command: str, path: str = ".command") -> ParamFault:
    """Return the fault that names the commands, and the one that may have been meant."""
    near = did_you_mean(command, args.COMMANDS)
    message = f"unknown command {quoted(command)}"
    known = f"the commands are {', '.join(sorted(args.COMMANDS))}"
    return ParamFault(path, f"{message}, {near}" if near else message, known)


_LOWERINGS: dict[type[args.Call], Callable[[Any, CoderState, CoderSettings], Lowered[CoderState]]] = {
    args.Ls: _ls,
    args.Cd: _cd,
    args.Read: _read,
    args.Write: _write,
    args.Mkdir: _mkdir,
    args.Rm: _rm,
    args.Search: _search,
    args.Run: _run,
    args.Start: _start,
    args.Poll: _about_job,
    args.Logs: _about_job,
    args.Stop: _about_job,
    args.PtyOpen: _pty_open,
    args.PtySend: _about_terminal,
    args.PtyExpect: _pty_expect,
    args.PtyResize: _about_terminal,
    args.PtyClose: _about_terminal,
    args.CreateVenv: _create_venv,
    args.ActivateVenv: _activate_venv,
    args.DeactivateVenv: _deactivate_venv,
    args.EnvSet: _env_set,
    args.EnvUnset: _env_unset,
    args.EnvList: _env_list,
    args.ToggleAutonomousMode: _toggle,
    args.Help: _help,
}
