"""The Session for scripts and notebooks: the same calls without `await`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from mindx.core.receipt import ExecResult
from mindx.errors import SandboxError
from mindx.policy.approval import Approver
from mindx.policy.load import LoadedPolicy
from mindx.runtime.sandboxes import SandboxFactory, docker_sandbox
from mindx.runtime.session import Session
from mindx.sandbox.base import Entry, OutputListener
from mindx.workspace.changes import Change

if TYPE_CHECKING:
    from mindx.runtime.session_plan import PlanResult

T = TypeVar("T")


class SyncSession:
    """One container, its workspace and its policy, as `Session` has them; every call waits until it is done.

    It has an event loop of its own in a thread of its own, so it may be used where a loop runs already, as in a
    notebook, and from several threads. Use it in a `with` block, or call `open` and `close`. The arguments are
    Session's, and so is what is raised. Ctrl-C ends the call that waits, and the program with it.
    """

    def __init__(
        self,
        policy: str | Path | LoadedPolicy | None = None,
        workspace: str | Path | None = None,
        image: str | None = None,
        *,
        autonomous: bool = False,
        approver: Approver | None = None,
        tells_files: bool = False,
        open_sandbox: SandboxFactory = docker_sandbox,
    ) -> None:
        self._session = Session(
            policy,
            workspace,
            image,
            autonomous=autonomous,
            approver=approver,
            tells_files=tells_files,
            open_sandbox=open_sandbox,
        )
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Start the container and copy the workspace in. Raises SandboxError (session_open) when it is open."""
        with self._lock:
            if self._loop is not None:
                raise SandboxError("session_open", "the session is open already")
            self._loop = asyncio.new_event_loop()
            # A daemon: a program that forgets to close must not wait for ever at its end.
            self._thread = threading.Thread(target=_serve, args=(self._loop,), name="mindx-session", daemon=True)
            self._thread.start()
        try:
            self._wait(self._session.open())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the container and wait until it is gone; may be called twice, from any thread."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(self._session.close(), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str | None = None,
        timeout_s: float | None = None,
        on_output: OutputListener | None = None,
    ) -> ExecResult:
        """Run one program to its end, as Session.run; `on_output` is called in the session's own thread."""
        return self._wait(
            self._session.run(argv, cwd=cwd, env=env, stdin=stdin, timeout_s=timeout_s, on_output=on_output)
        )

    def run_plan(
        self, plan: str | bytes | Sequence[Mapping[str, Any]], *, keep_going: bool = False, pinned: bool = False
    ) -> PlanResult:
        """Run a plan in this session's container, as Session.run_plan."""
        return self._wait(self._session.run_plan(plan, keep_going=keep_going, pinned=pinned))

    def read(self, path: str) -> bytes:
        """Return a file's bytes. Raises DeniedError, FileError."""
        return self._wait(self._session.read(path))

    def write(self, path: str, data: bytes | str, *, mode: int | None = None) -> None:
        """Replace or create a file (text as UTF-8); its folder must exist. Raises DeniedError, FileError."""
        self._wait(self._session.write(path, data, mode=mode))

    def list(self, path: str = ".") -> list[Entry]:
        """Return a folder's entries, sorted by name. Raises DeniedError, FileError."""
        return self._wait(self._session.list(path))

    def mkdir(self, path: str) -> None:
        """Make a folder and its missing parents. Raises DeniedError, FileError."""
        self._wait(self._session.mkdir(path))

    def remove(self, path: str) -> None:
        """Remove one file; needs `autonomous`. Raises DeniedError, FileError."""
        self._wait(self._session.remove(path))

    def stat(self, path: str) -> Entry:
        """Return what is at a path; a link is a link. Raises DeniedError, FileError."""
        return self._wait(self._session.stat(path))

    def changes(self) -> tuple[Change, ...]:
        """Return the differences from what was copied in, by digest."""
        return self._wait(self._session.changes())

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it in the session's loop; when the waiting ends early (Ctrl-C), so does the work."""
        loop = self._loop
        if loop is None:
            work.close()
            raise SandboxError("session_closed", "the session is not open; use it inside `with`")
        future: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def __enter__(self) -> SyncSession:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped, then end what is left in it."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
