"""What can go wrong with an MCP server."""

from __future__ import annotations

from mindx.errors import MindxError
from mindx.tools.base import ToolError


class MCPConnectionError(MindxError):
    """A server cannot be started, spoken to, or has ended. Codes: mcp_missing, mcp_unreachable, mcp_ended."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message, recoverable=True)


class MCPToolCallError(ToolError):
    """A server answered a call with an error of the protocol, or with what is no answer. Code: mcp_call_failed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "mcp_call_failed")
