"""The contract of a sandbox: the real one and the fake pass the same suite (tests/contract)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from mindx.core.command import Exec, ListDir, MakeDir, ReadFile, Remove, Stat, Terminal, WriteFile
from mindx.core.frozen import dataclass
from mindx.core.receipt import ExecResult
from mindx.errors import SandboxError

EntryKind = Literal["file", "directory", "link", "other"]
if TYPE_CHECKING:
    from mindx.sandbox.attest import Attestation

OutputListener = Callable[[Literal["stdout", "stderr"], bytes], None]


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in the container. `mode` holds the permission bits only; `mtime_s` is seconds since 1970."""

    path: str
    kind: EntryKind
    mode: int
    size: int
    mtime_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PutItem:
    """One thing to copy in. `path` is relative to the workspace, parents come first.

    `content` of a file is called once, when its turn comes, and yields its bytes, `size` in all.
    `target` is the text of a link.
    """

    path: str
    kind: Literal["file", "directory", "link"]
    mode: int
    size: int = 0
    content: Callable[[], Iterable[bytes]] | None = None
    target: str = ""


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One name of the workspace, relative to it. `sha256` is of a file's content, "" when it cannot be read."""

    path: str
    kind: EntryKind
    mode: int
    size: int
    sha256: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class BackgroundState:
    """How a background command stands: `result` is None while it runs, and the output is what has come so far."""

    background_id: str
    command: Exec
    stdout: bytes
    stderr: bytes
    result: ExecResult | None

    @property
    def running(self) -> bool:
        """True until it has ended and all that it left is gone."""
        return self.result is None


class Sandbox(ABC):
    """One container. Every method raises SandboxLostError once the container is gone or lies.

    File methods raise FileError (the file's own trouble) and never follow a link in any part of the path.
    """

    @property
    def attestation(self) -> Attestation | None:
        """What was found to be in force at the start; None before it, and where there is no container."""
        return None

    @abstractmethod
    async def start(self) -> None:
        """Start it. Raises EngineError, ImageError or SandboxError, and leaves nothing behind."""

    @abstractmethod
    async def close(self) -> None:
        """End it and wait until it is gone. May be called twice, and at any point of a failed start."""

    @abstractmethod
    async def execute(self, command: Exec, on_output: OutputListener | None = None) -> ExecResult:
        """Run a program to its end and clean up all that it left. A failed command is a value.

        `on_output` gets each piece of output as it arrives, up to the cap; if it raises, the command is killed and
        the exception goes on to the caller. Executions queue: one runs at a time.
        Cancelling the call kills the command and all of it before CancelledError goes on.
        """

    async def start_background(self, command: Exec) -> str:
        """Start a program beside the others and return its id; it survives them, and dies with the session.

        It runs as a user of its own with the session's group, and writes only what the group may write.
        `timeout_s` None: until it is stopped. With `terminal` it is for send, resize and await too.
        Raises SandboxError: background_off, background_full, bad_command.
        """
        raise SandboxError("background_off", "This sandbox runs nothing in the background.")

    async def poll_background(self, background_id: str) -> BackgroundState:
        """Say how it stands. Raises SandboxError: background_unknown, spawn_failed."""
        raise SandboxError("background_unknown", "This sandbox runs nothing in the background.")

    async def stop_background(self, background_id: str) -> BackgroundState:
        """Kill it and all that it left, if it still runs, and say how it ended. Raises as poll_background does."""
        return await self.poll_background(background_id)

    async def send_background(self, background_id: str, data: bytes) -> None:
        """Type into the terminal of one that runs; what the program does not take yet waits, up to a limit.

        Raises SandboxError: background_unknown, background_over, background_no_terminal, background_stuck.
        """
        raise SandboxError("background_unknown", "This sandbox runs nothing in the background.")

    async def resize_background(self, background_id: str, terminal: Terminal) -> None:
        """Give the terminal of one that runs another size. Raises as send_background does, and bad_command."""
        raise SandboxError("background_unknown", "This sandbox runs nothing in the background.")

    async def await_background(self, background_id: str, seen: int, timeout_s: float) -> BackgroundState:
        """Say how it stands as soon as more than `seen` bytes of stdout are kept, it has ended, or the time is over."""
        return await self.poll_background(background_id)

    @abstractmethod
    async def read_file(self, command: ReadFile) -> bytes:
        """Return a file's bytes. Raises FileError: ENOENT, EISDIR, ELOOP (a link), EINVAL (not regular), EFBIG."""

    @abstractmethod
    async def write_file(self, command: WriteFile) -> None:
        """Write a file. Raises FileError: ENOENT (no parent), EISDIR, ENOSPC, ELOOP."""

    @abstractmethod
    async def list_dir(self, command: ListDir) -> list[Entry]:
        """Return the entries, sorted by name. Raises FileError: ENOENT, ENOTDIR, ELOOP, E2BIG (over 100,000 names)."""

    @abstractmethod
    async def make_dir(self, command: MakeDir) -> None:
        """Make a directory. Raises FileError: EEXIST (a file is there), ENOTDIR, ELOOP, ENOSPC."""

    @abstractmethod
    async def remove(self, command: Remove) -> None:
        """Remove a file or link. Raises FileError: ENOENT, EISDIR."""

    @abstractmethod
    async def stat(self, command: Stat) -> Entry:
        """Return what is there; a link is a link. Raises FileError: ENOENT."""

    @abstractmethod
    async def put(self, items: Iterable[PutItem]) -> None:
        """Copy things into the workspace in one stream. Raises FileError (ENOSPC, ...) naming the path."""

    @abstractmethod
    def fetch(self, path: str, max_bytes: int) -> AsyncIterator[bytes]:
        """Yield a regular file's bytes (absolute path). Raises FileError as read_file does."""

    @abstractmethod
    async def manifest(self, max_entries: int = 200_000) -> list[ManifestEntry]:
        """Return every name of the workspace with its digest, sorted by path. Raises FileError E2BIG over the limit."""

    async def __aenter__(self) -> Sandbox:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
