"""Calling the self-improvement agent: a process of its own, whose answer is believed only when everything agrees."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from mindx.agents.improvement.models import ImplementationStatus, ImprovementRequest, ImprovementResult
from mindx.agents.improvement.paths import (
    CONTEXT_FILE,
    LOCK_FILE,
    LOG_FILE,
    RESULT_FILE,
    TRACE_FILE,
    clear,
    folder_of,
)
from mindx.agents.improvement.process import Ended, run_process
from mindx.core.output import plain_text
from mindx.core.own_process import own_module
from mindx.core.strict_json import read_json
from mindx.core.validation import faults
from mindx.errors import InputError, StateError
from mindx.runtime.tasks.atomic import locked, read_file, replace_file

COMMAND = own_module("mindx.agents.improvement")
DEFAULT_TIMEOUT_S = 1800.0
LAST_WORDS = 300  # bytes
_SIGNALLED = 128  # the exit code of what a signal ended is this and the signal's number
MAX_RESULT_BYTES = 8 * 1024 * 1024


async def call_improvement(
    request: ImprovementRequest,
    *,
    work_dir: Path,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    command: Sequence[str] = COMMAND,
    environ: Mapping[str, str] | None = None,
) -> ImprovementResult:
    """Run the agent as a process of its own and return its answer; whatever goes wrong with it is a FAILURE.

    `work_dir` is `state_dir()/mind/improvement`; the call gets a folder (0700) of its own in it, which keeps the
    result, the Changes and the agent's log. What the agent must know goes through a context file (0600), which is
    gone when this returns. At `timeout_s`, and when the caller is cancelled, the agent is killed with all that it
    started. `command` and `environ` (None: ours) are for tests. Raises InputError (improvement_busy: there is a call
    with this id already), StateError when the folder cannot be used.
    """
    folder = folder_of(work_dir, request.interaction_id)
    busy = InputError("improvement_busy", f"the improvement {request.interaction_id} is being worked on already")
    with locked(folder / LOCK_FILE, busy):
        clear(folder, CONTEXT_FILE, RESULT_FILE, LOG_FILE, TRACE_FILE)
        context = folder / CONTEXT_FILE
        replace_file(context, request.model_dump_json().encode())
        variables = os.environ if environ is None else environ
        try:
            end = await run_process([*command, *arguments_of(request, folder)], timeout_s=timeout_s, environ=variables)
        finally:
            context.unlink(missing_ok=True)
        replace_file(folder / LOG_FILE, bytes(end.log))
        return _answer(request, end, folder)


def arguments_of(request: ImprovementRequest, folder: Path) -> list[str]:
    """Return the arguments of the command for a request whose context file lies in `folder`."""
    return [
        request.target_file,
        f"--context-file={folder / CONTEXT_FILE}",
        f"--result-file={folder / RESULT_FILE}",
        f"--work-dir={folder}",
        "--output-json",
    ]


def _answer(request: ImprovementRequest, end: Ended, folder: Path) -> ImprovementResult:
    """Return what the agent says if result file, last line and exit code agree, else a FAILURE that says why."""
    if end.stopped:
        status = ImplementationStatus.FAILED_TIMEOUT if end.timed_out else ImplementationStatus.FAILED_PROCESS
        return ImprovementResult.failure(request, status, f"the self-improvement agent failed: {end.stopped}")
    problem, result = "", None
    try:
        kept = read_file(folder / RESULT_FILE, MAX_RESULT_BYTES)
    except StateError as error:
        kept, problem = None, error.message
    if kept is None:
        problem = problem or "it left no result file"
    elif kept.strip() != end.last_line.strip():
        problem = "its result file and the last line of its output differ"
    else:
        result, problem = parse_result(kept)
    if result is not None and result.ok != (end.exit_code == 0):
        problem = f"it says {result.status.value} and ended with exit code {end.exit_code}"
    if result is not None and not problem and result.ok and result.data.operation_type is not request.operation:
        problem = f"it says {result.data.operation_type.value} and was asked for {request.operation.value}"
    if result is not None and not problem:
        return result
    if end.exit_code is not None and end.exit_code > _SIGNALLED:
        problem = f"it was ended by signal {end.exit_code - _SIGNALLED}"
    # The whole log would show a model what is on this machine; it stays in the folder.
    last = plain_text(bytes(end.log[-LAST_WORDS:]).decode("utf-8", "replace")).strip().rpartition("\n")[2]
    told = f"; the last line of {LOG_FILE}: {last}" if last else ""
    message = f"the self-improvement agent gave no usable answer: {problem}{told}"
    return ImprovementResult.failure(request, ImplementationStatus.FAILED_RESULT, message)


def parse_result(data: bytes) -> tuple[ImprovementResult | None, str]:
    """Return the answer that a text holds, or None and what is wrong with it."""
    document = read_json(data)
    if document.problem:
        return None, f"its result is no JSON: {document.problem}"
    try:
        # Through JSON, so that a path is a text there and numbers are not turned into texts.
        return ImprovementResult.model_validate_json(json.dumps(document.value)), ""
    except ValidationError as error:
        return None, f"its result does not have the form that it must have: {faults(error)}"
