"""The container of an agent's session: opened when something first asks for it."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from mindx.core.agent_session import SessionEnvironment, SessionPolicy
from mindx.policy.engine import PolicyEngine
from mindx.runtime.session import Session
from mindx.sandbox.base import Sandbox

# Makes the (not yet opened) session of one container. It has no network: `allow_network` has nothing to switch on.
OpenSession = Callable[[SessionEnvironment, "SessionPolicy | None"], Session]


def default_session(environment: SessionEnvironment, policy: SessionPolicy | None) -> Session:
    """Return a session under the preset policy `default`, with the environment's folder copied in."""
    return Session(workspace=environment.workspace_root, tells_files=True)


class LazySandbox:
    """At most one open Session, made by `make` at the first `open`. `session` is it, or None."""

    def __init__(self, make: Callable[[], Session]) -> None:
        self.session: Session | None = None
        self.opened = 0
        self._make = make
        self._made: Session | None = None  # not open yet
        self._lock = anyio.Lock()

    def engine(self) -> PolicyEngine:
        """Return the engine that the sandbox's Commands are judged by; it opens nothing. Raises InputError."""
        return self._current().engine

    def _current(self) -> Session:
        if self.session is not None:
            return self.session
        if self._made is None:
            self._made = self._make()
        return self._made

    async def open(self) -> Sandbox:
        """Return the sandbox behind the policy, opening it if need be. Raises SandboxError, InputError."""
        async with self._lock:
            if self.session is None:
                session = self._current()
                try:
                    await session.open()
                finally:
                    self._made = None  # one that did not open is not tried again
                self.session = session
                self.opened += 1
            return self.session.sandbox

    async def close(self) -> None:
        """End the container, if there is one; the next `open` makes another."""
        async with self._lock:
            session, self.session = self.session, None
            if session is not None:
                await session.close()
