"""A small MCP server over stdio, written with the official package."""

from __future__ import annotations

import os
import sys

import anyio
from mcp.server.mcpserver import MCPServer

server = MCPServer("counting")
counted = {"calls": 0}


@server.tool(description="Add two integers.")
def add(a: int, b: int) -> int:
    counted["calls"] += 1
    return a + b


@server.tool()
def calls() -> str:
    """Say how often add was called, and in which process."""
    return f"{counted['calls']} in {os.getpid()}"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it does not work")


@server.tool()
async def wait() -> str:
    """Wait for ever."""
    await anyio.sleep_forever()
    return ""


@server.tool()
def leave() -> str:
    """End the server in the middle of the call."""
    os._exit(3)


@server.tool()
def environment(name: str) -> str:
    """Tell one variable."""
    return os.environ.get(name, "-")


if __name__ == "__main__":
    sys.stderr.write("a word that belongs to nobody\n")
    server.run("stdio")
