"""The misbehaving endpoint, in a thread of its own, and providers that talk to it over real HTTP."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from mindx.providers.openai import OpenAIProvider
from mindx.providers.param import OpenAIProviderParam
from mindx.providers.retry import RetryRules
from tests.providers.server import Endpoint

KEY = "test-key-6f1d2c93ab"


@dataclass
class Waits:
    """Stands in for the clock and for sleeping: time passes only by the waits that are asked for."""

    waited: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return sum(self.waited)

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)

    def rules(self, max_attempts: int = 4, deadline_s: float = 300.0) -> RetryRules:
        return RetryRules(max_attempts, deadline_s, self.sleep, self.clock, lambda: 1.0)


class Remote:
    """One test's own corner of a running endpoint."""

    def __init__(self, address: str, token: str) -> None:
        self._base = f"http://{address}/{token}"
        self.waits = Waits()

    def param(self, mode: str = "ok", **settings: Any) -> OpenAIProviderParam:
        values = {"api_key": KEY, "base_url": f"{self._base}/{mode}/v1", "models": ("served",), **settings}
        return OpenAIProviderParam(**values)

    def provider(self, mode: str = "ok", *, rules: RetryRules | None = None, **settings: Any) -> OpenAIProvider:
        return OpenAIProvider(self.param(mode, **settings), rules=rules or self.waits.rules())

    def _call(self, what: str, value: Any = None) -> Any:
        data = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(f"{self._base}/control/{what}", data=data)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as answer:
            return json.loads(answer.read())

    def script(self, *turns: dict[str, Any]) -> None:
        self._call("script", list(turns))

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self._call("requests")

    async def saw(self, what: str) -> None:
        """Wait until a request is kept waiting (`stalled`) or its client has gone (`closed`)."""
        await asyncio.to_thread(self._call, what)


@pytest.fixture(scope="session")
def endpoint_address() -> Iterator[str]:
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(Endpoint().serve, "127.0.0.1", 0, limit=2**26))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    host, port = server.sockets[0].getsockname()[:2]
    yield f"{host}:{port}"
    asyncio.run_coroutine_threadsafe(_end(server), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


async def _end(server: asyncio.Server) -> None:
    server.close()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


_numbers = itertools.count()


@pytest.fixture
def remote(endpoint_address: str) -> Remote:
    return Remote(endpoint_address, f"t{next(_numbers)}")


async def collect(chunks: AsyncIterator[Any]) -> list[Any]:
    return [chunk async for chunk in chunks]
