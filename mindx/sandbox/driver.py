"""The driver: the only way a Command reaches a container, and the place where the policy has its say every time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from mindx.core.command import Command, Exec, ListDir, MakeDir, ReadFile, Remove, Stat, Terminal, WriteFile
from mindx.core.receipt import ExecResult
from mindx.core.verdict import Verdict
from mindx.errors import DeniedError
from mindx.sandbox.attest import Attestation
from mindx.sandbox.base import BackgroundState, Entry, ManifestEntry, OutputListener, PutItem, Sandbox

LEAST_S = 0.01  # within every policy's command_timeout
Judge = Callable[[Command], Verdict]
# Asks a person: the final Verdict, and the Command that it is about.
Decide = Callable[[Command], Awaitable[tuple[Verdict, Command]]]
C = TypeVar("C", bound=Command)


class Driver(Sandbox):
    """A sandbox that asks the policy before each command and raises DeniedError for whatever is not allowed.

    `decide` is awaited when the verdict is `ask`; without it `ask` is a denial. A person may have changed the Command:
    what it returns is what is sent. With `tells_files` every Receipt names the files that changed. The host's own work
    (put, fetch and manifest: copy in and copy out) is not the plan's and is not judged.
    """

    def __init__(
        self, sandbox: Sandbox, judge: Judge, decide: Decide | None = None, *, tells_files: bool = False
    ) -> None:
        self._sandbox = sandbox
        self._judge = judge
        self._decide = decide
        self._tells_files = tells_files

    async def _admit(self, command: C) -> C:
        """Return the Command that may be sent. Raises DeniedError."""
        verdict = self._judge(command)
        if verdict.decision == "allow":
            return command
        admitted: Command = command
        if verdict.decision == "ask" and self._decide is not None:
            verdict, admitted = await self._decide(command)
        if not verdict.allowed:
            details = {"rule": verdict.rule, "decision": verdict.decision}
            raise DeniedError("denied_by_policy", verdict.reason, details=details)
        if not isinstance(admitted, type(command)):
            raise DeniedError("denied_by_policy", "it was changed into another kind of command")
        return admitted

    @property
    def attestation(self) -> Attestation | None:
        """The inner sandbox's."""
        return self._sandbox.attestation

    async def start(self) -> None:
        """Start the sandbox."""
        await self._sandbox.start()

    async def close(self) -> None:
        """End the sandbox."""
        await self._sandbox.close()

    async def execute(self, command: Exec, on_output: OutputListener | None = None) -> ExecResult:
        """Run a program, if the policy allows it."""
        return await self._sandbox.execute(self._telling(await self._admit(command)), on_output)

    async def start_background(self, command: Exec) -> str:
        """Start a program beside the others, if the policy allows it; without a deadline the session's own holds."""
        if command.timeout_s is not None:
            return await self._sandbox.start_background(self._telling(await self._admit(command)))
        admitted = await self._admit(replace(command, timeout_s=LEAST_S))
        return await self._sandbox.start_background(self._telling(replace(admitted, timeout_s=None)))

    def _telling(self, command: Exec) -> Exec:
        return replace(command, tells_files=True) if self._tells_files else command

    async def poll_background(self, background_id: str) -> BackgroundState:
        """Say how it stands."""
        return await self._sandbox.poll_background(background_id)

    async def stop_background(self, background_id: str) -> BackgroundState:
        """Kill it."""
        return await self._sandbox.stop_background(background_id)

    async def send_background(self, background_id: str, data: bytes) -> None:
        """Type into the terminal of a program that the policy has allowed."""
        await self._sandbox.send_background(background_id, data)

    async def resize_background(self, background_id: str, terminal: Terminal) -> None:
        """Give its terminal another size."""
        await self._sandbox.resize_background(background_id, terminal)

    async def await_background(self, background_id: str, seen: int, timeout_s: float) -> BackgroundState:
        """Wait for output or the end."""
        return await self._sandbox.await_background(background_id, seen, timeout_s)

    async def read_file(self, command: ReadFile) -> bytes:
        """Read a file, if the policy allows it."""
        return await self._sandbox.read_file(await self._admit(command))

    async def write_file(self, command: WriteFile) -> None:
        """Write a file, if the policy allows it."""
        await self._sandbox.write_file(await self._admit(command))

    async def list_dir(self, command: ListDir) -> list[Entry]:
        """List a directory, if the policy allows it."""
        return await self._sandbox.list_dir(await self._admit(command))

    async def make_dir(self, command: MakeDir) -> None:
        """Make a directory, if the policy allows it."""
        await self._sandbox.make_dir(await self._admit(command))

    async def remove(self, command: Remove) -> None:
        """Remove a file, if the policy allows it."""
        await self._sandbox.remove(await self._admit(command))

    async def stat(self, command: Stat) -> Entry:
        """Look at a path, if the policy allows it."""
        return await self._sandbox.stat(await self._admit(command))

    async def put(self, items: Iterable[PutItem]) -> None:
        """Copy in."""
        await self._sandbox.put(items)

    def fetch(self, path: str, max_bytes: int) -> AsyncIterator[bytes]:
        """Copy out one file."""
        return self._sandbox.fetch(path, max_bytes)

    async def manifest(self, max_entries: int = 200_000) -> list[ManifestEntry]:
        """List the whole workspace with digests."""
        return await self._sandbox.manifest(max_entries)
