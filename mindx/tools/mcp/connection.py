"""A connection to one server: opened and closed by one task of its own, called by any."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Any

import anyio

from mindx.core.output import plain_text
from mindx.errors import MindxError
from mindx.policy.load import LoadedPolicy
from mindx.tools.mcp.config import MCPServerConfig
from mindx.tools.mcp.errors import MCPConnectionError, MCPToolCallError
from mindx.tools.mcp.transport import OpenSandbox, Streams, host_streams, sandbox_streams

_LOG = logging.getLogger("mindx.tools.mcp")
MAX_TOOLS = 500
MAX_PAGES = 50
MAX_RESTARTS = 3


class Connection:
    """One server. When it has ended, the next call starts it anew, MAX_RESTARTS times."""

    def __init__(self, config: MCPServerConfig, policy: LoadedPolicy, open_sandbox: OpenSandbox) -> None:
        self.config = config
        self._policy = policy
        self._open_sandbox = open_sandbox
        self._session: Any = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._lock = asyncio.Lock()
        self._restarts = -1
        self._closed = False

    async def open(self) -> None:
        """Start the server and greet it. Raises MCPConnectionError, SandboxError."""
        async with self._lock:
            await self._opened()

    async def tools(self) -> list[Any]:
        """Return the server's tools, as the protocol describes them. Raises MCPConnectionError."""
        from mcp.types import PaginatedRequestParams

        found: list[Any] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
            page = await self._asked(lambda session, params=params: session.list_tools(params=params))
            found += page.tools
            cursor = page.next_cursor
            if not cursor or len(found) >= MAX_TOOLS:
                break
        return found[:MAX_TOOLS]

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the server's answer to one call. Raises MCPToolCallError, MCPConnectionError, SandboxError."""
        from mcp import MCPError

        async with self._lock:
            await self._opened()
        try:
            return await self._asked(lambda session: session.call_tool(name, arguments, self.config.timeout_s))
        except MCPError as error:
            raise MCPToolCallError(f"the server {self.config.name} refused {name}: {str(error)[:500]}") from None

    async def close(self) -> None:
        """End the server and what it runs in; may be called twice."""
        self._closed = True
        await self._ended()

    async def _opened(self) -> None:
        if self._closed:
            raise MCPConnectionError("mcp_ended", f"the connection to {self.config.name} is closed")
        if self._task is not None and not self._task.done():
            return
        await self._ended()
        if self._restarts >= MAX_RESTARTS:
            message = f"the server {self.config.name} has ended {self._restarts + 1} times; it is not started again"
            raise MCPConnectionError("mcp_ended", message)
        self._restarts += 1
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._serve(ready), name=f"mcp:{self.config.name}")
        # No scope of anyio may be left open around the streams: the clock runs here, outside of their task.
        try:
            await asyncio.wait({ready}, timeout=self.config.start_timeout_s)
            if not ready.done():
                raise _unreachable(self.config, TimeoutError())
            ready.result()
        except BaseException:
            ready.cancel()
            self._task.cancel()
            await self._ended()
            raise

    async def _serve(self, ready: asyncio.Future[None]) -> None:
        """Hold the connection open until it is to be closed; all of it is entered and left by this task."""
        error: BaseException | None = None
        try:
            async with AsyncExitStack() as stack:
                self._session = await self._greeted(stack)
                if not ready.done():
                    ready.set_result(None)
                await self._stop.wait()
        except asyncio.CancelledError:
            raise
        except Exception as failure:  # noqa: BLE001 - told to whoever waits, or logged
            error = _first(failure)
        finally:
            self._session = None
            if not ready.done():
                ready.set_exception(_unreachable(self.config, error))
        if error is not None:
            _LOG.warning("the MCP server %s is gone: %s", self.config.name, type(error).__name__)

    async def _greeted(self, stack: AsyncExitStack) -> Any:
        from mindx.tools.mcp.client import TrustingNothing

        read_stream, write_stream = await stack.enter_async_context(self._streams())
        session = await stack.enter_async_context(
            TrustingNothing(read_stream, write_stream, read_timeout_seconds=self.config.start_timeout_s)
        )
        await session.initialize()
        return session

    def _streams(self) -> AbstractAsyncContextManager[Streams]:
        if self.config.url is not None:
            from mindx.tools.mcp.http import http_streams  # its HTTP client costs a tenth of a second

            return http_streams(self.config)
        if self.config.run_on == "host":
            return host_streams(self.config)
        return sandbox_streams(self.config, self._policy, self._open_sandbox)

    async def _asked(self, ask: Any) -> Any:
        """Ask the server, and end the connection when it is gone."""
        from mcp import MCPError

        session, task = self._session, self._task
        if session is None or task is None:
            raise MCPConnectionError("mcp_ended", f"the server {self.config.name} has ended")
        try:
            with anyio.fail_after(max(self.config.timeout_s, self.config.start_timeout_s) + 1):
                return await ask(session)
        except MCPError as error:
            if "closed" in str(error).lower():  # the end of the stream, in the client's own words
                await self._ended()
                raise MCPConnectionError("mcp_ended", f"the server {self.config.name} ended during the call") from None
            raise
        except TimeoutError:
            text = f"the server {self.config.name} did not answer within {self.config.timeout_s:g} s"
            raise MCPToolCallError(text) from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream):
            await self._ended()
            raise MCPConnectionError("mcp_ended", f"the server {self.config.name} has ended") from None
        except (RuntimeError, ValueError) as error:
            text = f"the server {self.config.name} gave an answer that is none: {str(error)[:300]}"
            raise MCPToolCallError(text) from None

    async def _ended(self) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        self._stop.set()
        try:
            await asyncio.wait({task}, timeout=15)
        finally:
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({task}, timeout=5)


def _first(error: BaseException) -> BaseException:
    """Return the failure inside the groups that task groups raise."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return error


def _unreachable(config: MCPServerConfig, error: BaseException | None) -> BaseException:
    if isinstance(error, MindxError):  # a sandbox that cannot start says so itself
        return error
    where = "started on the host" if config.run_on == "host" else "started in its sandbox"
    if isinstance(error, TimeoutError):
        reason = f"it did not answer within {config.start_timeout_s:g} s"
    elif config.url is not None and error is not None:
        reason = plain_text(str(error))[:300] or type(error).__name__
    else:
        reason = str(error)[:300] if isinstance(error, OSError) and error.strerror else "it does not speak the protocol"
    where = where if config.url is None else f"reached at {config.url}"
    return MCPConnectionError("mcp_unreachable", f"the server {config.name} could not be {where}: {reason}")
