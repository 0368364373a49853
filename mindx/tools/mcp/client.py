"""The official client, but for one thing: a server's answers are not checked by the server's own schemas."""

from __future__ import annotations

from mcp import ClientSession
from mcp.types import CallToolResult


class TrustingNothing(ClientSession):
    """A hostile server could send a schema with a pattern that never ends, and an answer to match."""

    async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
        """Take the answer as it is: text for a model."""
