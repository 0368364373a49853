"""The Session: one container, its workspace and its policy, as Python code uses it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mindx.core.command import WORKSPACE, Command, Exec, ListDir, MakeDir, ReadFile, Remove, Stat, WriteFile
from mindx.core.count import counted
from mindx.core.receipt import ExecResult
from mindx.core.table import TableError
from mindx.core.verdict import Verdict
from mindx.errors import InputError, SandboxError
from mindx.policy.approval import Approver
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import LoadedPolicy, load_policy
from mindx.policy.memory import VerdictMemory
from mindx.policy.model import Policy
from mindx.runtime.consent import approved_action_id
from mindx.runtime.sandboxes import SandboxFactory, docker_sandbox
from mindx.sandbox.base import Entry, OutputListener, Sandbox
from mindx.sandbox.driver import Driver
from mindx.workspace.baseline import Baseline
from mindx.workspace.changes import Change, compare
from mindx.workspace.copy_in import CopyIn, copy_in, plan_copy

if TYPE_CHECKING:
    from mindx.runtime.session_plan import PlanResult

if TYPE_CHECKING:
    from mindx.runtime.asking import Asking
    from mindx.trace.recorder import Recorder

_NO_ENV: Mapping[str, str] = {}


class Session:
    """A container that lives as long as the `async with` block; every command is judged by the policy.

    `policy` is a preset's name, a path, a LoadedPolicy, or None for the preset `default`. `workspace` is a folder that
    is copied in (never mounted), or None for an empty one. `image` takes the place of the policy's image.
    `autonomous` grants the removal of files, if the policy leaves that to the operator. `recorder` gets one event for
    each Command. `approver` is asked about what the policy asks about; None: then that is denied. `open_sandbox` makes
    the sandbox; it is for tests. `tells_files` has every Receipt name the files that the command changed, which costs a
    look at each file of the workspace.

    Raises InputError (policy, workspace) when it is made or entered, EngineError, ImageError or SandboxError when it
    is entered; then nothing is left behind.
    """

    def __init__(
        self,
        policy: str | Path | LoadedPolicy | None = None,
        workspace: str | Path | None = None,
        image: str | None = None,
        *,
        autonomous: bool = False,
        recorder: Recorder | None = None,
        approver: Approver | None = None,
        tells_files: bool = False,
        open_sandbox: SandboxFactory = docker_sandbox,
    ) -> None:
        loaded = policy if isinstance(policy, LoadedPolicy) else load_policy(policy)
        self.policy = loaded if image is None else with_image(loaded, image)
        self.engine = PolicyEngine(self.policy.policy, autonomous=autonomous)
        self._verdicts = VerdictMemory(self.engine)
        self.asking = None if approver is None else _asking(self.engine, approver, recorder)
        self.baseline = Baseline()
        self._workspace = None if workspace is None else Path(workspace)
        self._recorder = recorder
        self._tells_files = tells_files
        self._open_sandbox = open_sandbox
        self._sandbox: Sandbox | None = None
        self.accepted_gaps: tuple[str, ...] = ()  # the controls that the engine lacks and the policy does without
        self.on_output: OutputListener | None = None  # hears what every recorded command prints; set it before `open`
        self.limit_reached = ""  # the policy's limit that ended this session's work, if one did
        self._plan_states: dict[str, Any] = {}  # what the tools of the last plan remember
        self._plan_turn = asyncio.Lock()
        self._commands_left = self.policy.policy.limits.commands
        limits = self.policy.policy.limits
        self._timeout_s = limits.command_timeout_s
        self._max_output_bytes = limits.output_bytes

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox behind the policy. Raises SandboxError (session_closed) outside of the `async with` block."""
        if self._sandbox is None:
            raise SandboxError("session_closed", "the session is not open; use it inside `async with`")
        return self._sandbox

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str | None = None,
        timeout_s: float | None = None,
        on_output: OutputListener | None = None,
    ) -> ExecResult:
        """Run one program to its end, never through a shell; a failed command is a value.

        `cwd` is a path in the workspace, None its root. `env` is added to the container's own. `stdin` is all that the
        program can read. `timeout_s` in seconds, None the policy's command_timeout. `on_output` gets each piece of
        output as it comes. Raises DeniedError, and SandboxError when the sandbox is broken or the session is closed.
        """
        sandbox = self._sandbox or self.sandbox
        return await sandbox.execute(self.command(argv, cwd=cwd, env=env, stdin=stdin, timeout_s=timeout_s), on_output)

    def command(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str | None = None,
        timeout_s: float | None = None,
    ) -> Exec:
        """Return the Command that `run` would send, with the policy's deadline and output cap."""
        if isinstance(argv, str):
            raise TypeError("argv is a list of words, such as ['ls', '-l']")
        return Exec(
            tuple(argv),
            WORKSPACE if cwd is None else workspace_path(cwd),
            _NO_ENV if env is None else env,
            b"" if stdin is None else stdin.encode() if isinstance(stdin, str) else stdin,
            self._timeout_s if timeout_s is None else timeout_s,
            self._max_output_bytes,
        )

    async def read(self, path: str) -> bytes:
        """Return a file's bytes. Raises DeniedError, FileError."""
        return await self.sandbox.read_file(ReadFile(workspace_path(path)))

    async def write(self, path: str, data: bytes | str, *, mode: int | None = None) -> None:
        """Replace or create a file (text as UTF-8); its folder must exist. Raises DeniedError, FileError."""
        content = data.encode() if isinstance(data, str) else bytes(data)
        await self.sandbox.write_file(WriteFile(workspace_path(path), content, mode))

    async def list(self, path: str = ".") -> list[Entry]:
        """Return a folder's entries, sorted by name. Raises DeniedError, FileError."""
        return await self.sandbox.list_dir(ListDir(workspace_path(path)))

    async def mkdir(self, path: str) -> None:
        """Make a folder and its missing parents. Raises DeniedError, FileError."""
        await self.sandbox.make_dir(MakeDir(workspace_path(path)))

    async def remove(self, path: str) -> None:
        """Remove one file; needs `autonomous`. Raises DeniedError, FileError."""
        await self.sandbox.remove(Remove(workspace_path(path)))

    async def stat(self, path: str) -> Entry:
        """Return what is at a path; a link is a link. Raises DeniedError, FileError."""
        return await self.sandbox.stat(Stat(workspace_path(path)))

    async def run_plan(
        self, plan: str | bytes | Sequence[Mapping[str, Any]], *, keep_going: bool = False, pinned: bool = False
    ) -> PlanResult:
        """Run a plan (its text, or its list of actions) in this session's container; a failed plan is a value.

        It is vetted whole first: a plan that may not run does nothing. It starts clean: current directory, virtual
        environment and variables are not those of a plan before it, unless it is `pinned`. Raises SandboxError.
        """
        from mindx.runtime.session_plan import run_plan  # the loop is not loaded for a session without plans

        async with self._plan_turn:
            if not pinned:
                self._plan_states.clear()
            return await run_plan(self, plan_bytes(plan), self._plan_states, keep_going=keep_going)

    async def changes(self) -> tuple[Change, ...]:
        """Return the differences from what was copied in, by digest."""
        entries = await self.sandbox.manifest(self.policy.policy.limits.workspace_inodes)
        return compare(self.baseline, entries, self.protects)

    def protects(self, path: str) -> bool:
        """Return whether the policy protects a path below the workspace."""
        return self.policy.policy.workspace.protects(f"{WORKSPACE}/{path}")

    async def open(self, progress: Callable[[str], None] | None = None) -> None:
        """Start the container and copy the workspace in; `progress` is told what is being done."""
        if self._sandbox is not None:
            raise SandboxError("session_open", "the session is open already")
        tell = progress or (lambda text: None)
        copy = await self._planned_copy()
        try:
            tell("starting the sandbox")
            decide = None if self.asking is None else self.asking.decide
            sandbox = self._open_sandbox(self.policy, tell)
            inner = Driver(sandbox, self._judge, decide, tells_files=self._tells_files)
            recorder = self._recorder
            self._sandbox = inner if recorder is None else _recorded(inner, recorder, self.on_output)
            await self._sandbox.start()
            if self._sandbox.attestation is not None:
                self.accepted_gaps = self._sandbox.attestation.gaps
            if copy is not None:
                tell("copying the workspace in")
                self.baseline = await copy_in(self._sandbox, copy)
        except BaseException:
            await self.close()
            raise
        finally:
            if copy is not None:
                copy.close()

    async def close(self) -> None:
        """End the container and wait until it is gone; may be called twice."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.close()

    def _judge(self, command: Command) -> Verdict:
        """Judge one Command and count it."""
        if self._commands_left <= 0:
            self.limit_reached = "commands"
            allowed = counted(self.policy.policy.limits.commands, "command")
            return Verdict("deny", "limits.commands", f"the policy allows {allowed} in a session, and none is left")
        self._commands_left -= 1
        verdict = self._verdicts.judge(command)
        if verdict.decision == "ask" and approved_action_id():
            return Verdict("allow", verdict.rule, f"a person said yes to {approved_action_id()}")
        return verdict

    async def _planned_copy(self) -> CopyIn | None:
        """Look through the folder before a container exists: a bad one must cost nothing."""
        if self._workspace is None:
            return None
        policy, folder = self.policy.policy, self._workspace
        limits = policy.limits
        return await asyncio.to_thread(
            plan_copy,
            folder,
            max_bytes=limits.workspace_bytes,
            max_entries=limits.workspace_inodes,
            patterns=policy.workspace.patterns,
        )

    async def __aenter__(self) -> Session:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def plan_bytes(plan: str | bytes | Sequence[Mapping[str, Any]]) -> bytes:
    """Return a plan's text. Raises InputError for actions that JSON cannot hold, and for a file's name."""
    if isinstance(plan, bytes):
        return plan
    if isinstance(plan, os.PathLike) or (isinstance(plan, str) and plan.endswith(".json")):  # no plan ends like that
        raise InputError("plan_invalid", f"a plan is its text or its list of actions; read it from the file: {plan}")
    try:
        return (plan if isinstance(plan, str) else json.dumps(list(plan), allow_nan=False)).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError("plan_invalid", f"the plan cannot be written as JSON: {error}") from None


# What a session without an approver or a recorder does without is not imported for it.


def _asking(engine: PolicyEngine, approver: Approver, recorder: Recorder | None) -> Asking:
    from mindx.runtime.asking import Asking

    return Asking(engine, approver, recorder)


def _recorded(inner: Sandbox, recorder: Recorder, on_output: OutputListener | None) -> Sandbox:
    from mindx.runtime.recorded import RecordedSandbox

    return RecordedSandbox(inner, recorder, on_output)


def workspace_path(path: str) -> str:
    """Return a path of the workspace, absolute and normalised; whether it may be used is the policy's to say."""
    joined = posixpath.normpath(posixpath.join(WORKSPACE, path))
    return joined[1:] if joined.startswith("//") else joined


def with_image(loaded: LoadedPolicy, image: str) -> LoadedPolicy:
    """Return the policy with another image. Raises InputError for what is no image's name."""
    try:
        checked = Policy(image=image).image
    except TableError:
        raise InputError("image_name_invalid", f"{image!a} is not the name of an image") from None
    policy = loaded.policy.changed(image=checked)
    return dataclasses.replace(loaded, policy=policy, sha256=policy.sha256)
