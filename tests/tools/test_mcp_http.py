"""MCP servers at an address: a real server of the official package, over streamable HTTP on loopback."""

from __future__ import annotations

import asyncio
import http.server
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mindx import InputError, MCPConnectionError, MCPServerConfig, MCPToolSet, Observation, Status, load_mcp_servers
from tests.tools.test_mcp import Do, caller

SERVER = Path(__file__).parent / "servers" / "over_http.py"


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """Give the URL of a server that ends with this block."""
    command = [sys.executable, str(SERVER), *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        process.stdin.close()


def with_tools(work: Callable[[MCPToolSet, Do], Awaitable[Any]], url: str, **options: Any) -> Any:
    """Open the tools of a server at an address, work with them, close them."""

    async def main() -> Any:
        async with MCPToolSet([at(url, **options)]) as tools:
            return await work(tools, caller(tools))

    return asyncio.run(asyncio.wait_for(main(), 60))


def at(url: str, **options: Any) -> MCPServerConfig:
    return MCPServerConfig("far", url=url, run_on="host", **{"timeout_s": 5.0, "start_timeout_s": 20.0, **options})


def refused(url: str, **options: Any) -> MCPConnectionError:
    with pytest.raises(MCPConnectionError) as caught:
        with_tools(lambda tools, do: do("far_add"), url, **options)
    return caught.value


def test_a_servers_tools_are_called_like_any_other() -> None:
    async def work(tools: MCPToolSet, do: Do) -> list[Observation]:
        assert "far_add" in [tool.tool_id for tool in tools]
        return [await do("far_add", a=17, b=25), await do("far_add", a="x", b=1), await do("far_fail")]

    with served() as url:
        added, wrong, failed = with_tools(work, url)
    assert (added.status, added.result["content"]) == (Status.SUCCESS, "42")
    assert "expected integer, not string" in wrong.message
    assert failed.status is Status.FAILURE


def test_a_call_is_bounded_in_time_and_the_next_one_works() -> None:
    async def work(tools: MCPToolSet, do: Do) -> list[Observation]:
        return [await do("far_wait"), await do("far_add", a=1, b=2)]

    with served() as url:
        late, added = with_tools(work, url, timeout_s=0.5)
    assert late.status is Status.ERROR
    assert added.result["content"] == "3"


def test_a_server_that_ends_in_the_middle_is_a_typed_error() -> None:
    async def work(tools: MCPToolSet, do: Do) -> list[Observation]:
        return [await do("far_leave"), await do("far_add", a=1, b=2), await do("far_add", a=1, b=2)]

    with served() as url:
        seen = with_tools(work, url)
    assert {item.status for item in seen} == {Status.ERROR}
    last = seen[-1].error_info
    assert last is not None
    assert last.details["code"] == "mcp_unreachable"


def test_its_headers_are_sent_and_shown_nowhere() -> None:
    async def work(tools: MCPToolSet, do: Do) -> Observation:
        return await do("far_add", a=1, b=2)

    with served("Bearer sesame") as url:
        config = at(url, headers={"Authorization": "Bearer sesame"})
        assert with_tools(work, url, headers=config.headers).result["content"] == "3"
        error = refused(url, headers={"Authorization": "Bearer other"})
    assert "sesame" not in repr(config)
    assert error.code == "mcp_unreachable"
    assert "other" not in error.message


class Hostile(http.server.BaseHTTPRequestHandler):
    """Answers each request as its path says."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/moved":
            self.send_response(307)
            self.send_header("Location", self.server.elsewhere)  # type: ignore[attr-defined]
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if self.path == "/packed":
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        try:
            if self.path == "/endless":
                while True:
                    self.wfile.write(b"[" * 2**20)
            self.wfile.write(b"{" if self.path == "/broken" else b"x" * 100)
        except OSError:
            return

    def log_message(self, *arguments: Any) -> None:
        return


@contextmanager
def hostile(elsewhere: str = "") -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    server.daemon_threads = True
    server.elsewhere = elsewhere  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("path", ["/broken", "/packed", "/endless"])
def test_what_a_hostile_server_answers_is_a_typed_error(path: str) -> None:
    with hostile() as url:
        assert refused(url + path).code == "mcp_unreachable"


def test_it_is_not_sent_to_another_host() -> None:
    """A redirect could carry the headers, with a key among them, to anybody."""
    listening = socket.create_server(("127.0.0.1", 0))
    with listening, hostile(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp") as url:
        assert refused(url + "/moved").code == "mcp_unreachable"
        listening.settimeout(0)
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_nobody_at_the_address_is_told_with_the_address() -> None:
    free = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"
    free.close()
    assert url in refused(url).message


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('"url": "https://a.example/mcp"', '"run_on": "host"'),
        ('"url": "https://a.example/mcp", "run_on": "host", "command": "x"', "takes no command"),
        ('"url": "http://a.example/mcp", "run_on": "host"', "would show the key"),
        ('"url": "file:///etc/passwd", "run_on": "host"', "no http(s) URL"),
        ('"url": "https://me:pw@a.example/mcp", "run_on": "host"', "user name"),
        ('"url": "https://a.example/mcp", "run_on": "host", "headers": {"A B": "x"}', "headers"),
        ('"url": "https://a.example/mcp", "run_on": "host", "headers": {"A": "x\\ny"}', "headers"),
        ('"command": "x", "headers": {"A": "x"}', "only a `url`"),
    ],
)
def test_addresses_that_are_none(tmp_path: Path, entry: str, words: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"a": {' + entry + "}}}")
    with pytest.raises(InputError) as caught:
        load_mcp_servers(path)
    assert caught.value.code == "mcp_config_invalid"
    assert words in caught.value.message


def test_an_address_is_read_as_other_clients_write_it(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    entry = '"type": "http", "url": "https://a.example/mcp", "headers": {"X-Key": "k"}, "run_on": "host"'
    path.write_text('{"mcpServers": {"a": {' + entry + "}}}")
    (server,) = load_mcp_servers(path)
    assert (server.url, dict(server.headers), server.command) == ("https://a.example/mcp", {"X-Key": "k"}, ())
