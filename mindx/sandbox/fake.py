"""FakeSandbox: a sandbox in memory for tests and offline examples. It never touches the host and never spawns.

It passes the same contract suite as the real one (tests/contract), but it is no boundary: its programs are
Python coroutines of this process.
"""

from __future__ import annotations

import errno
import hashlib
import posixpath
from collections.abc import AsyncIterator, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import anyio

from mindx.core.command import WORKSPACE, Command, Exec, ListDir, MakeDir, ReadFile, Remove, Stat, Terminal, WriteFile
from mindx.core.receipt import ExecResult, ExitCause, KilledProcess, Receipt
from mindx.errors import FileError, SandboxError, SandboxLostError
from mindx.sandbox.base import BackgroundState, Entry, ManifestEntry, OutputListener, PutItem, Sandbox
from mindx.sandbox.capped import CappedStream
from mindx.sandbox.fake_background import FakeBackground
from mindx.sandbox.fake_programs import PIECE_BYTES, PROGRAMS, Program, ProgramContext, ProgramEnd
from mindx.sandbox.fake_terminal import FakeTerminal
from mindx.sandbox.fake_tree import ENTER, Node, Tree, file_error

DEFAULT_WORKSPACE_BYTES = 256 * 1024 * 1024
DEFAULT_WORKSPACE_INODES = 65_536
MAX_LIST_ENTRIES = 100_000
MAX_CHANGED = 100
FIXED_ENV: Mapping[str, str] = MappingProxyType(
    {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp/home", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
)
_FIRST_PID = 100


class FakeSandbox(Sandbox):
    """A sandbox in memory.

    `programs` are added to the built-in ones (fake_programs.PROGRAMS) and win over them: each is a coroutine
    function that takes a ProgramContext and returns an exit code, or raises ProgramEnd. An exception of any other
    kind is a fault of the program and goes on to the caller of `execute`.
    `background` is how many commands may run beside the others.
    `workspace_bytes` and `workspace_inodes` limit the workspace, as a policy's limits do. `commands` lists every
    Command that arrived, oldest first.
    """

    def __init__(
        self,
        programs: Mapping[str, Program] | None = None,
        workspace_bytes: int = DEFAULT_WORKSPACE_BYTES,
        workspace_inodes: int = DEFAULT_WORKSPACE_INODES,
        background: int = 0,
    ) -> None:
        self.tree = Tree(workspace_bytes, workspace_inodes)
        self.commands: list[Command] = []
        self._programs = {**PROGRAMS, **(programs or {})}
        self._started = False
        self._lost = ""
        self._turn = anyio.Lock()
        self._running: set[anyio.CancelScope] = set()
        self._most_background = background
        self._background: dict[str, FakeBackground] = {}
        self._next_pid = _FIRST_PID

    async def __aenter__(self) -> FakeSandbox:
        await super().__aenter__()
        return self

    async def start(self) -> None:
        """Start it; a sandbox starts once (SandboxError)."""
        if self._started or self._lost:
            raise SandboxError("sandbox_started_twice", "this sandbox was started before; make a new one")
        self._started = True

    async def close(self) -> None:
        """End it; a command that runs is killed and its caller gets SandboxLostError."""
        self.lose("it was closed")

    def lose(self, reason: str) -> None:
        """Break the sandbox, as if its container had died: every call from now on raises SandboxLostError."""
        self._lost = self._lost or reason
        for scope in self._running:
            scope.cancel()

    async def execute(self, command: Exec, on_output: OutputListener | None = None) -> ExecResult:
        """Run one of the programs; see Sandbox.execute."""
        self._take(command)
        if command.terminal is not None:
            raise SandboxError("bad_command", "a terminal is for what starts in the background")
        async with self._turn:
            return await self._start(command, on_output)

    async def _start(
        self, command: Exec, on_output: OutputListener | None, terminal: FakeTerminal | None = None
    ) -> ExecResult:
        self._check()
        program = self._programs.get(command.argv[0])
        cause = ExitCause.NOT_FOUND
        if command.executable is not None:
            program, cause = self._find(command.executable)
        if program is not None and not self._can_enter(command.cwd):
            program, cause = None, ExitCause.NOT_EXECUTABLE
        if program is None:
            return ExecResult(command, Receipt(cause), b"", b"")
        return await self._run(program, command, on_output, terminal)

    async def start_background(self, command: Exec) -> str:
        """Start one of the programs beside the others."""
        self._take(command)
        if not self._most_background:
            raise SandboxError("background_off", "this sandbox allows no background commands")
        if sum(1 for one in self._background.values() if not one.task.done()) >= self._most_background:
            raise SandboxError("background_full", "too many background commands run already; stop one")
        if command.terminal is not None and not command.terminal.fits:
            raise SandboxError("bad_command", "a terminal cannot have this size")
        background_id = f"b{len(self._background) + 1}"
        self._background[background_id] = FakeBackground(self._start, command)
        return background_id

    async def poll_background(self, background_id: str) -> BackgroundState:
        """Say how it stands."""
        return self._one_of_background(background_id).state(background_id)

    async def stop_background(self, background_id: str) -> BackgroundState:
        """Kill it, if it still runs."""
        one = self._one_of_background(background_id)
        await one.stop()
        return one.state(background_id)

    async def send_background(self, background_id: str, data: bytes) -> None:
        """Type into its terminal; what a program does not read waits without a limit."""
        self._one_of_background(background_id).terminal(background_id).type(data)

    async def resize_background(self, background_id: str, terminal: Terminal) -> None:
        """Give its terminal another size."""
        found = self._one_of_background(background_id).terminal(background_id)
        if not terminal.fits:
            raise SandboxError("bad_command", "a terminal cannot have this size")
        found.size = terminal

    async def await_background(self, background_id: str, seen: int, timeout_s: float) -> BackgroundState:
        """Wait for output or the end."""
        one = self._one_of_background(background_id)
        await one.news(seen, timeout_s)
        return one.state(background_id)

    def _one_of_background(self, background_id: str) -> FakeBackground:
        self._check()
        if background_id not in self._background:
            raise SandboxError("background_unknown", f"there is no background command {background_id!r}")
        return self._background[background_id]

    async def read_file(self, command: ReadFile) -> bytes:
        """Return a file's bytes."""
        self._take(command)
        return self.tree.read(command.path, command.max_bytes)

    async def write_file(self, command: WriteFile) -> None:
        """Write a file."""
        self._take(command)
        self.tree.write(command.path, command.data, command.mode)

    async def list_dir(self, command: ListDir) -> list[Entry]:
        """Return the entries, sorted by name."""
        self._take(command)
        children = self.tree.children(command.path)
        if len(children) > MAX_LIST_ENTRIES:
            raise file_error(errno.E2BIG, command.path)
        return [_entry(posixpath.join(command.path, name), node) for name, node in children]

    async def make_dir(self, command: MakeDir) -> None:
        """Make a directory and its missing parents."""
        self._take(command)
        self.tree.make_dir(command.path)

    async def remove(self, command: Remove) -> None:
        """Remove a file or link."""
        self._take(command)
        self.tree.remove(command.path)

    async def stat(self, command: Stat) -> Entry:
        """Return what is there."""
        self._take(command)
        return _entry(command.path, self.tree.look(command.path))

    async def put(self, items: Iterable[PutItem]) -> None:
        """Copy things into the workspace."""
        self._check()
        for item in items:
            path = posixpath.join(WORKSPACE, item.path)
            if item.kind == "directory":
                self.tree.make_dir(path)
                self.tree.look(path).mode = item.mode
            elif item.kind == "link":
                self.tree.link(path, item.target)
            else:
                data = b"".join(item.content()) if item.content else b""
                if len(data) != item.size:
                    raise file_error(errno.EIO, path)
                self.tree.write(path, data, item.mode)

    async def fetch(self, path: str, max_bytes: int) -> AsyncIterator[bytes]:
        """Yield a regular file's bytes."""
        self._check()
        data = self.tree.read(path, max_bytes)
        for start in range(0, len(data), PIECE_BYTES):
            self._check()
            yield data[start : start + PIECE_BYTES]

    async def manifest(self, max_entries: int = 200_000) -> list[ManifestEntry]:
        """Return every name of the workspace, sorted by path."""
        self._check()
        entries: list[ManifestEntry] = []

        def visit(path: str, node: Node) -> None:
            if len(entries) == max_entries:
                raise file_error(errno.E2BIG, WORKSPACE)
            digest = hashlib.sha256(node.data).hexdigest() if node.kind == "file" else ""
            entries.append(ManifestEntry(path, node.kind, node.mode, node.size, digest, node.target))

        self.tree.walk(visit)
        return sorted(entries, key=lambda entry: entry.path)

    def _take(self, command: Command) -> None:
        self._check()
        self.commands.append(command)

    def _check(self) -> None:
        if self._lost:
            raise SandboxLostError("sandbox_lost", f"the sandbox is gone: {self._lost}; start a new session")
        if not self._started:
            raise SandboxError("sandbox_not_started", "the sandbox was not started; use `async with`")

    def _find(self, executable: str) -> tuple[Program | None, ExitCause]:
        """Return the program behind a path: one of that very name, else the file's own name when it is there."""
        if executable in self._programs:
            return self._programs[executable], ExitCause.EXIT
        try:
            node = self.tree.look(executable, follow=True)
        except FileError:
            return None, ExitCause.NOT_FOUND
        if node.kind != "file" or not node.mode & ENTER:
            return None, ExitCause.NOT_EXECUTABLE
        return self._programs.get(posixpath.basename(executable)), ExitCause.NOT_EXECUTABLE

    def _can_enter(self, path: str) -> bool:
        try:
            node = self.tree.look(path, follow=True)
        except FileError:
            return False
        return node.kind == "directory" and bool(node.mode & ENTER)

    async def _run(
        self, program: Program, command: Exec, on_output: OutputListener | None, terminal: FakeTerminal | None
    ) -> ExecResult:
        out = CappedStream(command.max_output_bytes, head_only=terminal is not None)
        err = CappedStream(command.max_output_bytes)
        shown = {"stdout": 0, "stderr": 0}

        def write(name: str, stream: CappedStream, data: bytes) -> None:
            stream.write(data)
            piece = data[: command.max_output_bytes - shown[name]]
            if on_output is not None and piece:
                shown[name] += len(piece)
                on_output("stdout" if name == "stdout" else "stderr", piece)

        context = ProgramContext(
            argv=command.argv,
            cwd=command.cwd,
            env={**FIXED_ENV, **command.env},
            stdin=command.stdin,
            write_stdout=terminal.write if terminal else lambda data: write("stdout", out, data),
            write_stderr=terminal.write if terminal else lambda data: write("stderr", err, data),
            fs=self.tree,
            terminal=terminal,
        )
        if terminal is not None:
            terminal.connect(lambda data: write("stdout", out, data))
        pid, self._next_pid = self._next_pid, self._next_pid + 1
        before = self._held() if command.tells_files else None
        started_s = anyio.current_time()
        end = await self._until_deadline(program, context, command.timeout_s)
        self._check()  # closed or lost meanwhile: what ran is not known
        killed = (KilledProcess(pid, command.argv[0]),) if end.exit_cause is ExitCause.TIMEOUT else ()
        receipt = Receipt(
            exit_cause=end.exit_cause,
            exit_code=end.exit_code,
            signal=end.signal,
            duration_s=anyio.current_time() - started_s,
            stdout_bytes=out.total_bytes,
            stderr_bytes=err.total_bytes,
            stdout_sha256=out.sha256,
            stderr_sha256=err.sha256,
            oom_kills=end.oom_kills,
            killed=killed,
            killed_count=len(killed),
            **self._changed_since(before),
        )
        (stdout, stdout_cut), (stderr, stderr_cut) = out.result(), err.result()
        return ExecResult(command, receipt, stdout, stderr, stdout_cut, stderr_cut)

    def _held(self) -> dict[str, tuple[object, ...]]:
        """Return what can be seen to change of all that the workspace holds, by name."""
        held: dict[str, tuple[object, ...]] = {}

        def visit(path: str, node: Node) -> None:
            name = f"{path}/" if node.kind == "directory" else path
            held[name] = (node.mode, node.data, node.target, tuple(node.children), node.mtime_s)

        visit(".", self.tree.look(WORKSPACE))
        self.tree.walk(visit)
        return held

    def _changed_since(self, before: dict[str, tuple[object, ...]] | None) -> dict[str, Any]:
        if before is None:
            return {}
        names = sorted(name for name, seen in self._held().items() if before.get(name) != seen)
        return {
            "files_changed": tuple(names[:MAX_CHANGED]),
            "files_changed_count": len(names),
            "files_changed_complete": True,
        }

    async def _until_deadline(self, program: Program, context: ProgramContext, timeout_s: float | None) -> ProgramEnd:
        with anyio.move_on_after(timeout_s) as scope:
            self._running.add(scope)
            try:
                end = await _end_of(program, context)
            except ProgramEnd as other:
                end = other
            finally:
                self._running.discard(scope)
        # A program that swallows its kill ends no better than one that does not.
        return ProgramEnd(ExitCause.TIMEOUT) if scope.cancel_called else end


async def _end_of(program: Program, context: ProgramContext) -> ProgramEnd:
    if context.terminal is None:
        return ProgramEnd(ExitCause.EXIT, exit_code=await program(context))
    code = await context.terminal.until_interrupt(program(context))
    return ProgramEnd(ExitCause.SIGNAL, signal=2) if code is None else ProgramEnd(ExitCause.EXIT, exit_code=code)


def _entry(path: str, node: Node) -> Entry:
    return Entry(path, node.kind, node.mode, node.size, node.mtime_s)
