"""exec_command: one program in the session's container, by an array of words and never through a shell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindx.core.action import ActionRisk, ActionTraits
from mindx.core.agent_context import AgentContext
from mindx.core.command import Exec
from mindx.core.observation import Status
from mindx.core.quote import quoted
from mindx.core.receipt import ExecResult, ExitCause
from mindx.tools.base import ToolDefinition, ToolResult
from mindx.tools.command_risk import command_traits
from mindx.tools.context import ToolContext
from mindx.tools.workspace.paths import container_path, shown_path
from mindx.tools.workspace.tool import WorkspaceTool

MIN_TIMEOUT_S, DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S = 0.1, 30.0, 300.0
DEFAULT_OUTPUT_BYTES, MAX_OUTPUT_BYTES = 100_000, 1_000_000
_NOTHING_RAN = (ExitCause.NOT_FOUND, ExitCause.NOT_EXECUTABLE, ExitCause.POLICY, ExitCause.ENGINE)


class ExecCommandTool(WorkspaceTool):
    """Runs a program with the session's variables; its risk is computed from the words (see command_risk)."""

    definition = ToolDefinition(
        name="exec_command",
        description="Run one program in the workspace, without a shell: command is an array such as "
        '["python3", "-m", "pytest", "-q"]. There is no network.',
        parameters={
            "type": "object",
            "properties": {
                "command": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "maxItems": 1000,
                    "description": "the program's name and its arguments",
                },
                "cwd": {"type": "string", "minLength": 1, "description": "relative to the workspace; default its root"},
                "timeout_seconds": {"type": "number", "minimum": MIN_TIMEOUT_S, "maximum": MAX_TIMEOUT_S},
                "max_output_bytes": {"type": "integer", "minimum": 1, "maximum": MAX_OUTPUT_BYTES},
            },
            "required": ["command"],
            "additionalProperties": False,
        },
        risk=ActionRisk.WRITE,
    )

    @property
    def least_risk(self) -> ActionRisk:
        """Some programs only look."""
        return ActionRisk.READ_ONLY

    def assess(self, arguments: Mapping[str, Any], context: AgentContext) -> ActionTraits:
        """Return the risk of this command; what the operator's policy asks about needs a person's yes."""
        # One program at a time runs in a container: side by side they would only wait within their deadlines.
        return command_traits([self._command(arguments, context)], self.engine(context), "sandbox:exec")

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return command, cwd, exit_code, stdout, stderr, timed_out, output_truncated, source and exit_cause."""
        command = self._command(arguments, context)
        return self._result(await (await self.opened(context)).execute(command))

    def _command(self, arguments: Mapping[str, Any], context: AgentContext | ToolContext) -> Exec:
        return self.program(
            arguments["command"],
            context,
            cwd=container_path(arguments.get("cwd", ".")),
            env=context.environment.env_vars,
            timeout_s=arguments.get("timeout_seconds", DEFAULT_TIMEOUT_S),
            max_output_bytes=arguments.get("max_output_bytes", DEFAULT_OUTPUT_BYTES),
        )

    def _result(self, ran: ExecResult) -> ToolResult:
        cause = ran.exit_cause
        result = {
            "command": list(ran.argv),
            "cwd": shown_path(ran.command.cwd),
            "exit_code": ran.exit_code,
            "exit_cause": cause.value,
            "stdout": ran.stdout_text,
            "stderr": ran.stderr_text,
            "timed_out": cause is ExitCause.TIMEOUT,
            "output_truncated": ran.truncated,
            "source": self.tool_id,
        }
        if ran.ok:
            return ToolResult({"status": Status.SUCCESS.value, **result}, execution=ran)
        status = Status.ERROR if cause in _NOTHING_RAN else Status.FAILURE
        status = {ExitCause.POLICY: Status.DENIED, ExitCause.CANCELLED: Status.CANCELLED}.get(cause, status)
        return ToolResult({"status": status.value, **result}, status, _ending(ran), ran)


def _ending(ran: ExecResult) -> str:
    program, cause = quoted(ran.argv[0]), ran.exit_cause
    if cause is ExitCause.EXIT:
        return f"{program} ended with exit code {ran.exit_code}"
    if cause is ExitCause.TIMEOUT:
        return f"{program} was killed at its deadline of {ran.command.timeout_s:g} s"
    if cause is ExitCause.NOT_FOUND:
        return f"there is no program {program} in the sandbox; nothing ran"
    return f"{program} did not end well: {cause.value}"
