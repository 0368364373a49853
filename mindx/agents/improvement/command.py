"""The command `python -m mindx.agents.improvement`: one JSON line on standard output, everything else on stderr."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from mindx.agents.constitution import Constitution
from mindx.agents.improvement.models import (
    MAX_CONTEXT_CHARS,
    MAX_CYCLES,
    SELF,
    ImplementationStatus,
    ImprovementRequest,
    ImprovementResult,
    ImprovementStatus,
)
from mindx.agents.improvement.paths import IMPROVEMENT_FOLDER
from mindx.core.folders import mind_dir
from mindx.core.strict_json import read_json
from mindx.core.validation import faults
from mindx.errors import InputError, MindxError, StateError
from mindx.providers.base import BaseProvider
from mindx.runtime.run_ids import new_id
from mindx.runtime.tasks.atomic import read_file, replace_file
from mindx.tools.container_entry import ToolSpec

MAX_CONTEXT_BYTES = 4 * 1024 * 1024
BAD_INPUT = 2
LOGGER = "improvement_agent"


class UsageError(Exception):
    """The arguments cannot be used."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do the work and return the exit code: 0 iff SUCCESS, 2 for arguments that cannot be used, else 1."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    options, wrong = None, ""
    try:
        options = parser().parse_args(given)
    except UsageError as error:
        wrong = str(error)
    # Whatever a library prints goes to standard error: the last line of standard output is the answer and nothing else.
    sys.stdout.flush()
    answer = os.dup(1)
    os.dup2(2, 1)
    # What others log may name addresses; of ours there is what a person wants to follow.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s - %(levelname)s - %(message)s")
    logging.getLogger(LOGGER).setLevel(logging.INFO)
    result = _refused(wrong) if options is None else run(options)
    if options is not None and options.result_file is not None:
        result = _kept(result, options.result_file)
    with os.fdopen(answer, "w", encoding="utf-8") as stream:
        stream.write(result.line() + "\n")
    return BAD_INPUT if result.data.final_status is ImplementationStatus.FAILED_INPUT else result.exit_code


def run(options: argparse.Namespace) -> ImprovementResult:
    """Return the answer for parsed arguments; whatever goes wrong is one."""
    try:
        if options.rollback is not None:
            return _rolled_back(options)
        request = request_of(options)
    except (InputError, OSError) as error:
        return _refused(str(error))
    except ValidationError as error:
        return _refused(faults(error))
    folder = options.work_dir or mind_dir() / IMPROVEMENT_FOLDER / request.interaction_id
    try:
        return asyncio.run(_improve(request, folder))
    except MindxError as error:
        return ImprovementResult.failure(request, ImplementationStatus.FAILED_SETUP, error.message)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    made = _Parser(prog="python -m mindx.agents.improvement", description="Improve one file, in a container.")
    made.add_argument("target_file", help="`self`, or a path below --workspace")
    made.add_argument("--context", default="", help="what is wanted, in words")
    made.add_argument("--context-file", type=Path, help="the same, or a tool's specification, or a whole request")
    made.add_argument("--logs", type=Path, nargs="*", default=[], help="files whose ends the model is shown")
    made.add_argument("--llm-provider", default="", help="a name for the record; the endpoint comes from MINDX_*")
    made.add_argument("--llm-model", default="", help="the model to ask instead of the first in MINDX_MODELS")
    made.add_argument("--cycles", type=int, default=1, help="how many attempts (default 1)")
    made.add_argument("--self-test-timeout", type=float, default=180.0, help="seconds for the tests (default 180)")
    made.add_argument("--critique-threshold", type=float, default=0.6, help="the least score, 0 to 1 (default 0.6)")
    made.add_argument(
        "--rollback", type=int, nargs="?", const=1, help="`self` only: take back the last N that are applied"
    )
    made.add_argument("--self-test-mode", action="store_true", help=argparse.SUPPRESS)
    made.add_argument("--output-json", action="store_true", help="accepted; the answer is always one line of JSON")
    made.add_argument("--result-file", type=Path, help="where the answer goes as well")
    made.add_argument("--workspace", type=Path, help="the folder that is copied in; without it an empty one")
    made.add_argument("--work-dir", type=Path, help="where the Changes of the candidate are kept")
    made.add_argument("--test-command", type=shlex.split, default=[], help='the tests, as "python3 -m unittest"')
    made.add_argument("--policy", default="", help="a preset or the path of a policy file")
    made.add_argument("--script", type=Path, help="take the model's turns from a JSON Lines file")
    return made


def request_of(options: argparse.Namespace) -> ImprovementRequest:
    """Return the request that the arguments and the context file make. Raises InputError, ValidationError, OSError."""
    context, value = options.context, None
    if options.context_file is not None:
        data = read_file(options.context_file, MAX_CONTEXT_BYTES)
        if data is None:
            raise InputError("context_missing", f"there is no context file {options.context_file}")
        text = data.decode("utf-8", "replace")
        document = read_json(text)
        value = document.value if document.complete and not document.faults else None
        if isinstance(value, dict) and "interaction_id" in value:
            asked = ImprovementRequest.model_validate_json(json.dumps(value))
            if asked.target_file != options.target_file:
                raise InputError("target_differs", "the context file speaks of another target than the command")
            return asked
        context = f"{context}\n{text}".strip()[:MAX_CONTEXT_CHARS]
    spec = ToolSpec.read(value) if isinstance(value, dict) and "capabilities" in value else None
    known: dict[str, Any] = {
        name: getattr(options, name)
        for name in ("target_file", "workspace", "cycles", "critique_threshold", "llm_provider", "llm_model", "script")
    }
    return ImprovementRequest(
        interaction_id=new_id("sia"),
        context=context,
        tool_spec=spec,
        logs=tuple(options.logs),
        test_command=tuple(options.test_command),
        self_test_timeout_s=options.self_test_timeout,
        policy=options.policy,
        **known,
    )


def provider_of(request: ImprovementRequest) -> BaseProvider:
    """Return the model of a request: a script's, or the endpoint of the environment. Raises ProviderError."""
    if request.script is not None:
        from mindx.providers.scripted import ScriptedProvider

        return ScriptedProvider.from_file(request.script, models=(request.llm_model or "scripted",))
    from mindx.providers.openai import OpenAIProvider
    from mindx.providers.param import OpenAIProviderParam

    return OpenAIProvider(OpenAIProviderParam.from_env())


async def _improve(request: ImprovementRequest, folder: Path) -> ImprovementResult:
    from mindx.agents.improvement.agent import SelfImprovementAgent

    rules = Constitution.of(mind_dir())
    async with provider_of(request) as provider:
        return await SelfImprovementAgent(provider, request, folder, constitution=rules).improve()


def _rolled_back(options: argparse.Namespace) -> ImprovementResult:
    """Take back the last N improvements of `self`; the person at this command line is who decides it."""
    from mindx.agents.improvement.history import roll_back_self

    if options.target_file != SELF:
        raise InputError(
            "rollback_self_only", "--rollback is for `self`; `mindx coordinator rollback` is for the others"
        )
    if not 1 <= options.rollback <= MAX_CYCLES:
        raise InputError("rollback_count", f"--rollback takes 1 to {MAX_CYCLES}")
    folder = options.work_dir or mind_dir() / IMPROVEMENT_FOLDER
    return roll_back_self(folder, options.rollback, Constitution.of(mind_dir()))


def _kept(result: ImprovementResult, path: Path) -> ImprovementResult:
    """Write the answer to its file and return it; where that cannot be, return the failure that it then is."""
    try:
        replace_file(path, result.line().encode())
    except StateError as error:
        data = result.data.model_copy(
            update={"final_status": ImplementationStatus.FAILED_SETUP, "message": error.message, "cycle_results": ()}
        )
        return ImprovementResult(status=ImprovementStatus.FAILURE, message=error.message, data=data)
    return result


def _refused(message: str) -> ImprovementResult:
    nothing = ImprovementRequest(interaction_id="none", target_file=SELF)
    return ImprovementResult.failure(nothing, ImplementationStatus.FAILED_INPUT, message)
