"""The orchestrator: agents run tasks below one another, within bounds, and none outlives its parent."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from mindx.agents.place import Place
from mindx.agents.task_events import TaskEvents
from mindx.agents.task_record import (
    AgentTaskEvent,
    AgentTaskEventType,
    AgentTaskState,
    AgentTaskView,
    TaskRecord,
    unrun,
)
from mindx.agents.worker import AgentWorkerSpec, Bounds, bounds_of
from mindx.core.agent_result import AgentResult
from mindx.core.count import counted
from mindx.core.nearest import did_you_mean
from mindx.core.protocols import EventHandler
from mindx.core.quote import quoted
from mindx.errors import InputError
from mindx.runtime.reaping import CleanupFailure, CloseReport
from mindx.runtime.run_ids import checked_id, new_id

# The task in whose run this code is called: what it starts is below that task.
_CURRENT: ContextVar[TaskRecord | None] = ContextVar("mindx_agent_task", default=None)


class AgentOrchestrator:
    """Runs tasks of registered agents; a task that a running task starts is its child.

    At most `max_concurrent_tasks` run at once, `max_background_tasks` of them in the background; the rest waits in a
    queue, up to `max_queued_tasks`. Who waits for another task lends its place, so parents never block their
    children. `max_task_depth` counts the root, `max_children_per_task` all children that a task ever had.
    `task_timeout_s` bounds each task's run. `max_records` tasks and `max_events` events are remembered.
    `event_handler` gets the AgentEvents of all runs.
    """

    def __init__(
        self,
        workers: Iterable[AgentWorkerSpec] = (),
        *,
        max_concurrent_tasks: int = 8,
        max_background_tasks: int = 8,
        max_task_depth: int = 4,
        max_children_per_task: int = 8,
        task_timeout_s: float = math.inf,
        max_queued_tasks: int = 1000,
        max_records: int = 1000,
        max_events: int = 5000,
        event_handler: EventHandler | None = None,
        new_id: Callable[[str], str] = new_id,
    ) -> None:
        bounds = (max_concurrent_tasks, max_background_tasks, max_task_depth, max_queued_tasks, max_records, max_events)
        if min(bounds) < 1 or max_children_per_task < 0 or not task_timeout_s > 0:
            raise InputError("orchestrator_bounds", "every bound of an orchestrator is at least 1 (children: 0)")
        self._workers: dict[str, AgentWorkerSpec] = {}
        self._gate = asyncio.Semaphore(max_concurrent_tasks)
        self._background_gate = asyncio.Semaphore(max_background_tasks)
        self._max_depth = max_task_depth
        self._max_children = max_children_per_task
        self._timeout_s = task_timeout_s
        self._max_queued = max_queued_tasks
        self._max_records = max_records
        self._event_handler = event_handler
        self._new_id = new_id
        self._records: dict[str, TaskRecord] = {}
        self._events = TaskEvents(max_events)
        self._closing = False
        self._workers_closed = False
        self._failures: list[CleanupFailure] = []
        for worker in workers:
            self.register(worker)

    @property
    def workers(self) -> tuple[AgentWorkerSpec, ...]:
        """The registered agents, in order."""
        return tuple(self._workers.values())

    def register(self, worker: AgentWorkerSpec) -> None:
        """Make an agent known. Raises InputError (agent_twice, orchestrator_closed)."""
        self._check_open()
        if worker.name in self._workers:
            raise InputError("agent_twice", f"two agents are called {quoted(worker.name)}")
        self._workers[worker.name] = worker

    def worker(self, name: str) -> AgentWorkerSpec:
        """Return an agent. Raises InputError (agent_unknown) with a suggestion."""
        found = self._workers.get(name)
        if found is None:
            known = f"{did_you_mean(name, self._workers)} the agents are {', '.join(self._workers) or 'none'}".strip()
            raise InputError("agent_unknown", f"unknown agent {quoted(name)}; {known}")
        return found

    async def run_agent(
        self,
        agent: str,
        task: str,
        *,
        task_id: str | None = None,
        parent_id: str | None = None,
        depends_on: Sequence[str] = (),
        ceiling: Bounds | None = None,
    ) -> AgentResult:
        """Run one task to its end, below `parent_id` (None: below the task that calls this, if one does).

        When the caller is cancelled, so are the task and all below it, and they are awaited. `ceiling` bounds a task
        whose parent is no task of this orchestrator. Raises InputError: agent_unknown, agent_depth, agent_children,
        agent_parent_ended, task_exists, task_unknown, orchestrator_full, orchestrator_closed.
        """
        record = self._begin(agent, task, task_id, parent_id, depends_on, ceiling, background=False)
        return await self._result(record, _CURRENT.get() or record.parent, owned=True)

    async def start_agent(
        self,
        agent: str,
        task: str,
        *,
        task_id: str | None = None,
        parent_id: str | None = None,
        depends_on: Sequence[str] = (),
        ceiling: Bounds | None = None,
    ) -> str:
        """Start a task in the background and return its id; raises as `run_agent` does.

        It ends with its parent: cancelled and awaited before the parent's result is there.
        """
        return self._begin(agent, task, task_id, parent_id, depends_on, ceiling, background=True).task_id

    async def wait_task(self, task_id: str) -> AgentResult:
        """Wait for a task and return its result; the task goes on when the caller is cancelled.

        Raises InputError: task_unknown, and task_waits_for_itself when the caller's own task would have to end first.
        """
        record, caller = self._record(task_id), _CURRENT.get()
        if caller is not None and caller.is_below(record):
            raise InputError("task_waits_for_itself", f"the task {task_id} cannot end before the one that waits for it")
        return await self._result(record, caller, owned=False)

    async def cancel_task(self, task_id: str) -> bool:
        """Cancel a task and all below it and wait for their end; return False when it had ended already.

        A task that cancels itself or an ancestor does not wait. Raises InputError (task_unknown).
        """
        record, caller = self._record(task_id), _CURRENT.get()
        if record.ended:
            return False
        self._stop(record)
        if caller is None or not caller.is_below(record):
            await _settled([record.work])
        return True

    def watch_events(self, replay: bool = True) -> AsyncIterator[AgentTaskEvent]:
        """Yield what happens to the tasks until the orchestrator is closed; with `replay` what is kept first."""
        return self._events.read(replay)

    def task_view(self, task_id: str) -> AgentTaskView:
        """Return where a task stands. Raises InputError (task_unknown)."""
        return self._record(task_id).view()

    def execution_tree(self, task_id: str | None = None) -> list[dict[str, Any]]:
        """Return a task (None: every task without a parent) with its `children`, as plain values."""
        if task_id is not None:
            return [_tree(self._record(task_id))]
        return [_tree(record) for record in self._records.values() if record.parent is None]

    def execution_graph(self) -> dict[str, Any]:
        """Return all tasks as `nodes`, and `edges` of the kinds `parent` and `dependency`, as plain values."""
        edges = []
        for record in self._records.values():
            if record.parent is not None:
                edges.append({"from": record.parent.task_id, "to": record.task_id, "kind": "parent"})
            edges += [{"from": name, "to": record.task_id, "kind": "dependency"} for name in record.depends_on]
        return {"nodes": [record.view().to_dict() for record in self._records.values()], "edges": edges}

    async def close(self, *, close_workers: bool = False) -> CloseReport:
        """Refuse new work, cancel and await all tasks, end all readers of events; may be called twice.

        `close_workers` also closes the agents' runtimes, which are the caller's own otherwise.
        """
        self._closing = True
        live = [record for record in self._records.values() if not record.ended]
        for record in live:
            if record.parent is None:
                self._stop(record)
        await _settled([record.work for record in live])
        self._events.close()
        if close_workers and not self._workers_closed:
            self._workers_closed = True
            runtimes = {id(worker.runtime): worker.runtime for worker in self._workers.values()}
            for runtime in runtimes.values():
                self._failures += (await runtime.close(close_dependencies=True)).failures
        return CloseReport(tuple(self._failures))

    def _begin(
        self,
        agent: str,
        task: str,
        task_id: str | None,
        parent_id: str | None,
        depends_on: Sequence[str],
        ceiling: Bounds | None,
        *,
        background: bool,
    ) -> TaskRecord:
        self._check_open()
        spec = self.worker(agent)
        parent = self._parent(parent_id)
        name = checked_id(task_id or self._new_id("task"), "task id")
        if name in self._records:
            raise InputError("task_exists", f"there is a task {name} already")
        for other in depends_on:
            self._record(other)
        self._make_room()
        bounds = bounds_of(spec, ceiling if parent is None else parent.bounds, self._timeout_s)
        gates = (self._background_gate, self._gate) if background else (self._gate,)
        record = TaskRecord(name, spec, task, bounds, Place(gates), parent, background, tuple(depends_on))
        self._records[name] = record
        if parent is not None:
            parent.children.append(record)
        self._events.tell(AgentTaskEventType.TASK_QUEUED, record, {"task": task, "background": background})
        record.work = asyncio.create_task(self._work(record), name=name)
        return record

    def _parent(self, parent_id: str | None) -> TaskRecord | None:
        current = _CURRENT.get()
        if parent_id is None:
            # A task of another orchestrator is no parent here.
            parent = current if current is not None and self._records.get(current.task_id) is current else None
        else:
            parent = self._record(parent_id)
        if parent is None:
            return None
        if parent.closing or parent.ended:
            raise InputError("agent_parent_ended", f"the task {parent.task_id} is ending and starts nothing any more")
        if parent.depth >= self._max_depth:
            raise InputError("agent_depth", f"tasks may be {self._max_depth} deep, and this one is: do it without them")
        if len(parent.children) >= self._max_children:
            raise InputError("agent_children", f"a task may have {self._max_children} children, and had them")
        return parent

    def _make_room(self) -> None:
        queued = sum(record.state is AgentTaskState.QUEUED for record in self._records.values())
        if queued >= self._max_queued:
            raise InputError("orchestrator_full", f"{counted(queued, 'task')} waiting already")
        while len(self._records) >= self._max_records:
            old = next((one for one in self._records.values() if one.parent is None and one.all_ended), None)
            if old is None:
                held = counted(len(self._records), "task")
                raise InputError("orchestrator_full", f"{held} going on, or of one that does")
            self._drop(old)

    def _drop(self, record: TaskRecord) -> None:
        for child in record.children:
            self._drop(child)
        del self._records[record.task_id]

    async def _work(self, record: TaskRecord) -> AgentResult:
        """Do a task, then end what it started; the result is there only when all below it has ended."""
        _CURRENT.set(record)
        try:
            await record.place.take()
            record.state = AgentTaskState.RUNNING
            self._events.tell(AgentTaskEventType.TASK_STARTED, record, {})
            bounds = record.bounds
            result = await record.spec.runtime.run(
                record.task,
                run_id=record.task_id,
                config=bounds.config,
                policy=bounds.policy,
                environment=bounds.environment,
                event_handler=self._event_handler,
            )
        except asyncio.CancelledError:
            result = unrun(record.task_id)
        except Exception as error:  # noqa: BLE001 - whoever waits gets a result, whatever a runtime does
            result = unrun(record.task_id, error)
        finally:
            record.place.end()
            record.closing = True
        for child in record.children:
            self._stop(child)
        with suppress(asyncio.CancelledError):  # it has ended anyway
            await _settled([child.work for child in record.children])
        record.result, record.state = result, AgentTaskState.ENDED
        payload = {"outcome": result.outcome.value, "error": result.error, "steps": result.steps}
        self._events.tell(AgentTaskEventType.TASK_ENDED, record, payload)
        return result

    def _stop(self, record: TaskRecord) -> None:
        """Cancel a task and all below it; their `work` ends by itself then."""
        if record.ended or (record.closing and record.state is not AgentTaskState.RUNNING):
            return
        first, record.closing = not record.closing, True
        for child in record.children:
            self._stop(child)
        if not first:
            return
        self._events.tell(AgentTaskEventType.TASK_CANCELLING, record, {})
        # Not at once: a task that is cancelled before its first step would never give a result.
        asyncio.get_running_loop().call_soon(_cancel, record)

    async def _result(self, record: TaskRecord, waiter: TaskRecord | None, *, owned: bool) -> AgentResult:
        assert record.work is not None
        async with nullcontext() if waiter is None else waiter.place.lent():
            try:
                await asyncio.wait({record.work})
            except asyncio.CancelledError:
                if owned:
                    self._stop(record)
                    await _settled([record.work])
                raise
        return record.work.result()

    def _record(self, task_id: str) -> TaskRecord:
        record = self._records.get(task_id)
        if record is None:
            raise InputError("task_unknown", f"there is no task {quoted(str(task_id))} (any more)")
        return record

    def _check_open(self) -> None:
        if self._closing:
            raise InputError("orchestrator_closed", "the orchestrator is closing or closed; make a new one")

    async def __aenter__(self) -> AgentOrchestrator:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _cancel(record: TaskRecord) -> None:
    if record.state is AgentTaskState.QUEUED and record.work is not None:
        record.work.cancel()
    elif record.state is AgentTaskState.RUNNING:
        record.spec.runtime.cancel(record.task_id)


def _tree(record: TaskRecord) -> dict[str, Any]:
    return {**record.view().to_dict(), "children": [_tree(child) for child in record.children]}


async def _settled(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Wait until all have ended, also when cancelled meanwhile; that is raised afterwards."""
    waiting = {task for task in tasks if task is not None and not task.done()}
    cancelled = False
    while waiting:
        try:
            _, waiting = await asyncio.wait(waiting)
        except asyncio.CancelledError:
            cancelled = True
            waiting = {task for task in waiting if not task.done()}
    if cancelled:
        raise asyncio.CancelledError
