"""What SimpleCoder does with the Commands of a call, and the result that it makes of the replies."""

from __future__ import annotations

import errno
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from mindx.core.command import Exec, Terminal
from mindx.core.count import counted
from mindx.core.frozen import dataclass
from mindx.core.observation import Status
from mindx.core.quote import quoted
from mindx.core.receipt import ExecResult, ExitCause
from mindx.errors import FileError, SandboxError
from mindx.sandbox.base import BackgroundState, Entry, Sandbox
from mindx.tools import simple_coder_args as args
from mindx.tools.command_tool import Lowered, ToolOutcome
from mindx.tools.send import send
from mindx.tools.simple_coder_jobs import JOB_TROUBLE, awaited_words, expect, printed, standing
from mindx.tools.simple_coder_search import found, was_searched
from mindx.tools.simple_coder_state import CoderState, relative

LOG = logging.getLogger("tool.SimpleCoder")

Outcome = ToolOutcome[CoderState]

FILE_TROUBLE = {
    errno.ENOENT: "there is no such file or directory",
    errno.EISDIR: "that is a directory",
    errno.ENOTDIR: "that, or something on the way to it, is not a directory",
    errno.EEXIST: "a file is there already",
    errno.ELOOP: "that is a link, or leads through one; links are not followed",
    errno.EFBIG: "the file is larger than the 16 MiB that `read` returns",
    errno.ENOSPC: "the workspace is full",
    errno.E2BIG: "the directory has too many names to list",
    errno.EINVAL: "that is no regular file",
}
# What the result of a command holds when it succeeds, besides status and message.
RESULT_FIELDS = {
    **dict.fromkeys(("cd", "write", "mkdir", "rm", "env_set", "env_unset", "toggle_autonomous_mode"), frozenset[str]()),
    **dict.fromkeys(("create_venv", "activate_venv", "deactivate_venv"), frozenset[str]()),
    **dict.fromkeys(("ls", "env_list"), frozenset({"items"})),
    **dict.fromkeys(("read", "help"), frozenset({"content"})),
    "search": frozenset({"items", "truncated"}),
    "run": frozenset({"return_code", "exit_cause", "stdout", "stderr", "truncated"}),
    **dict.fromkeys(("start", "pty_open", "pty_send", "pty_resize"), frozenset({"job"})),
    "pty_expect": frozenset({"job", "state", "return_code", "exit_cause", "output"}),
}
_NOTHING_RAN = (ExitCause.NOT_FOUND, ExitCause.NOT_EXECUTABLE, ExitCause.POLICY, ExitCause.ENGINE)


@dataclass(frozen=True, slots=True)
class Step:
    """One call on its way: the state before it, what it lowered to, the sandbox, and the text of `help`.

    `timeout_s` is for a call that waits and names none; None means no deadline.
    """

    call: Any
    state: CoderState
    lowered: Lowered[CoderState]
    sandbox: Sandbox
    describe: Callable[[], str]
    timeout_s: float | None = None

    async def send(self, index: int = 0) -> Any:
        """Send one of the Commands and return its reply."""
        return await send(self.sandbox, self.lowered.commands[index])

    async def send_all(self) -> None:
        """Send every Command, in order, for what it does and not for its reply."""
        for command in self.lowered.commands:
            await send(self.sandbox, command)

    def success(self, **values: Any) -> Outcome:
        """Return a success with the next state."""
        return ToolOutcome(Status.SUCCESS, {"status": "SUCCESS", **values}, self.lowered.state)

    def said(self, message: str) -> Outcome:
        """Return a success that consists of a message, and log it."""
        LOG.info("%s", message)
        return self.success(message=message)


async def take(step: Step) -> Outcome:
    """Take a step. Raises DeniedError, FileError and SandboxError as the sandbox does."""
    try:
        return await _STEPS[type(step.call)](step)
    except SandboxError as trouble:
        if trouble.code not in JOB_TROUBLE or not isinstance(step.call, (args.Start, args.PtyOpen, args.JobCall)):
            raise
        return error(step.state, trouble.message)


def error(state: CoderState, message: str) -> Outcome:
    """Return an ERROR that leaves the state as it was."""
    return ToolOutcome(Status.ERROR, {"status": "ERROR", "message": message}, state)


async def _ls(step: Step) -> Outcome:
    entries: list[Entry] = await step.send()
    rows = sorted((_printable(entry.path.rsplit("/", 1)[-1]), entry.kind == "directory") for entry in entries)
    return step.success(items=[name + "/" * directory for name, directory in rows])


async def _cd(step: Step) -> Outcome:
    entry: Entry = await step.send()
    if entry.kind != "directory":
        why = "links are not followed" if entry.kind == "link" else "only a directory can be entered"
        return error(step.state, f"{quoted(step.call.path)} is a {entry.kind}; {why}")
    return step.said(f"Current directory is now: {relative(step.lowered.state.cwd)}")


async def _read(step: Step) -> Outcome:
    data: bytes = await step.send()
    try:
        return step.success(content=data.decode())
    except UnicodeDecodeError:
        message = "the file is not UTF-8; bytes that are not appear as \\xNN"
        return step.success(content=data.decode("utf-8", "backslashreplace"), message=message)


async def _write(step: Step) -> Outcome:
    await step.send_all()
    return step.said(f"Wrote {counted(len(step.call.content.encode()), 'byte')} to {quoted(step.call.path)}")


async def _mkdir(step: Step) -> Outcome:
    await step.send_all()
    return step.said(f"Directory created/ensured at {quoted(step.call.path)}")


async def _rm(step: Step) -> Outcome:
    await step.send()
    return step.said(f"Removed {quoted(step.call.path)}")


async def _search(step: Step) -> Outcome:
    execution: ExecResult = await step.send()
    if not was_searched(execution, step.call.names):
        return _ran(step.state, execution)
    values = found(execution, step.call.names, step.state.cwd)
    return ToolOutcome(Status.SUCCESS, {"status": "SUCCESS", **values}, step.state)


async def _run(step: Step) -> Outcome:
    LOG.info("Executing in '%s': [%s]", relative(step.state.cwd), ", ".join(map(quoted, step.call.words[:20])))
    return _ran(step.state, await step.send())


async def _start(step: Step) -> Outcome:
    (command,) = step.lowered.commands
    assert isinstance(command, Exec)
    background_id = await step.sandbox.start_background(replace(command, timeout_s=step.call.timeout_seconds))
    job = step.state.next_job
    where = "the background" if command.terminal is None else "a terminal"
    message = f"{quoted(job)} runs {quoted(command.argv[0])} in {where}"
    LOG.info("%s", message)
    result = {"status": "SUCCESS", "job": job, "message": message}
    return ToolOutcome(Status.SUCCESS, result, step.lowered.state.with_job(job, background_id))


async def _poll(step: Step) -> Outcome:
    return _stands(step, await step.sandbox.poll_background(step.state.jobs[step.call.job]))


async def _stop(step: Step) -> Outcome:
    return _stands(step, await step.sandbox.stop_background(step.state.jobs[step.call.job]))


async def _logs(step: Step) -> Outcome:
    state = await step.sandbox.poll_background(step.state.jobs[step.call.job])
    return step.success(**printed(step.call.job, state, step.call.tail))


async def _pty_send(step: Step) -> Outcome:
    typed = step.call.typed
    await step.sandbox.send_background(step.state.jobs[step.call.job], typed)
    return step.success(job=step.call.job, message=f"Typed {counted(len(typed), 'byte')} into {quoted(step.call.job)}")


async def _pty_resize(step: Step) -> Outcome:
    size = Terminal(step.call.rows, step.call.cols)
    await step.sandbox.resize_background(step.state.jobs[step.call.job], size)
    message = f"{quoted(step.call.job)} has {size.rows} rows and {size.cols} columns"
    return step.success(job=step.call.job, message=message)


async def _pty_expect(step: Step) -> Outcome:
    """Wait for a text. What was not found stays to be found: only a success moves on in the output."""
    job, text = step.call.job, step.call.text
    asked = step.call.timeout_seconds
    within_s = asked if asked is not None else step.timeout_s
    waited = await expect(step.sandbox, step.state.jobs[job], step.state.terminals[job], text.encode(), within_s)
    state = step.state
    execution = waited.state.result
    status, message = Status.SUCCESS, f"{quoted(job)} has shown {quoted(text)}"
    if not waited.found:
        status, message = Status.FAILURE, awaited_words(job, text, waited)
    elif not text and execution is not None:
        message = "" if execution.ok else _ending(execution)
    if waited.found:
        state = state.with_terminal(job, waited.end)
    found = standing(job, waited.state, message)
    result = {"status": status.value, **found, "output": waited.output.decode("utf-8", "backslashreplace")}
    return ToolOutcome(status, result, state)


def _stands(step: Step, state: BackgroundState) -> Outcome:
    """Return how a job stands. To ask is a success however it ended; only what is not certain is none."""
    execution = state.result
    ending = "" if execution is None or execution.ok else _ending(execution)
    result = standing(step.call.job, state, ending)
    if execution is not None and execution.exit_cause is ExitCause.ENGINE:
        return ToolOutcome(Status.ERROR, {"status": "ERROR", **result}, step.state)
    return step.success(**result)


async def _create_venv(step: Step) -> Outcome:
    try:
        await step.send(0)
        return error(step.state, f"{quoted(step.call.venv_name)} exists already; activate it, or choose another name")
    except FileError as trouble:
        if trouble.errno != errno.ENOENT:
            raise
    execution: ExecResult = await step.send(1)
    if not execution.ok:
        return _ran(step.state, execution)
    message = f"Virtual environment created at {quoted(step.call.venv_name)}"
    LOG.info("%s", message)
    return ToolOutcome(Status.SUCCESS, {"status": "SUCCESS", "message": message}, step.state, execution)


async def _activate_venv(step: Step) -> Outcome:
    name = quoted(step.call.venv_name)
    try:
        await step.send()
    except FileError as trouble:
        if trouble.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise
        return error(step.state, f"{name} is no virtual environment here; make one with `create_venv`")
    return step.said(f"Virtual environment {name} is active")


async def _deactivate_venv(step: Step) -> Outcome:
    return step.said("The container's own Python is in use")


async def _env_set(step: Step) -> Outcome:
    return step.said(f"Variable {quoted(step.call.name)} is set")


async def _env_unset(step: Step) -> Outcome:
    return step.said(f"Variable {quoted(step.call.name)} is not set")


async def _env_list(step: Step) -> Outcome:
    return step.success(items=[f"{name}={value}" for name, value in sorted(step.state.env.items())])


async def _toggle(step: Step) -> Outcome:
    return step.said(f"Autonomous mode is {'on' if step.lowered.state.autonomous else 'off'}")


async def _help(step: Step) -> Outcome:
    topic = step.call.topic
    return step.success(content=args.COMMANDS[topic].usage() if topic else step.describe())


def _ran(state: CoderState, execution: ExecResult) -> Outcome:
    """Return what became of a program: FAILURE when it ran and did not succeed, ERROR when nothing ran."""
    cause = execution.exit_cause
    status = Status.SUCCESS if execution.ok else Status.ERROR if cause in _NOTHING_RAN else Status.FAILURE
    result = {
        "status": status.value,
        "return_code": execution.exit_code,
        "exit_cause": cause.value,
        "stdout": execution.stdout_text.strip(),
        "stderr": execution.stderr_text.strip(),
    }
    if execution.truncated:
        result["truncated"] = True
    if not execution.ok:
        result["message"] = _ending(execution)
    if cause is ExitCause.POLICY:
        status = Status.DENIED
    elif cause is ExitCause.CANCELLED:
        status = Status.CANCELLED
    return Outcome(status, result, state, execution)


def _ending(execution: ExecResult) -> str:
    """Say how a program ended that did not succeed."""
    receipt, command = execution.receipt, execution.command
    program = quoted(command.argv[0])
    return {
        ExitCause.EXIT: f"{program} ended with exit code {receipt.exit_code}",
        ExitCause.SIGNAL: f"{program} was ended by signal {receipt.signal}",
        ExitCause.TIMEOUT: f"{program} was killed at its deadline of {command.timeout_s or 0:g} s",
        ExitCause.OOM: f"{program}, or a process of it, was killed for want of memory",
        ExitCause.CANCELLED: f"{program} was cancelled",
        ExitCause.NOT_FOUND: f"{program} is not in the sandbox; nothing ran",
        ExitCause.NOT_EXECUTABLE: f"{program} cannot be started; nothing ran",
        ExitCause.POLICY: f"{program} was refused by the policy; nothing ran",
        ExitCause.ENGINE: f"the sandbox broke; whether {program} ran is not known",
    }[receipt.exit_cause]


def _printable(name: str) -> str:
    """Return a name that is not UTF-8 with \\xNN in place of its surrogate escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


_STEPS: dict[type[args.Call], Callable[[Step], Awaitable[Outcome]]] = {
    args.Ls: _ls,
    args.Cd: _cd,
    args.Read: _read,
    args.Write: _write,
    args.Mkdir: _mkdir,
    args.Rm: _rm,
    args.Search: _search,
    args.Run: _run,
    args.Start: _start,
    args.Poll: _poll,
    args.Logs: _logs,
    args.Stop: _stop,
    args.PtyOpen: _start,
    args.PtySend: _pty_send,
    args.PtyExpect: _pty_expect,
    args.PtyResize: _pty_resize,
    args.PtyClose: _stop,
    args.CreateVenv: _create_venv,
    args.ActivateVenv: _activate_venv,
    args.DeactivateVenv: _deactivate_venv,
    args.EnvSet: _env_set,
    args.EnvUnset: _env_unset,
    args.EnvList: _env_list,
    args.ToggleAutonomousMode: _toggle,
    args.Help: _help,
}
