"""The tools of MCP servers, as tools of mindx: each under the policy, with the operator's word for its risk."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from mindx.core.action import ActionRisk
from mindx.core.observation import Status
from mindx.core.output import plain_text
from mindx.errors import InputError
from mindx.policy.load import LoadedPolicy, load_policy
from mindx.tools.base import BaseTool, ToolDefinition, ToolResult, ToolValidationError
from mindx.tools.context import ToolContext
from mindx.tools.mcp.config import MCPServerConfig
from mindx.tools.mcp.connection import Connection
from mindx.tools.mcp.errors import MCPConnectionError
from mindx.tools.mcp.transport import OpenSandbox, container
from mindx.tools.schema import compile_check

MAX_DESCRIPTION = 2000  # characters of what a server says of a tool
MAX_TEXT = 200_000  # characters of an answer
# What of a server's schema is held against arguments here. The rest can take for ever, by a pattern or by references
# that multiply, and a server is not trusted; it checks its arguments itself, and the model is shown the whole.
_CHECKED = frozenset(
    {"type", "required", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"minLength", "maxLength", "minItems", "maxItems"}
)


class MCPTool(BaseTool):
    """One tool of one server. Its answer is untrusted text, as everything is that a server says."""

    def __init__(
        self, connection: Connection, name: str, definition: ToolDefinition, schema: Mapping[str, Any]
    ) -> None:
        self.definition = definition
        self._schema = schema
        self.server = connection.config.name
        self.remote_name = name
        self._connection = connection

    @property
    def argument_schema(self) -> Mapping[str, Any]:
        """What is checked here before the server does."""
        return self._schema

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Return `content` (text), and `structured` when there is some; an error of the tool is a FAILURE.

        Raises MCPToolCallError and MCPConnectionError.
        """
        answer = await self._connection.call(self.remote_name, dict(arguments))
        texts, others = [], []
        for block in answer.content:
            if getattr(block, "type", "") == "text":
                texts.append(str(block.text))
            else:
                others.append(str(getattr(block, "type", "unknown"))[:40])
        text = plain_text("\n".join(texts))
        status = Status.FAILURE if answer.is_error else Status.SUCCESS
        result: dict[str, Any] = {"status": status.value, "content": text[:MAX_TEXT]}
        if len(text) > MAX_TEXT:
            result["truncated"] = True
        if answer.structured_content is not None:
            result["structured"] = answer.structured_content
        if others:
            result["not_shown"] = others[:50]
        return ToolResult(result, status, text[:2000] if answer.is_error else "")


class MCPToolSet:
    """Use it with `async with`, or `open()` and `close()` it: then it holds the tools of all its servers.

    A server runs in a sandbox of its own (`open_sandbox` makes it) with the image, limits, runtime and accepted gaps of
    `policy` (a preset's name, a path, a LoadedPolicy; None: the preset `default`), or on the host where its
    configuration says `run_on: host`. `problems` says which tools were left out, and why.

    Raises MCPConnectionError (mcp_missing: the package is not installed; mcp_unreachable), SandboxError, and InputError
    for a policy that is none and when two servers have one name.
    """

    def __init__(
        self,
        servers: Iterable[MCPServerConfig],
        policy: str | Path | LoadedPolicy | None = None,
        *,
        open_sandbox: OpenSandbox = container,
    ) -> None:
        self.servers = tuple(servers)
        names = [server.name for server in self.servers]
        if len(set(names)) != len(names):
            raise InputError("mcp_config_invalid", "two servers have the same name")
        self.tools: tuple[MCPTool, ...] = ()
        self.problems: tuple[str, ...] = ()
        self._policy = policy if isinstance(policy, LoadedPolicy) else load_policy(policy)
        self._open_sandbox = open_sandbox
        self._connections: list[Connection] = []

    def __iter__(self) -> Iterator[MCPTool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    async def open(self) -> None:
        """Start all servers and ask for their tools."""
        if importlib.util.find_spec("mcp") is None:
            raise MCPConnectionError("mcp_missing", "MCP servers need the package mcp: pip install 'mindx[mcp]'")
        tools: list[MCPTool] = []
        problems: list[str] = []
        try:
            for config in self.servers:
                connection = Connection(config, self._policy, self._open_sandbox)
                self._connections.append(connection)
                await connection.open()
                for found in sorted(await connection.tools(), key=lambda tool: str(tool.name)):
                    _take(connection, found, tools, problems)
        except BaseException:
            await self.close()
            raise
        self.tools, self.problems = tuple(tools), tuple(problems)

    async def close(self) -> None:
        """End all servers; may be called twice."""
        connections, self._connections = self._connections, []
        for connection in connections:
            await connection.close()

    async def __aenter__(self) -> MCPToolSet:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _take(connection: Connection, found: Any, tools: list[MCPTool], problems: list[str]) -> None:
    """Add one tool of a server, or say why not."""
    config, name = connection.config, str(found.name)
    if config.tools is not None and name not in config.tools:
        return
    shown = re.sub(r"[^A-Za-z0-9_-]", "_", f"{config.name}_{name}")[:64]
    if any(tool.tool_id == shown for tool in tools):
        problems.append(f"{config.name}: {name!a:.80} has the name of another tool")
        return
    text = plain_text(str(found.description or ""))[:MAX_DESCRIPTION]
    try:
        definition = ToolDefinition(
            name=shown,
            description=f"({config.name}) {text}",
            parameters=found.input_schema,
            risk=config.risks.get(name, ActionRisk.DANGEROUS),
            require_human_approval=name in config.approval,
            # One server answers one call at a time as far as anybody knows.
            concurrency_key=f"mcp:{config.name}",
        )
        schema = _checked(found.input_schema)
        compile_check(definition, schema)
    except (ToolValidationError, RecursionError) as error:
        problems.append(f"{config.name}: {name!a:.80}: {str(error)[:200]}")
        return
    tools.append(MCPTool(connection, name, definition, schema))


def _checked(schema: Any) -> Any:
    """Return what of a server's schema is checked here. Raises RecursionError for one that is nested too deep."""
    if not isinstance(schema, Mapping):
        return schema if isinstance(schema, bool) else {}
    found = {key: value for key, value in schema.items() if key in _CHECKED}
    if isinstance(schema.get("properties"), Mapping):
        found["properties"] = {name: _checked(item) for name, item in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            found[key] = _checked(schema[key])
    return found
