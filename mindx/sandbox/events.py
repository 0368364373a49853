"""What the engine says about our containers: one stream of events per process and engine, filtered to our label.

It tells how a container died, which the removed container can no longer say, and who else touched it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import docker

from mindx.sandbox.engine import ENGINE_EXCEPTIONS, connect

LABEL = "mindx.session"
# The engine's users are root and are not defended against, but what they touch is no longer only ours.
FOREIGN = ("exec_create", "exec_start", "extract-to-dir")


@dataclass(frozen=True, slots=True)
class EngineEvent:
    """One event of one container: `action` is the engine's word, `time_ns` its clock."""

    action: str
    time_ns: int
    exit_code: str = ""

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> tuple[str, EngineEvent] | None:
        """Return the session's id and the event, or None for what is no event of a session."""
        actor = document.get("Actor")
        attributes = actor.get("Attributes") if isinstance(actor, Mapping) else None
        if not isinstance(attributes, Mapping) or not isinstance(attributes.get(LABEL), str):
            return None
        time_ns = document.get("timeNano")
        action = str(document.get("Action", ""))
        exit_code = str(attributes.get("exitCode", ""))
        return attributes[LABEL], cls(action, time_ns if isinstance(time_ns, int) else 0, exit_code)

    @property
    def foreign(self) -> bool:
        """True for what mindx itself never does to a container of its own."""
        return self.action.partition(":")[0] in FOREIGN


Listener = Callable[[EngineEvent], None]


class Events:
    """One open stream, read by one thread. It is opened for the first session and stays open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, Listener] = {}
        self._client: docker.DockerClient | None = None

    def watch(self, session_id: str, listener: Listener) -> None:
        """Call `listener` in the reading thread for each event of a session from now on; blocking until it is open.

        Raises EngineError, or an exception in ENGINE_EXCEPTIONS.
        """
        with self._lock:
            self._listeners[session_id] = listener
            if self._client is None:
                client = connect()
                try:
                    stream = client.events(decode=True, filters={"type": "container", "label": LABEL})
                except BaseException:
                    client.close()
                    raise
                self._client = client
                thread = threading.Thread(target=self._read, args=(client, stream), name="mindx-events", daemon=True)
                thread.start()

    def unwatch(self, session_id: str) -> None:
        """Tell a session nothing more."""
        with self._lock:
            self._listeners.pop(session_id, None)

    def _read(self, client: docker.DockerClient, stream: Any) -> None:
        with contextlib.suppress(*ENGINE_EXCEPTIONS, OSError, ValueError):
            for document in stream:
                self._tell(document)
        with self._lock:
            if self._client is client:
                self._client = None  # the engine ended it; the next session opens a new one
        client.close()

    def _tell(self, document: Any) -> None:
        found = EngineEvent.parse(document) if isinstance(document, Mapping) else None
        if found is not None:
            session_id, event = found
            with self._lock:
                listener = self._listeners.get(session_id)
            if listener is not None:
                listener(event)


_streams: dict[tuple[int, str], Events] = {}
_streams_lock = threading.Lock()


def current_events() -> Events:
    """Return this process's stream for the engine that `connect` reaches; a forked child gets one of its own."""
    with _streams_lock:
        return _streams.setdefault((os.getpid(), os.environ.get("DOCKER_HOST", "")), Events())
