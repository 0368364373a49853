"""The two ways to a server: a process of the host, or one in a container of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import posixpath
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import anyio

from mindx.core.command import WORKSPACE, Command, Exec, MakeDir, WriteFile
from mindx.core.verdict import Verdict
from mindx.policy.load import LoadedPolicy
from mindx.sandbox.base import Sandbox
from mindx.sandbox.driver import Driver
from mindx.tools.mcp.config import MCPServerConfig
from mindx.tools.mcp.relay import INBOX, SCRIPT
from mindx.workspace.copy_in import copy_in, plan_copy

_LOG = logging.getLogger("mindx.tools.mcp")
MAX_LINE_BYTES = 8 * 1024 * 1024  # of one message of a server
MAX_OUTPUT_BYTES = 64 * 1024 * 1024  # of a server, in all; then it is started anew
_QUEUE = 256

OpenSandbox = Callable[[MCPServerConfig, LoadedPolicy], Sandbox]
Streams = tuple[Any, Any]


def container(config: MCPServerConfig, policy: LoadedPolicy) -> Sandbox:
    """Return a container for one server as the operator's policy wants it; not started yet."""
    from mindx.sandbox.container import ContainerSettings
    from mindx.sandbox.docker import DockerSandbox  # costs a tenth of a second

    return DockerSandbox(ContainerSettings.of(policy, config.image))


@dataclass(frozen=True, slots=True)
class ServerJudge:
    """Admits what the relay of one server does, to the letter: its own program, its box, a numbered file in the box."""

    server: Exec
    box: str

    def __call__(self, command: Command) -> Verdict:
        """Return the Verdict."""
        if command in (self.server, MakeDir(self.box)):
            return Verdict("allow", "mcp", "it is the server of the operator's configuration")
        if isinstance(command, WriteFile):
            folder, name = posixpath.split(command.path)
            if folder == self.box and name.isascii() and name.isdigit() and command.mode == 0o600:
                return Verdict("allow", "mcp", "it is a message for the server")
        return Verdict("deny", "mcp", "in the sandbox of an MCP server only the server runs")


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
async def sandbox_streams(
    config: MCPServerConfig, policy: LoadedPolicy, open_sandbox: OpenSandbox
) -> AsyncIterator[Streams]:
    """Give the streams of a server in a sandbox of its own, which ends with them. Nothing else gets into it."""
    box = posixpath.join(WORKSPACE, INBOX)
    server = Exec(
        ("python3", "-c", SCRIPT, box, *config.command),
        env=config.env,
        timeout_s=None,
        max_output_bytes=MAX_OUTPUT_BYTES,
    )
    async with Driver(open_sandbox(config, policy), ServerJudge(server, box)) as sandbox:
        if config.folder is not None:
            limits = policy.policy.limits
            with await asyncio.to_thread(
                plan_copy,
                config.folder,
                max_bytes=limits.workspace_bytes,
                max_entries=limits.workspace_inodes,
                patterns=policy.policy.workspace.patterns,
            ) as plan:
                await copy_in(sandbox, plan)
        await sandbox.make_dir(MakeDir(box))
        async with _relayed(sandbox, box, server, config.name) as streams:
            yield streams


@asynccontextmanager
async def _relayed(sandbox: Sandbox, box: str, server: Exec, name: str) -> AsyncIterator[Streams]:
    to_session, read_stream = anyio.create_memory_object_stream[Any](_QUEUE)
    write_stream, from_session = anyio.create_memory_object_stream[Any](_QUEUE)
    lines = _Lines(to_session)

    async def run() -> None:
        """Run the server to its end; then the session sees its stream closed."""
        try:
            ended = await sandbox.execute(server, lines.take)
            _LOG.info("the MCP server %s ended: %s %s", name, ended.exit_cause.value, ended.exit_code)
        except OversizedError:
            _LOG.warning("the MCP server %s sent a line that is too long, or too many at once", name)
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
