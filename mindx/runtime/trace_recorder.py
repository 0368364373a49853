"""The event handler that writes every event of every run into a trace of its own, and reads traces back."""

from __future__ import annotations

import asyncio
import hashlib
import queue
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from mindx.core.agent_event import AgentEvent, AgentEventType
from mindx.errors import InputError, StateError
from mindx.runtime.kept import size_of_value
from mindx.runtime.run_ids import checked_id
from mindx.trace.read import read
from mindx.trace.recorder import Recorder

MAX_WAITING_BYTES = 16 * 1024 * 1024
_Item = tuple[AgentEvent, "asyncio.Future[None] | None"]


class TraceRecorder:
    """`AgentRuntime(..., event_handler=TraceRecorder("traces"))` writes `traces/<run_id>.jsonl`, chained and redacted.

    A thread writes, so that a slow disk does not stop a run, unless more than 16 MiB wait for it; a run's last event
    waits until all of it is durable.
    `secrets` are texts that must not appear. `problem` is the first StateError, or None. Close it, or use it as a
    context manager, to end the thread.
    """

    def __init__(self, folder: Path | str, *, secrets: Iterable[str] = ()) -> None:
        self.problem: StateError | None = None
        self._folder = Path(folder)
        self._secrets = tuple(secrets)
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._recorders: dict[str, Recorder] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._queued = self._written = 0  # bytes; each is changed by one thread alone

    def __call__(self, event: AgentEvent) -> asyncio.Future[None] | None:
        """Take an event. For a run's last one return a future: done when all is durable, StateError if that failed.

        So for one that comes when too much waits: done when it is written.
        """
        if self._thread is None:
            self._start()
        self._queued += size_of_value(event.payload)
        if event.event_type is not AgentEventType.RUN_FINISHED and self._queued - self._written <= MAX_WAITING_BYTES:
            self._queue.put((event, None))
            return None
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put((event, written))
        return written

    def path(self, run_id: str) -> Path:
        """Return where a run's trace is; an id that is no plain name is replaced by its digest."""
        try:
            name = checked_id(run_id, "run id")
        except InputError:
            name = f"run-{hashlib.sha256(run_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
        return self._folder / f"{name}.jsonl"

    @staticmethod
    def replay(path: Path | str) -> list[AgentEvent]:
        """Return the events of a trace. A cut last line is left out; an unknown type comes as UNKNOWN.

        Raises InputError when the file cannot be read or a line is not an event.
        """
        return [_event(item.kind, item.time, item.data) for item in read(Path(path))]

    def close(self) -> None:
        """Write what waits and end the thread; may be called twice."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join()
        for run_id in list(self._recorders):
            self._end(run_id)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_all, name="mindx-trace", daemon=True)
                self._thread.start()

    def _write_all(self) -> None:
        while (item := self._queue.get()) is not None:
            event, written = item
            error: Exception | None = None
            self._written += size_of_value(event.payload)
            try:
                self._write(event)
                if event.event_type is AgentEventType.RUN_FINISHED:
                    self._end(event.run_id)
            except StateError as failure:
                self.problem = self.problem or failure
                error = failure
            if written is not None:
                _wake(written, error)

    def _write(self, event: AgentEvent) -> None:
        recorder = self._recorders.get(event.run_id)
        if recorder is None:
            recorder = self._recorders[event.run_id] = self._open(event.run_id)
        recorder.record(
            event.event_type.value,
            event_time=event.time,
            run_id=event.run_id,
            session_id=event.session_id,
            event_seq=event.seq,
            step=event.step,
            cause_id=event.cause_id,
            payload=event.payload,
        )

    def _open(self, run_id: str) -> Recorder:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StateError("trace_unwritable", f"{self._folder} cannot be made: {error.strerror}") from error
        path, number = self.path(run_id), 1
        while path.exists():  # an id that was used before: each run has a trace of its own
            number += 1
            path = self.path(run_id).with_suffix(f".{number}.jsonl")
        return Recorder(path, secrets=self._secrets)

    def _end(self, run_id: str) -> None:
        recorder = self._recorders.pop(run_id, None)
        if recorder is not None:
            recorder.close()

    def __enter__(self) -> TraceRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _wake(written: asyncio.Future[None], error: Exception | None) -> None:
    def settle() -> None:
        if not written.done():
            written.set_result(None) if error is None else written.set_exception(error)

    try:
        written.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:  # the loop has ended, and nobody waits
        return


def _event(kind: str, time: str, data: dict[str, Any]) -> AgentEvent:
    payload = data.get("payload")
    payload = dict(payload) if isinstance(payload, dict) else {}
    try:
        event_type = AgentEventType(kind)
    except ValueError:
        event_type, payload = AgentEventType.UNKNOWN, {**payload, "event_type": kind}
    return AgentEvent(
        event_type,
        str(data.get("run_id", "")),
        int(data.get("event_seq", 0)),
        str(data.get("event_time", time)),
        int(data.get("step", 0)),
        payload,
        str(data.get("cause_id", "")),
        str(data.get("session_id", "")),
    )
