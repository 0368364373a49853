"""A pipeline: tasks of agents in the order of what they depend on, side by side where they do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from typing import Union

from mindx.agents.orchestrator import AgentOrchestrator
from mindx.core.agent_result import AgentResult
from mindx.core.checkpoint import RunOutcome
from mindx.core.quote import quoted
from mindx.errors import InputError, MindxError
from mindx.runtime.run_ids import checked_id, new_id

# What a step's task says, from the results of the steps that it depends on.
StepTask = Union[str, Callable[[Mapping[str, AgentResult]], str]]  # noqa: UP007 - evaluated on 3.10


class OnFailure(str, Enum):
    """What a step that gives no final answer does to the others."""

    STOP = "stop"  # the running ones are cancelled, the rest is skipped
    SKIP = "skip"  # what depends on it is skipped, the rest goes on


class PipelineStepStatus(str, Enum):
    """How a step ended."""

    COMPLETED = "completed"
    FAILED = "failed"  # the agent ended without a final answer
    CANCELLED = "cancelled"
    SKIPPED = "skipped"  # it was never started


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """One task of one agent. To a `task` that is a text the answers of the steps it depends on are added."""

    name: str
    agent: str
    task: StepTask
    depends_on: tuple[str, ...] = ()

    def text(self, results: Mapping[str, AgentResult]) -> str:
        """Return the task with what it needs of the earlier steps."""
        needed = {name: results[name] for name in self.depends_on}
        if not isinstance(self.task, str):
            return self.task(needed)
        return "\n\n".join([self.task, *(f"# Result of {name}\n{needed[name].final_answer}" for name in needed)])


@dataclass(frozen=True, slots=True)
class PipelineStepResult:
    """How one step ended. `result` is None when it was never started; `reason` says why it did not complete."""

    name: str
    status: PipelineStepStatus
    result: AgentResult | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """All steps, in the order in which they were given."""

    steps: Mapping[str, PipelineStepResult] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True when every step completed."""
        return all(step.status is PipelineStepStatus.COMPLETED for step in self.steps.values())

    def answer(self, name: str) -> str:
        """Return a step's final answer, "" without one. Raises KeyError for a name that is no step."""
        result = self.steps[name].result
        return "" if result is None else result.final_answer


class AgentPipeline:
    """Runs steps over an orchestrator, within its bounds. Raises InputError (pipeline_invalid, agent_unknown)."""

    def __init__(
        self,
        orchestrator: AgentOrchestrator,
        steps: Iterable[PipelineStep],
        *,
        on_failure: OnFailure | str = OnFailure.STOP,
    ) -> None:
        self._orchestrator = orchestrator
        self._on_failure = OnFailure(on_failure)
        self.steps: dict[str, PipelineStep] = {}
        for step in steps:
            if checked_id(step.name, "step's name") in self.steps:
                raise InputError("pipeline_invalid", f"two steps are called {quoted(step.name)}")
            orchestrator.worker(step.agent)
            self.steps[step.name] = step
        for step in self.steps.values():
            for name in step.depends_on:
                if name not in self.steps:
                    raise InputError("pipeline_invalid", f"{step.name} depends on {quoted(name)}, which is no step")
        try:
            self._sorter().prepare()
        except CycleError as error:
            cycle = " -> ".join(error.args[1])
            raise InputError("pipeline_invalid", f"the steps depend on each other in a circle: {cycle}") from None

    async def run(self, *, parent_id: str | None = None) -> PipelineResult:
        """Run all steps; when the caller is cancelled, all of them are and are awaited."""
        run = _PipelineRun(self, parent_id)
        return await run.run()

    def _sorter(self) -> TopologicalSorter[str]:
        return TopologicalSorter({step.name: step.depends_on for step in self.steps.values()})


class _PipelineRun:
    """One run of a pipeline."""

    def __init__(self, pipeline: AgentPipeline, parent_id: str | None) -> None:
        self._pipeline = pipeline
        self._parent_id = parent_id
        self._id = new_id("pipeline")
        self._ended: dict[str, PipelineStepResult] = {}
        self._results: dict[str, AgentResult] = {}
        self._running: dict[asyncio.Task[AgentResult], PipelineStep] = {}
        self._culprit = ""  # the step that stopped the others

    async def run(self) -> PipelineResult:
        sorter = self._pipeline._sorter()
        sorter.prepare()
        try:
            while sorter.is_active():
                for name in sorter.get_ready():
                    if not self._start(self._pipeline.steps[name]):
                        sorter.done(name)
                if self._running:
                    done, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        step = self._running.pop(task)
                        self._end(step, task)
                        sorter.done(step.name)
        finally:
            await self._cancel()
        return PipelineResult({name: self._ended[name] for name in self._pipeline.steps})

    def _start(self, step: PipelineStep) -> bool:
        """Start a step, or end it at once and return False."""
        missing = next((name for name in step.depends_on if name not in self._results), "")
        blame = self._culprit or missing
        if blame:
            reason = f"{blame} did not complete"
            self._ended[step.name] = PipelineStepResult(step.name, PipelineStepStatus.SKIPPED, None, reason)
            return False
        work = self._pipeline._orchestrator.run_agent(
            step.agent,
            step.text(self._results),
            task_id=self._task_id(step.name),
            parent_id=self._parent_id,
            depends_on=[self._task_id(name) for name in step.depends_on],
        )
        self._running[asyncio.create_task(work, name=step.name)] = step
        return True

    def _task_id(self, name: str) -> str:
        return f"{self._id}.{name}"

    def _end(self, step: PipelineStep, task: asyncio.Task[AgentResult]) -> None:
        status, result, reason = PipelineStepStatus.CANCELLED, None, f"{self._culprit} did not complete"
        if not task.cancelled():
            try:
                result = task.result()
            except MindxError as error:  # a bound of the orchestrator, or its end
                status, reason = PipelineStepStatus.FAILED, error.message
            else:
                status, reason = _status(result), result.error or ""
        self._ended[step.name] = PipelineStepResult(step.name, status, result, reason)
        if status is PipelineStepStatus.COMPLETED and result is not None:
            self._results[step.name] = result
        elif self._pipeline._on_failure is OnFailure.STOP and not self._culprit:
            self._culprit = step.name
            for other in self._running:
                other.cancel()

    async def _cancel(self) -> None:
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)


def _status(result: AgentResult) -> PipelineStepStatus:
    if result.outcome is RunOutcome.FINAL:
        return PipelineStepStatus.COMPLETED
    return PipelineStepStatus.CANCELLED if result.outcome is RunOutcome.CANCELLED else PipelineStepStatus.FAILED
