"""A generated tool: code that a model wrote, called like any tool, run in the session's container and nowhere else."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mindx.core.action import ActionTraits
from mindx.core.agent_context import AgentContext
from mindx.core.command import Exec
from mindx.core.quote import quoted
from mindx.core.receipt import ExecResult, ExitCause
from mindx.errors import DeniedError
from mindx.policy.engine import PolicyEngine
from mindx.sandbox.base import Sandbox
from mindx.tools.base import ToolDefinition, ToolError
from mindx.tools.command_risk import command_traits
from mindx.tools.container_entry import Capability, ToolEntry, ToolSpec
from mindx.tools.container_runner import DEFAULT_TIMEOUT_S, MAX_SOURCE_BYTES, read_answer, runner_command
from mindx.tools.context import ToolContext
from mindx.tools.schema import Check, compile_check
from mindx.tools.schema_cost import schema_width, too_costly
from mindx.tools.workspace.tool import WorkspaceTool

_LOG = logging.getLogger("mindx.tools.container_tool")


class ContainerTool(WorkspaceTool):
    """The tool of one registry entry, whose code lies below `folder`, for the agent `agent_id`.

    A tool of one capability takes the capability's arguments; one of several takes its name as `command` besides.
    Each call holds the code against the entry's hash, the arguments against `input_schema` and the answer against
    `output_schema`. `engine` as for a WorkspaceTool. Raises ToolValidationError for a schema that is none.
    """

    def __init__(
        self, entry: ToolEntry, folder: Path, *, agent_id: str = "", engine: PolicyEngine | None = None
    ) -> None:
        super().__init__(engine=engine)
        self.entry = entry
        self._folder = folder
        self._agent_id = agent_id
        self.definition = definition_of(entry)
        self._calls = {item.name: CapabilityCall(entry, item) for item in entry.capabilities}

    def assess(self, arguments: Mapping[str, Any], context: AgentContext) -> ActionTraits:
        """Return what the policy says of the program that a call runs."""
        call, rest = self._chosen(arguments)
        problem = call.problem(rest)
        if problem:
            return ActionTraits(problem=problem)
        return command_traits([self._program(call, b"", {}, context)], self.engine(context), "sandbox:exec")

    def result_fields(self, arguments: Mapping[str, Any]) -> frozenset[str] | None:
        """Return the fields that output_schema names; None where it leaves others open."""
        try:
            schema = self._chosen(arguments)[0].capability.output_schema
        except ToolError:
            return None
        known = schema.get("properties")
        if not isinstance(known, dict) or schema.get("additionalProperties", True) is not False:
            return None
        return frozenset(known)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return what the code answers. Raises ToolError, and DeniedError for an agent that must not use the tool."""
        if not self.entry.access_control.allows(self._agent_id):
            _LOG.warning("the agent %s was refused the tool %s", self._agent_id, self.tool_id)
            raise DeniedError("tool_not_allowed", f"{self.tool_id} is not for the agent {quoted(self._agent_id)}")
        call, rest = self._chosen(arguments)
        command = self._program(call, read_source(self.entry, self._folder), rest, context)
        return await call.run(await self.opened(context), command)

    def _program(
        self, call: CapabilityCall, source: bytes, arguments: Mapping[str, Any], context: AgentContext | ToolContext
    ) -> Exec:
        limit_s = self.engine(context).policy.limits.command_timeout_s
        env = context.environment.env_vars
        return call.command(source, arguments, timeout_s=min(DEFAULT_TIMEOUT_S, limit_s), env=env)

    def _chosen(self, arguments: Mapping[str, Any]) -> tuple[CapabilityCall, dict[str, Any]]:
        rest = dict(arguments)
        if len(self._calls) == 1:
            return next(iter(self._calls.values())), rest
        name = str(rest.pop("command", ""))
        if name not in self._calls:
            known = ", ".join(self._calls)
            raise ToolError(f"{self.tool_id} has no command {quoted(name)}; it has {known}", "tool_arguments_invalid")
        return self._calls[name], rest


class CapabilityCall:
    """One capability with its schemas made ready: the way of each call into the container and back."""

    def __init__(self, spec: ToolSpec, capability: Capability) -> None:
        definition = ToolDefinition(spec.id)
        self.tool_id = spec.id
        self.capability = capability
        self._checks: dict[str, Check] = {
            "arguments": compile_check(definition, {"properties": {"value": capability.input_schema}}),
            "answer": compile_check(definition, {"properties": {"value": capability.output_schema}}),
        }
        self._widths = {
            "arguments": schema_width([capability.input_schema]),
            "answer": schema_width([capability.output_schema]),
        }

    def problem(self, arguments: Mapping[str, Any]) -> str:
        """Return what is wrong with the arguments of a call, or ""."""
        return self._held("arguments", arguments)

    def command(
        self,
        source: bytes,
        arguments: Mapping[str, Any],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        env: Mapping[str, str] | None = None,
    ) -> Exec:
        """Return the Command of one call; a source of b"" is for judging. Raises ToolError: they do not fit."""
        problem = self.problem(arguments) if source else ""
        if problem:
            raise ToolError(f"the arguments of {self._shown} do not fit: {problem}", "tool_arguments_invalid")
        return runner_command(self.tool_id, source, self.capability.name, arguments, timeout_s=timeout_s, env=env)

    async def run(self, sandbox: Sandbox, command: Exec) -> Any:
        """Send it, and return the checked answer. Raises ToolError."""
        ran = await sandbox.execute(command)
        answer = read_answer(self.tool_id, _allowed(ran))
        fault = self._held("answer", answer)
        if fault:
            raise ToolError(
                f"what {self._shown} answered does not fit its output_schema: {fault}", "tool_result_invalid"
            )
        return answer

    def _held(self, which: str, value: Any) -> str:
        if too_costly(self._widths[which], value):
            return "it has too many values for a schema with so many alternatives"
        return self._checks[which]({"value": value}).replace("`value.", "`").replace("`value`: ", "")

    @property
    def _shown(self) -> str:
        return f"{self.tool_id}.{self.capability.name}"


def definition_of(spec: ToolSpec) -> ToolDefinition:
    """Return what a model is told of a generated tool."""
    items = spec.capabilities
    told = "\n".join(f"{item.name}: {item.description}" for item in items if item.description)
    description = f"{spec.description}\n{told}".strip()
    if len(items) == 1:
        schema = {"properties": {}, **items[0].input_schema, "type": "object"}
        return ToolDefinition(spec.id, description, schema)
    properties: dict[str, Any] = {"command": {"enum": [item.name for item in items]}}
    for item in items:
        known = item.input_schema.get("properties", {})
        for name, value in known.items() if isinstance(known, dict) else ():
            # Two capabilities may mean different things by one name: each call is held against its own schema.
            properties[name] = value if properties.get(name, value) == value else {}
    return ToolDefinition(spec.id, description, {"type": "object", "properties": properties, "required": ["command"]})


def read_source(entry: ToolEntry, folder: Path) -> bytes:
    """Return a tool's code, the very one that was registered. Raises ToolError (tool_altered, tool_missing)."""
    path = folder / entry.module_path
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            data = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        reason = error.strerror or "it cannot be read"
        raise ToolError(f"the code of {entry.id} {entry.version} is not there: {reason}", "tool_missing") from None
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise ToolError(
            f"the code of {entry.id} {entry.version} is not what was registered; it was not run", "tool_altered"
        )
    return data


def _allowed(ran: ExecResult) -> ExecResult:
    if ran.exit_cause is ExitCause.POLICY:
        raise DeniedError("policy_denied", "the policy does not allow python3, which runs generated tools")
    return ran
