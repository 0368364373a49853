"""Running a generated tool: its code goes in on standard input, with the arguments, and one JSON value comes out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from mindx.core.command import WORKSPACE, Exec
from mindx.core.output import plain_text
from mindx.core.quote import quoted
from mindx.core.receipt import ExecResult, ExitCause
from mindx.core.strict_json import read_json
from mindx.tools.base import ToolError

MAX_SOURCE_BYTES = 256 * 1024
MAX_ARGUMENTS_CHARS = 1024 * 1024
MAX_ANSWER_BYTES = 256 * 1024
DEFAULT_TIMEOUT_S = 60.0
# What the code prints goes to standard error: standard output carries the answer and nothing else. Nothing is read
# from the workspace (-I), so that no file of it can take the place of a module.
RUNNER = """\
import asyncio, inspect, json, os, sys, types
answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
call = json.loads(sys.stdin.buffer.read())
module = sys.modules["tool"] = types.ModuleType("tool")
exec(compile(call["source"], "tool.py", "exec"), module.__dict__)
result = getattr(module, call["capability"])(call["arguments"])
if inspect.isawaitable(result):
    async def wait(): return await result
    result = asyncio.run(wait())
json.dump(result, answer, allow_nan=False)
answer.close()
"""


def runner_command(
    tool_id: str,
    source: bytes,
    capability: str,
    arguments: Mapping[str, Any],
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    env: Mapping[str, str] | None = None,
) -> Exec:
    """Return the Command of one call. Raises ToolError (tool_arguments_too_large).

    Its last two words are for who reads them, in a record or a question: which tool it is, and the code's sha256.
    """
    call = {"source": source.decode("utf-8"), "capability": capability, "arguments": dict(arguments)}
    text = json.dumps(call)
    if len(text) - len(source) > MAX_ARGUMENTS_CHARS:
        raise ToolError(
            f"the arguments have more than {MAX_ARGUMENTS_CHARS:,} characters; put them into a file of the workspace",
            "tool_arguments_too_large",
        )
    return Exec(
        ("python3", "-I", "-c", RUNNER, f"{tool_id}.{capability}", hashlib.sha256(source).hexdigest()),
        WORKSPACE,
        env or {},
        text.encode(),
        timeout_s,
        MAX_ANSWER_BYTES,
    )


def read_answer(tool_id: str, ran: ExecResult) -> Any:
    """Return the JSON value that the tool answered. Raises ToolError with what it said instead."""
    if not ran.ok:
        raise ToolError(f"{tool_id} failed: {_ending(ran)}", "tool_failed")
    if ran.stdout_truncated:
        raise ToolError(
            f"{tool_id} answered with more than {MAX_ANSWER_BYTES:,} bytes; ask for less of it", "tool_result_too_large"
        )
    document = read_json(ran.stdout)
    if document.problem:
        raise ToolError(f"the answer of {tool_id} is no JSON: {document.problem}", "tool_result_invalid")
    return document.value


def _ending(ran: ExecResult) -> str:
    if ran.exit_cause is ExitCause.EXIT:
        lines = plain_text(ran.stderr_text).strip().splitlines()
        return quoted(lines[-1], 500) if lines else f"it ended with exit code {ran.exit_code} and said nothing"
    if ran.exit_cause is ExitCause.TIMEOUT:
        return f"it was killed at its deadline of {ran.command.timeout_s:g} s"
    return f"it did not end well: {ran.exit_cause.value}"
