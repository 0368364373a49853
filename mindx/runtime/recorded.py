"""A sandbox whose every Command is recorded, with what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any, Literal, TypeVar

from mindx.core.command import Exec, FileCommand, ListDir, MakeDir, ReadFile, Remove, Stat, Terminal, WriteFile
from mindx.core.receipt import ExecResult, Receipt
from mindx.errors import MindxError, SandboxError, StateError
from mindx.sandbox.attest import Attestation
from mindx.sandbox.base import BackgroundState, Entry, ManifestEntry, OutputListener, PutItem, Sandbox
from mindx.trace.recorder import Recorder

T = TypeVar("T")


class RecordedSandbox(Sandbox):
    """Does what `inner` does and records it: one event for a Command, when it has ended, was refused or broke.

    `on_output` hears the output of every Exec, before the caller's own listener.
    """

    def __init__(self, inner: Sandbox, recorder: Recorder, on_output: OutputListener | None = None) -> None:
        self._inner = inner
        self._recorder = recorder
        self._on_output = on_output
        self._background: set[str] = set()  # those whose end is not recorded yet

    @property
    def attestation(self) -> Attestation | None:
        """The inner sandbox's."""
        return self._inner.attestation

    async def start(self) -> None:
        """Start the inner sandbox and record what was found to be in force."""
        await self._inner.start()
        if self._inner.attestation is not None:
            self._recorder.record("attested", **self._inner.attestation.to_dict())

    async def close(self) -> None:
        """Close the inner sandbox, and record before which background commands have ended and which it kills."""
        try:
            for background_id in sorted(self._background):
                await self._record_last(background_id)
        finally:
            await self._inner.close()

    async def execute(self, command: Exec, on_output: OutputListener | None = None) -> ExecResult:
        """Execute and record the Receipt; what was printed is the Observation's to keep."""
        asked = _asked(command)
        try:
            result = await self._inner.execute(command, _hearing(self._on_output, on_output))
        except (Exception, asyncio.CancelledError) as error:
            self._record_failure("exec", error, **asked)
            raise
        receipt = result.receipt
        if result.command.argv != command.argv:  # a person changed it on the way
            asked |= {"argv": result.command.argv, "cwd": result.command.cwd, "asked_argv": command.argv}
        self._recorder.record("exec", receipt.figures_json(), **asked, **_told(receipt))
        return result

    async def start_background(self, command: Exec) -> str:
        """Start a program beside the others and record it; `timeout_s` None is until it is stopped."""
        asked = {**_asked(command), "timeout_s": command.timeout_s}
        try:
            background_id = await self._inner.start_background(command)
        except (Exception, asyncio.CancelledError) as error:
            self._record_failure("background_started", error, **asked)
            raise
        self._background.add(background_id)
        self._recorder.record("background_started", background_id=background_id, **asked)
        return background_id

    async def poll_background(self, background_id: str) -> BackgroundState:
        """Say how it stands, and record its Receipt the first time that it is seen to have ended."""
        return await self._look(background_id, self._inner.poll_background(background_id))

    async def stop_background(self, background_id: str) -> BackgroundState:
        """Kill it, and record its Receipt."""
        return await self._look(background_id, self._inner.stop_background(background_id))

    async def send_background(self, background_id: str, data: bytes) -> None:
        """Type into its terminal, and record how many bytes."""
        asked = {"background_id": background_id, "bytes": len(data)}
        await self._terminal("background_sent", asked, self._inner.send_background(background_id, data))

    async def resize_background(self, background_id: str, terminal: Terminal) -> None:
        """Give its terminal another size, and record it."""
        asked = {"background_id": background_id, "rows": terminal.rows, "cols": terminal.cols}
        await self._terminal("background_resized", asked, self._inner.resize_background(background_id, terminal))

    async def _terminal(self, kind: str, asked: dict[str, Any], work: Awaitable[None]) -> None:
        try:
            await work
        except (Exception, asyncio.CancelledError) as error:
            self._record_failure(kind, error, **asked)
            raise
        self._recorder.record(kind, **asked)

    async def await_background(self, background_id: str, seen: int, timeout_s: float) -> BackgroundState:
        """Wait for output or the end, and record its Receipt the first time that it is seen to have ended."""
        return await self._look(background_id, self._inner.await_background(background_id, seen, timeout_s))

    async def _look(self, background_id: str, asking: Awaitable[BackgroundState]) -> BackgroundState:
        try:
            state = await asking
        except SandboxError as error:
            if background_id in self._background:
                self._background.discard(background_id)
                self._recorder.record("background_ended", background_id=background_id, error=_error(error))
            raise
        if state.result is not None and background_id in self._background:
            self._background.discard(background_id)
            receipt, argv = state.result.receipt, state.result.command.argv
            figures, told = receipt.figures_json(), _told(receipt)
            self._recorder.record("background_ended", figures, background_id=background_id, argv=argv, **told)
        return state

    async def _record_last(self, background_id: str) -> None:
        try:
            state = await self.poll_background(background_id)
        except SandboxError:
            return  # recorded with its reason
        self._background.discard(background_id)
        if state.running:
            self._recorder.record("background_left", background_id=background_id, argv=state.command.argv)

    async def read_file(self, command: ReadFile) -> bytes:
        """Read and record the size."""
        data = await self._file("read_file", command, self._inner.read_file(command))
        self._recorder.record("read_file", path=command.path, bytes=len(data))
        return data

    async def write_file(self, command: WriteFile) -> None:
        """Write and record the size."""
        await self._file("write_file", command, self._inner.write_file(command))
        self._recorder.record("write_file", path=command.path, bytes=len(command.data))

    async def list_dir(self, command: ListDir) -> list[Entry]:
        """List and record the number of names."""
        entries = await self._file("list_dir", command, self._inner.list_dir(command))
        self._recorder.record("list_dir", path=command.path, entries=len(entries))
        return entries

    async def make_dir(self, command: MakeDir) -> None:
        """Make and record it."""
        await self._file("make_dir", command, self._inner.make_dir(command))
        self._recorder.record("make_dir", path=command.path)

    async def remove(self, command: Remove) -> None:
        """Remove and record it."""
        await self._file("remove", command, self._inner.remove(command))
        self._recorder.record("remove", path=command.path)

    async def stat(self, command: Stat) -> Entry:
        """Look and record it."""
        entry = await self._file("stat", command, self._inner.stat(command))
        self._recorder.record("stat", path=command.path, entry=entry.kind)
        return entry

    async def put(self, items: Iterable[PutItem]) -> None:
        """Copy in; the caller records what."""
        await self._inner.put(items)

    def fetch(self, path: str, max_bytes: int) -> AsyncIterator[bytes]:
        """Copy out; the caller records what."""
        return self._inner.fetch(path, max_bytes)

    async def manifest(self, max_entries: int = 200_000) -> list[ManifestEntry]:
        """Return the inner sandbox's manifest."""
        return await self._inner.manifest(max_entries)

    async def _file(self, kind: str, command: FileCommand, work: Awaitable[T]) -> T:
        try:
            return await work
        except (Exception, asyncio.CancelledError) as error:
            self._record_failure(kind, error, path=command.path)
            raise

    def _record_failure(self, kind: str, error: BaseException, **data: Any) -> None:
        """Record why a Command broke. A full disk must not hide from the caller that it was cancelled."""
        try:
            self._recorder.record(kind, **data, error=_error(error))
        except StateError:
            if not isinstance(error, asyncio.CancelledError):
                raise


def _hearing(first: OutputListener | None, second: OutputListener | None) -> OutputListener | None:
    return first or second if first is None or second is None else both_hear(first, second)


def both_hear(first: OutputListener, second: OutputListener) -> OutputListener:
    """Return a listener that tells both."""

    def tell(stream: Literal["stdout", "stderr"], data: bytes) -> None:
        first(stream, data)
        second(stream, data)

    return tell


def _asked(command: Exec) -> dict[str, Any]:
    asked: dict[str, Any] = {"argv": command.argv, "cwd": command.cwd}
    if command.env:
        asked["env"] = command.env
    if command.executable:
        asked["executable"] = command.executable
    if command.stdin:
        asked["stdin_bytes"] = len(command.stdin)
    if command.terminal is not None:
        asked["terminal"] = {"rows": command.terminal.rows, "cols": command.terminal.cols}
    return asked


def _told(receipt: Receipt) -> dict[str, Any]:
    """Return what of a Receipt a program may have chosen."""
    told: dict[str, Any] = {"killed": [process.name for process in receipt.killed]}
    if receipt.files_changed_count is not None:
        told["files_changed"] = receipt.files_changed
        told["files_changed_count"] = receipt.files_changed_count
        told["files_changed_complete"] = receipt.files_changed_complete
    return told


def _error(error: BaseException) -> dict[str, Any]:
    if isinstance(error, MindxError):
        return {"code": error.code, "message": error.message}
    if isinstance(error, asyncio.CancelledError):
        return {"code": "cancelled", "message": "the caller gave up"}
    return {"code": "bug", "message": type(error).__name__}
