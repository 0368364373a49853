"""The two ways to a server: a process of the host, or one in a container of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import posixpath
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal

import anyio

from mindx.core.command import WORKSPACE, Exec, MakeDir, WriteFile
from mindx.policy.load import load_policy
from mindx.sandbox.base import Sandbox
from mindx.tools.mcp.config import MCPServerConfig
from mindx.tools.mcp.relay import INBOX, SCRIPT
from mindx.workspace.copy_in import copy_in, plan_copy

_LOG = logging.getLogger("mindx.tools.mcp")
MAX_LINE_BYTES = 8 * 1024 * 1024  # of one message of a server
MAX_OUTPUT_BYTES = 64 * 1024 * 1024  # of a server, in all; then it is started anew
_QUEUE = 256

OpenSandbox = Callable[[MCPServerConfig], Sandbox]
Streams = tuple[Any, Any]


def container(config: MCPServerConfig) -> Sandbox:
    """Return a container for one server, under the limits of the preset `default`; not started yet."""
    from mindx.sandbox.container import ContainerSettings
    from mindx.sandbox.docker import DockerSandbox  # costs a tenth of a second

    loaded = load_policy()
    image = config.image or loaded.policy.image
    return DockerSandbox(ContainerSettings(loaded.policy.limits, image, loaded.sha256))


@asynccontextmanager
async def host_streams(config: MCPServerConfig) -> AsyncIterator[Streams]:
    """Give the streams of a server on the host, by the official client. What it writes to stderr is dropped."""
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=config.command[0],
        args=list(config.command[1:]),
        env=dict(config.env),
        cwd=None if config.folder is None else str(config.folder),
    )
    async with AsyncExitStack() as stack:
        # A server's own words would tear the terminal of whoever runs mindx.
        silence = stack.enter_context(open(os.devnull, "w"))  # noqa: ASYNC230, SIM115 - /dev/null does not block
        yield await stack.enter_async_context(stdio_client(parameters, errlog=silence))


@asynccontextmanager
async def sandbox_streams(config: MCPServerConfig, open_sandbox: OpenSandbox) -> AsyncIterator[Streams]:
    """Give the streams of a server in a sandbox of its own, which ends with them."""
    async with open_sandbox(config) as sandbox:
        if config.folder is not None:
            limits = load_policy().policy.limits
            with await asyncio.to_thread(
                plan_copy,
                config.folder,
                max_bytes=limits.workspace_bytes,
                max_entries=limits.workspace_inodes,
                patterns=load_policy().policy.workspace.patterns,
            ) as plan:
                await copy_in(sandbox, plan)
        box = posixpath.join(WORKSPACE, INBOX)
        await sandbox.make_dir(MakeDir(box))
        async with _relayed(sandbox, box, config) as streams:
            yield streams


@asynccontextmanager
async def _relayed(sandbox: Sandbox, box: str, config: MCPServerConfig) -> AsyncIterator[Streams]:
    to_session, read_stream = anyio.create_memory_object_stream[Any](_QUEUE)
    write_stream, from_session = anyio.create_memory_object_stream[Any](_QUEUE)
    lines = _Lines(to_session)

    async def run() -> None:
        """Run the server to its end; then the session sees its stream closed."""
        command = Exec(
            ("python3", "-c", SCRIPT, box, *config.command),
            env=config.env,
            timeout_s=None,
            max_output_bytes=MAX_OUTPUT_BYTES,
        )
        try:
            ended = await sandbox.execute(command, lines.take)
            _LOG.info("the MCP server %s ended: %s %s", config.name, ended.exit_cause.value, ended.exit_code)
        except OversizedError:
            _LOG.warning("the MCP server %s sent a line that is too long, or too many at once", config.name)
        finally:
            to_session.close()

    async def send() -> None:
        number = 0
        async for item in from_session:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await sandbox.write_file(WriteFile(posixpath.join(box, str(number)), text.encode() + b"\n", 0o600))
            number += 1

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        group.start_soon(send)
        try:
            yield read_stream, write_stream
        finally:
            group.cancel_scope.cancel()
            for stream in (read_stream, write_stream, to_session, from_session):
                stream.close()


class OversizedError(Exception):
    """A server sends more than is taken."""


class _Lines:
    """Cuts a server's output into messages. Raises OversizedError, which kills the server."""

    def __init__(self, to_session: Any) -> None:
        self._to_session = to_session
        self._rest = b""

    def take(self, stream: Literal["stdout", "stderr"], piece: bytes) -> None:
        if stream != "stdout":
            return
        *lines, rest = (self._rest + piece).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise OversizedError
        self._rest = rest
        for line in lines:
            if line.strip():
                self._send(_message(line))

    def _send(self, message: Any) -> None:
        try:
            self._to_session.send_nowait(message)
        except anyio.WouldBlock:
            raise OversizedError from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return


def _message(line: bytes) -> Any:
    """Return one message, or the exception that says why it is none: the session tells its reader."""
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error
