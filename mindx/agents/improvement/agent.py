"""The self-improvement agent: analyse, implement, test in a container, critique, diff. It writes nothing of the host.

What it leaves is a folder of Changes, as a run does; whether they are applied is the host's to say (see apply.py).
"""

from __future__ import annotations

import errno
import hashlib
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mindx.agents.answer import ask_json
from mindx.agents.constitution import Act, Constitution, Layer
from mindx.agents.improvement.control import tests_problem, write
from mindx.agents.improvement.evaluation import evaluate
from mindx.agents.improvement.models import (
    MAX_CODE_CHARS,
    MAX_DIFF_CHARS,
    MAX_NOTES_CHARS,
    SELF,
    SELF_FILE,
    TOOL_FILE,
    TOOL_TEST_FILE,
    CycleResult,
    Evaluation,
    ImplementationStatus,
    ImprovementData,
    ImprovementRequest,
    ImprovementResult,
    ImprovementStatus,
)
from mindx.agents.improvement.paths import TRACE_FILE, clear, project_folder, rule_target
from mindx.agents.improvement.prompts import (
    ANALYSE,
    CODE_TEMPERATURE,
    CRITIQUE,
    CRITIQUE_SCHEMA,
    IMPLEMENT,
    IMPLEMENTATION_SCHEMA,
    MAX_CODE_TOKENS,
    MAX_SHOWN_LOG,
    Critique,
    Implementation,
    read_critique,
    read_implementation,
    task_text,
)
from mindx.core.message import ChatMessage
from mindx.core.output import plain_text
from mindx.errors import FileError, InputError, MindxError, ProviderError
from mindx.policy.load import LoadedPolicy, load_policy
from mindx.providers.base import BaseProvider, ModelRequest
from mindx.runtime.sandboxes import SandboxFactory, docker_sandbox
from mindx.runtime.session import Session
from mindx.trace.recorder import Recorder
from mindx.workspace.changes import Change, executable
from mindx.workspace.diff import diffs
from mindx.workspace.patch import patch
from mindx.workspace.pull import collect
from mindx.workspace.store import ChangesFolder

_LOG = logging.getLogger("improvement_agent")
_Status = ImplementationStatus


class CycleFailure(Exception):
    """One attempt came to its end. `status` says where."""

    def __init__(self, status: ImplementationStatus, message: str, evaluation: Evaluation | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.evaluation = evaluation or Evaluation()


class SelfImprovementAgent:
    """Works on one request with a model; each attempt gets a fresh container with a fresh copy.

    `folder` takes the trace of all that ran, and in `changes/` the Changes of the attempt that passed. `policy` None
    takes the request's, else the preset `default`. `open_sandbox` is for tests. Raises InputError for a policy that is
    none.
    """

    def __init__(
        self,
        provider: BaseProvider,
        request: ImprovementRequest,
        folder: Path,
        *,
        policy: LoadedPolicy | None = None,
        constitution: Constitution | None = None,
        open_sandbox: SandboxFactory = docker_sandbox,
    ) -> None:
        self.request = request
        self.folder = folder
        self._provider = provider
        self._policy = policy or load_policy(request.policy or None)
        self._constitution = constitution or Constitution.load()
        self._open_sandbox = open_sandbox
        self._usage: dict[str, int] = {}
        is_tool = request.tool_spec is not None
        self._path = TOOL_FILE if is_tool else SELF_FILE if request.target_file == SELF else request.target_file
        self._workspace = request.workspace or (project_folder() if request.target_file == SELF else None)

    async def improve(self) -> ImprovementResult:
        """Try up to `cycles` times, each attempt knowing why the one before failed, and tell of all of them.

        Raises StateError when the folder cannot be written.
        """
        request = self.request
        try:
            self._constitution.require(Layer.IMPROVEMENT, Act.BUILD_CANDIDATE, self._target())
            if request.target_file == SELF and self._workspace is None:
                raise InputError("self_missing", "mindx is installed without its project; there is nothing to improve")
        except MindxError as error:
            return ImprovementResult.failure(request, _Status.FAILED_SETUP, error.message)
        clear(self.folder, TRACE_FILE)
        with Recorder(self.folder / TRACE_FILE) as trace:
            trace.record(
                "improvement_started",
                interaction_id=request.interaction_id,
                operation=request.operation.value,
                target=self._path,
                policy={"name": self._policy.name, "sha256": self._policy.sha256},
            )
            results = await self._cycles(trace)
            trace.record("improvement_finished", status=results[-1].implementation_status.value)
            return self._result(results, trace)

    async def _cycles(self, trace: Recorder) -> tuple[CycleResult, ...]:
        results: list[CycleResult] = []
        feedback = ""
        for cycle in range(1, self.request.cycles + 1):
            _LOG.info("Cycle %d of %d on %s", cycle, self.request.cycles, self._path)
            trace.record("cycle_started", cycle=cycle)
            result = await self._attempt(cycle, feedback, trace)
            results.append(result)
            trace.record("cycle_finished", **result.model_dump(mode="json", exclude={"new_content", "diff_patch"}))
            _LOG.info("Cycle %d ended: %s %s", cycle, result.implementation_status.value, result.error_message)
            status = result.implementation_status
            if status.value.startswith("SUCCESS") or status is _Status.FAILED_SETUP:
                break  # without a container the next attempt would come no further
            feedback = f"{result.error_message}\n{result.evaluation.notes}".strip()
        return tuple(results)

    def _target(self) -> str:
        """Return the name that rules speak of: the file of a new tool lies in a folder of its own."""
        spec = self.request.tool_spec
        return rule_target(self._workspace, self._path) if spec is None else f"tools/{spec.id}/{self._path}"

    def _result(self, results: tuple[CycleResult, ...], trace: Recorder) -> ImprovementResult:
        last = results[-1]
        ok = last.implementation_status.value.startswith("SUCCESS")
        message = last.improvement_description if ok else last.error_message
        data = ImprovementData(
            operation_type=self.request.operation,
            target_path=self._path,
            cycles_configured=self.request.cycles,
            cycles_attempted=len(results),
            cycles_successful_eval=int(ok),
            final_status=last.implementation_status,
            message=message,
            cycle_results=results,
            tool_spec=self.request.tool_spec,
            usage=dict(self._usage),
            trace_events=trace.events,
            trace_sha256=trace.head,
        )
        status = ImprovementStatus.SUCCESS if ok else ImprovementStatus.FAILURE
        return ImprovementResult(status=status, message=message, data=data)

    async def _attempt(self, cycle: int, feedback: str, trace: Recorder) -> CycleResult:
        known: dict[str, Any] = {"cycle": cycle, "target_path": self._path, "is_self": self.request.target_file == SELF}
        try:
            async with self._session(trace) as session:
                return await self._cycle(session, known, feedback, trace)
        except CycleFailure as failure:
            known["evaluation"] = failure.evaluation
            return _failed(known, failure.status, failure.message)
        except MindxError as error:
            return _failed(known, _Status.FAILED_SETUP, error.message)

    def _session(self, trace: Recorder) -> Session:
        return Session(self._policy, self._workspace, recorder=trace, open_sandbox=self._open_sandbox)

    async def _cycle(self, session: Session, known: dict[str, Any], feedback: str, trace: Recorder) -> CycleResult:
        task = task_text(self.request, await self._current(session), self._logs(), feedback)
        analysis = await self._analyse(task)
        known["improvement_description"] = analysis
        made = await self._implement(task, analysis)
        known["improvement_description"] = made.description or analysis
        content = made.content.encode()
        known |= {"new_content": made.content, "sha256": hashlib.sha256(content).hexdigest()}
        tests = made.tests if self.request.tool_spec is not None else ""
        await write(session, self._path, made.content, tests)
        evaluation, left_out = await evaluate(session, self.request, self._path, made.content)
        if evaluation.passed_syntax_check is False or not evaluation.passed_self_tests:
            raise CycleFailure(_Status.FAILED_EVALUATION, "the candidate did not pass its tests", evaluation)
        problem = await tests_problem(partial(self._session, trace), self.request, self._path, tests, left_out)
        if problem:
            evaluation = evaluation.model_copy(update={"passed_self_tests": False, "notes": problem[:MAX_NOTES_CHARS]})
            raise CycleFailure(_Status.FAILED_EVALUATION, problem, evaluation)
        critique = await self._critique(task, made)
        notes = "; ".join(part for part in (evaluation.notes, critique.notes) if part)[:MAX_NOTES_CHARS]
        evaluation = evaluation.model_copy(update={"llm_self_critique_score": critique.score, "notes": notes})
        if critique.score < self.request.critique_threshold:
            text = f"the critique gave {critique.score:g}, under the threshold {self.request.critique_threshold:g}"
            raise CycleFailure(_Status.FAILED_EVALUATION, text, evaluation)
        known |= {
            "diff_patch": await self._collect(session, known["sha256"], tests, evaluation),
            "evaluation": evaluation,
        }
        status = _Status.SUCCESS_NEEDS_APPROVAL if self._needs_person() else _Status.SUCCESS_EVALUATED
        return CycleResult(**known, implementation_status=status, code_updated_requires_restart=known["is_self"])

    async def _current(self, session: Session) -> str:
        """Return the target as it is, "" when there is none yet."""
        try:
            data = await session.read(self._path)
        except FileError as error:
            if error.errno == errno.ENOENT:
                return ""
            raise CycleFailure(_Status.FAILED_ANALYSIS, error.message) from None
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise CycleFailure(_Status.FAILED_ANALYSIS, f"{self._path} is no UTF-8 text") from None
        if len(text) > MAX_CODE_CHARS:
            raise CycleFailure(_Status.FAILED_ANALYSIS, f"{self._path} has more than {MAX_CODE_CHARS:,} characters")
        return text

    def _logs(self) -> Mapping[str, str]:
        found = {}
        for path in self.request.logs:
            try:
                if not path.is_file():
                    raise OSError(0, "it is no regular file")
                with path.open("rb") as file:
                    file.seek(0, 2)
                    file.seek(max(0, file.tell() - MAX_SHOWN_LOG))
                    found[path.name] = file.read(MAX_SHOWN_LOG).decode("utf-8", "replace")
            except OSError as error:
                _LOG.warning("the log %s cannot be read: %s", path, error.strerror)
        return found

    async def _analyse(self, task: str) -> str:
        messages = (ChatMessage.system(ANALYSE), ChatMessage.user(task))
        try:
            response = await self._provider.generate(ModelRequest(messages, model=self.request.llm_model))
        except ProviderError as error:
            raise CycleFailure(_Status.FAILED_ANALYSIS, error.message) from None
        self._count(response.usage)
        text = plain_text(response.text).strip()[:MAX_NOTES_CHARS]
        if not text:
            raise CycleFailure(_Status.FAILED_ANALYSIS, "the model said nothing")
        return text

    async def _implement(self, task: str, analysis: str) -> Implementation:
        messages = (ChatMessage.system(IMPLEMENT), ChatMessage.user(f"{task}\n\nWhat to do:\n{analysis}"))
        schema = IMPLEMENTATION_SCHEMA if self._provider.capabilities.json_schema else None
        asked = ModelRequest(
            messages,
            model=self.request.llm_model,
            response_schema=schema,
            max_output_tokens=MAX_CODE_TOKENS,
            temperature=CODE_TEMPERATURE,
        )
        try:
            response = await self._provider.generate(asked)
            self._count(response.usage)
            return read_implementation(response.text)
        except (ProviderError, InputError) as error:
            raise CycleFailure(_Status.FAILED_IMPLEMENTATION, error.message) from None

    async def _critique(self, task: str, made: Implementation) -> Critique:
        """Ask for a score; one that cannot be had is no success."""
        question = f"{task}\n\nThe candidate:\n```\n{made.content}\n```"
        try:
            return await ask_json(
                self._provider,
                CRITIQUE,
                question,
                read_critique,
                schema=CRITIQUE_SCHEMA,
                model=self.request.llm_model,
                attempts=1,
                on_usage=self._count,
            )
        except ProviderError as error:
            return Critique(0.0, f"there is no critique: {error.message}"[:MAX_NOTES_CHARS])

    async def _collect(self, session: Session, sha256: str, tests: str, evaluation: Evaluation) -> str:
        """Bring the Changes home and return the diff of the target, which must be what the gates judged."""
        home, limits = ChangesFolder(self.folder / "changes"), session.policy.policy.limits
        home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        changes = await collect(
            session.sandbox, session.baseline, home, limits.copy_out_bytes, session.protects, limits.workspace_inodes
        )
        change = next((item for item in changes if item.path == self._path), None)
        problem = _problem(change, sha256) or _beside(changes, self._path, tests)
        if change is None or problem:
            raise CycleFailure(_Status.FAILED_EVALUATION, f"{self._path}: {problem}", evaluation)
        text = b"".join(patch(diffs([change], home.blobs))).decode("utf-8", "replace")
        return plain_text(text)[:MAX_DIFF_CHARS]

    def _needs_person(self) -> bool:
        if self.request.tool_spec is not None:
            return self.request.is_critical_target
        ruling = self._constitution.check(Layer.COORDINATOR, Act.APPLY_CODE, self._target())
        return self.request.is_critical_target or not ruling.allowed

    def _count(self, usage: Mapping[str, int]) -> None:
        for name, count in usage.items():
            self._usage[name] = self._usage.get(name, 0) + count


def _problem(change: Change | None, sha256: str) -> str:
    if change is None:
        return "the candidate changes nothing"
    if change.blocked:
        return change.blocked
    if change.sha256 != sha256:
        return "it was altered while the tests ran"
    if executable(change.state) and not (change.before is not None and executable(change.before)):
        return "it was made executable while the tests ran"
    return "" if change.stored else change.note or "its content was not copied out"


def _beside(changes: Iterable[Change], path: str, tests: str) -> str:
    """Say which other file is no longer what it was: the candidate's own `tests`, or a file that was there before."""
    came = next((item.sha256 for item in changes if item.path == TOOL_TEST_FILE), "")
    if tests.strip() and came != hashlib.sha256(tests.encode()).hexdigest():
        return f"modified another file while the tests ran: {TOOL_TEST_FILE}"
    other = next((item for item in changes if item.path != path and item.before and item.before.entry == "file"), None)
    return "" if other is None else f"{other.kind} another file while the tests ran: {plain_text(other.path)}"


def _failed(known: Mapping[str, Any], status: ImplementationStatus, message: str) -> CycleResult:
    """Return the record of an attempt that failed; its content would only make a long answer longer."""
    known = {name: value for name, value in known.items() if name not in ("new_content", "sha256")}
    text = plain_text(message)[:MAX_NOTES_CHARS]
    return CycleResult(**known, implementation_status=status, error_message=text)
