"""What the engine says about our containers: one stream of events per process and engine, filtered to our label.

It tells how a container died, which the removed container can no longer say, and who else touched it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mindx.core.frozen import dataclass
from mindx.errors import EngineError
from mindx.sandbox import engine_way

if TYPE_CHECKING:
    import docker

_LOG = logging.getLogger("mindx.sandbox.events")
LABEL = "mindx.session"
FILTER = "mindx.kind=session"
# The engine's users are root and are not defended against, but what they touch is no longer only ours.
FOREIGN = ("exec_create", "exec_start", "extract-to-dir", "exec")  # the last is Podman's word
# Our own words to listeners, no engine's: the stream broke off and is there again, or cannot be had again.
REOPENED, LOST = "events_reopened", "events_lost"
REOPEN_AFTER_S = (0.05, 0.2, 0.5, 1.0, 2.0)  # the wait before each try
MAX_REMEMBERED = 4096  # events told; an engine repeats its last 256 when a stream is opened anew


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
    """One open stream, read by one thread. It is opened for the first session and stays open.

    A stream that breaks off while sessions listen is opened anew, and what the engine said meanwhile (its last 256
    events at most) is told late; all listeners hear REOPENED. If it cannot be had again they hear LOST, and nothing
    after that.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, Listener] = {}
        self._client: docker.DockerClient | None = None
        self._told: OrderedDict[tuple[str, EngineEvent], None] = OrderedDict()

    def watch(self, session_id: str, listener: Listener) -> None:
        """Call `listener` in the reading thread for each event of a session from now on; blocking until it is open.

        Raises EngineError, or an exception in ENGINE_EXCEPTIONS.
        """
        with self._lock:
            self._listeners[session_id] = listener
            if self._client is None:
                environ = dict(os.environ)  # to find the same engine again
                self._client, stream = _opened(environ)
                thread = threading.Thread(target=self._read, args=(stream, environ), name="mindx-events", daemon=True)
                thread.start()

    def unwatch(self, session_id: str) -> None:
        """Tell a session nothing more."""
        with self._lock:
            self._listeners.pop(session_id, None)

    def _read(self, stream: Any, environ: Mapping[str, str]) -> None:
        while stream is not None:
            try:
                for document in stream:
                    self._tell(document)
            except Exception as error:  # noqa: BLE001 - whatever it was, the stream is over and sessions rely on it
                _LOG.info("the engine's event stream broke off: %s", type(error).__name__)
            stream = self._reopened(environ)

    def _reopened(self, environ: Mapping[str, str]) -> Any:
        """Return a new stream; None when nobody listens, or when it cannot be had: then everybody was told."""
        for wait_s in REOPEN_AFTER_S:
            if self._let_go(unless_heard=True):
                return None
            time.sleep(wait_s)
            try:
                # From the beginning: what was told before is not told again.
                client, stream = _opened(environ, since=1)
            except (EngineError, OSError, ValueError):
                continue
            except engine_way.ENGINE_EXCEPTIONS:
                continue
            with self._lock:
                old, self._client = self._client, client
            if old is not None:
                old.close()
            _LOG.warning("the engine's event stream broke off and was opened anew")
            self._tell_all(REOPENED)
            return stream
        _LOG.error("the engine's event stream is lost; the sessions that rely on it end")
        self._let_go()
        return None

    def _let_go(self, unless_heard: bool = False) -> bool:
        """Close the client, so that the next session opens a stream, and tell whoever listens that this one is lost.

        `unless_heard` True: do nothing, and return False, while somebody listens.
        """
        with self._lock:
            if unless_heard and self._listeners:
                return False
            client, self._client = self._client, None
            left, self._listeners = list(self._listeners.values()), {}
        if client is not None:
            client.close()
        for listener in left:
            listener(EngineEvent(LOST, 0))
        return True

    def _tell_all(self, action: str) -> None:
        with self._lock:
            listeners = list(self._listeners.values())
        for listener in listeners:
            listener(EngineEvent(action, 0))

    def _tell(self, document: Any) -> None:
        found = EngineEvent.parse(document) if isinstance(document, Mapping) else None
        if found is None or found in self._told:
            return
        self._told[found] = None
        if len(self._told) > MAX_REMEMBERED:
            self._told.popitem(last=False)
        session_id, event = found
        with self._lock:
            listener = self._listeners.get(session_id)
        if listener is not None:
            listener(event)


def _opened(environ: Mapping[str, str], since: int | None = None) -> tuple[docker.DockerClient, Any]:
    """Return a client and its stream, blocking. Raises EngineError, or an exception in ENGINE_EXCEPTIONS."""
    client = engine_way.reach(environ)
    try:
        return client, client.events(since=since, decode=True, filters={"type": "container", "label": FILTER})
    except BaseException:
        client.close()
        raise


_streams: dict[tuple[int, str], Events] = {}
_streams_lock = threading.Lock()


def current_events() -> Events:
    """Return this process's stream for the engine that `connect` reaches; a forked child gets one of its own."""
    with _streams_lock:
        return _streams.setdefault((os.getpid(), os.environ.get("DOCKER_HOST", "")), Events())
