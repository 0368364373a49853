"""The gates of a candidate that run code, all of them in the container: syntax, tests, a tool's examples."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindx.agents.improvement.models import SELF, TOOL_TEST_FILE, Evaluation, ImprovementRequest
from mindx.core.count import counted
from mindx.core.output import plain_text
from mindx.core.receipt import ExecResult, ExitCause
from mindx.core.strict_json import read_json
from mindx.errors import FileError
from mindx.runtime.session import Session
from mindx.tools.base import ToolError
from mindx.tools.container_entry import ToolSpec
from mindx.tools.container_tool import CapabilityCall

SYNTAX_TIMEOUT_S = CALL_TIMEOUT_S = 30.0
_MAX_TOLD = 3000  # characters of a program's output in the notes
_UNITTEST = ("python3", "-I", "-B", "-c", Path(__file__).with_name("unittest_program.py").read_text("utf-8"))
_NO_CACHE = {"PYTHONDONTWRITEBYTECODE": "1"}
_SYNTAX = {
    ".py": "import sys; compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec')",
    ".json": "import sys, json; json.load(open(sys.argv[1], 'rb'))",
}


@dataclass(frozen=True, slots=True)
class Gate:
    """What one gate said; `passed` None: there is no such gate for this kind of file."""

    passed: bool | None
    notes: str = ""
    left_out: frozenset[str] = frozenset()


async def evaluate(
    session: Session, request: ImprovementRequest, path: str, content: str
) -> tuple[Evaluation, frozenset[str]]:
    """Return what syntax check and tests say of the candidate at `path`, and the tests that were skipped.

    Raises SandboxError, DeniedError.
    """
    syntax = await _syntax(session, path)
    if syntax.passed is False:
        return Evaluation(passed_syntax_check=False, notes=syntax.notes), frozenset()
    gates = [await _examples(session, request.tool_spec, content)] if request.tool_spec is not None else []
    if not gates or gates[0].passed is not False:
        gates.append(await passes_tests(session, request))
    told = [gate.notes for gate in gates if gate.notes]
    verdicts = [gate.passed for gate in gates if gate.passed is not None]
    if not verdicts:
        told.append("there is no test and no example, and what nothing tests does not pass")
    passed = bool(verdicts) and all(verdicts)
    notes = "; ".join(told)[:_MAX_TOLD]
    made = Evaluation(passed_syntax_check=syntax.passed, passed_self_tests=passed, notes=notes)
    return made, frozenset().union(*(gate.left_out for gate in gates))


async def _syntax(session: Session, path: str) -> Gate:
    suffix = path[path.rfind(".") :] if "." in path else ""
    if suffix not in _SYNTAX:
        return Gate(None)
    ran = await session.run(
        ["python3", "-I", "-c", _SYNTAX[suffix], path], timeout_s=_bounded(session, SYNTAX_TIMEOUT_S)
    )
    return Gate(True) if ran.ok else Gate(False, f"the syntax is wrong: {_told(ran)}")


async def passes_tests(session: Session, request: ImprovementRequest) -> Gate:
    """Run the tests of the workspace as it is; `left_out` names those that were skipped.

    Of unittest the program's own report counts, and its exit code must agree; none at all is no success.
    """
    command, has_report = _command(request)
    if not command or (request.tool_spec is not None and not await _is_there(session, TOOL_TEST_FILE)):
        return Gate(None)
    key = secrets.token_hex(16) if has_report else None
    seconds = _bounded(session, request.self_test_timeout_s)
    ran = await session.run(command, env=_NO_CACHE, stdin=key, timeout_s=seconds)
    report = None if key is None else _report(ran, key)
    left_out = frozenset(map(str, report["names"])) if report is not None else frozenset()
    if not ran.ok or (has_report and (report is None or report["failed"])):
        return Gate(False, f"the tests failed: {_told(ran)}", left_out)
    if report is None:
        return Gate(True)
    if not report["passed"]:
        return Gate(None, "every test was skipped" if left_out else "no test was found")
    if report["left_out"] > len(left_out):
        return Gate(False, f"skipped: {counted(report['left_out'], 'test')}; that is too many to tell why")
    return Gate(True, left_out=left_out)


def _report(ran: ExecResult, key: str) -> dict[str, Any] | None:
    """Return what the program says of the tests, None for what is no whole report of this run."""
    found = read_json(ran.stdout)
    if found.problem or not isinstance(found.value, dict):
        return None
    report = found.value.get("report")
    if found.value.get("key") != key or found.value.get("exit_code") != 0 or not isinstance(report, dict):
        return None
    counts = [report.get(name) for name in ("passed", "failed", "left_out")]
    good = all(type(count) is int and count >= 0 for count in counts) and isinstance(report.get("names"), list)
    return report if good else None


async def _is_there(session: Session, path: str) -> bool:
    try:
        await session.stat(path)
    except FileError:
        return False
    return True


def _command(request: ImprovementRequest) -> tuple[Sequence[str], bool]:
    if request.test_command:
        return request.test_command, False
    if request.target_file == SELF:
        return ("python3", "-m", "mindx.agents.improvement", SELF, "--self-test-mode"), False
    if request.tool_spec is not None:
        return (*_UNITTEST, TOOL_TEST_FILE[:-3]), True
    return _UNITTEST, True


async def _examples(session: Session, spec: ToolSpec, content: str) -> Gate:
    """Call each capability as its examples say, through the runner that will run the tool later."""
    count = 0
    for capability in spec.capabilities:
        call = CapabilityCall(spec, capability)
        for example in capability.examples:
            count += 1
            shown = f"{capability.name}({json.dumps(example.arguments)[:200]})"
            try:
                command = call.command(content.encode(), example.arguments, timeout_s=_bounded(session, CALL_TIMEOUT_S))
                answer = await call.run(session.sandbox, command)
            except ToolError as error:
                return Gate(False, f"the example {shown} failed: {error.message}")
            if not example.holds(answer):
                return Gate(False, f"the example {shown} gave {json.dumps(answer)[:300]}")
    return Gate(True if count else None)


def _bounded(session: Session, seconds: float) -> float:
    return min(seconds, session.policy.policy.limits.command_timeout_s)


def _told(ran: ExecResult) -> str:
    if ran.exit_cause is ExitCause.TIMEOUT:
        return f"killed at the deadline of {ran.command.timeout_s:g} s"
    said = plain_text(ran.stderr_text or ran.stdout_text).strip()
    ending = f"exit code {ran.exit_code}" if ran.exit_cause is ExitCause.EXIT else ran.exit_cause.value
    return f"{ending}: {said[-_MAX_TOLD:]}"
