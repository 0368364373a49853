"""Probes: each tries to break one promise, on the user's own engine, through the real driver."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from mindx.core.command import Command, Exec
from mindx.core.count import counted
from mindx.core.receipt import ExecResult
from mindx.core.verdict import Verdict
from mindx.errors import MindxError, SandboxLostError
from mindx.sandbox.attest import Attestation
from mindx.sandbox.base import Sandbox
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.driver import Driver

T = TypeVar("T")
PROBE_WITHIN_S = 15.0
FILE_WITHIN_S = 3.0  # no deadline of the guest's stands behind a file operation
FORBIDDEN = "mindx-forbidden"
# What the kernel says of a call that it refuses. Another error means that the call got past the refusal, and failed on
# what it was given.
REFUSALS = frozenset({"EPERM", "EACCES", "ENOSYS"})


class Broken(Exception):
    """The promise does not hold; the text says what happened."""


class ExaminedSandbox(DockerSandbox):
    """A sandbox that starts although something is not as asked: the probes are there to show it."""

    def _refuse(self, attestation: Attestation) -> None:
        """Leave the judgement to the probes."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One promise and the try to break it. `run` returns what happened, or raises Broken."""

    probe_id: str
    promise: str
    tried: str
    run: Callable[[Stage], Awaitable[str]]


class Stage:
    """What the probes of one run share: settings and a started sandbox; a lost one is replaced by a new one."""

    def __init__(self, settings: ContainerSettings, progress: Callable[[str], None] | None = None) -> None:
        self.settings = settings
        self._progress = progress
        self._sandbox: ExaminedSandbox | None = None

    async def sandbox(self) -> ExaminedSandbox:
        """Return the started sandbox. Raises what a start raises."""
        if self._sandbox is None:
            self._sandbox = ExaminedSandbox(self.settings, self._progress)
            await self._sandbox.start()
        return self._sandbox

    async def driver(self) -> Sandbox:
        """Return the driver, as a session has it; its policy denies one program and allows all others."""
        return Driver(await self.sandbox(), _judge)

    async def renew(self) -> None:
        """End the sandbox; the next probe gets a new one."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.close()

    async def execute(
        self, *argv: str, timeout_s: float = PROBE_WITHIN_S, stdin: bytes = b"", max_output_bytes: int = 1 << 20
    ) -> ExecResult:
        """Run a program in the container."""
        driver = await self.driver()
        command = Exec(tuple(argv), stdin=stdin, timeout_s=timeout_s, max_output_bytes=max_output_bytes)
        return await driver.execute(command)

    async def python(self, program: str, *arguments: str, timeout_s: float = PROBE_WITHIN_S) -> Any:
        """Run a Python program in the container and return what it printed as JSON. Raises Broken when it failed."""
        result = await self.execute("python3", "-I", "-c", program, *arguments, timeout_s=timeout_s)
        if not result.ok:
            said = (result.stderr_text or result.stdout_text).strip()[-300:]
            raise Broken(f"the probe's program ended by {result.exit_cause.value} {result.exit_code}: {said}")
        try:
            return json.loads(result.stdout)
        except ValueError:
            raise Broken(f"the probe's program said {result.stdout_text[:200]!r}") from None

    async def answered(self, operation: Awaitable[T]) -> T:
        """Return what a file operation returns. Raises Broken when it hangs, and ends its sandbox."""
        try:
            return await asyncio.wait_for(operation, FILE_WITHIN_S)
        except asyncio.TimeoutError:
            await self.renew()
            raise Broken(f"it hung for {FILE_WITHIN_S:g} s") from None


def _judge(command: Command) -> Verdict:
    about = command.argv[0] if isinstance(command, Exec) else getattr(command, "path", "")
    if about.endswith(FORBIDDEN):
        return Verdict("deny", "verify", "the probe's policy denies it")
    return Verdict("allow", "verify", "a probe")


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one probe. `happened` is untrusted text."""

    probe_id: str
    promise: str
    tried: str
    happened: str
    passed: bool


async def examine(probe: Probe, stage: Stage) -> Finding:
    """Run one probe. An error is a failed probe; whether the engine is there has been asked before."""
    try:
        happened, passed = await probe.run(stage), True
    except Broken as broken:
        happened, passed = str(broken), False
    except MindxError as error:
        happened, passed = f"{error.code}: {error.message}", False
        if isinstance(error, SandboxLostError):
            await stage.renew()
    return Finding(probe.probe_id, probe.promise, probe.tried, happened, passed)


def expect(holds: bool, otherwise: str) -> None:
    """Raise Broken with `otherwise` unless the promise holds."""
    if not holds:
        raise Broken(otherwise)


def expect_refused(results: dict[str, str], also: Iterable[str] = ()) -> str:
    """Return a summary when each try was answered by a refusal, or by one of `also`. Raises Broken."""
    refusals = REFUSALS.union(also)
    through = sorted(f"{name} ({said})" for name, said in results.items() if said not in refusals)
    expect(bool(results), "nothing was tried")
    expect(not through, f"not refused: {', '.join(through)}")
    answers = sorted(set(results.values()))
    return f"{counted(len(results), 'try')} refused ({', '.join(answers)})"
