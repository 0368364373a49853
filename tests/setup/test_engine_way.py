"""A session's own way to the engine: the SDK's answers and errors, without the SDK until something goes wrong."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import docker
import docker.errors
import pytest

from mindx.errors import EngineError
from mindx.sandbox.engine import ENGINE_EXCEPTIONS, engine_error
from mindx.sandbox.engine_api import DirectClient
from mindx.sandbox.engine_way import reach

PING = b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 2\r\n\r\nOK"


class Engine:
    """Answers each connection with the next of its answers, and keeps what it was asked."""

    def __init__(self, path: Path) -> None:
        self.answers: list[bytes] = []
        self.asked: list[str] = []
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with client:
                data = b""
                while b"\r\n\r\n" not in data and (piece := client.recv(65536)):
                    data += piece
                if data:  # the SDK's way first looks whether there is a socket
                    self.asked.append(data.decode())
                    client.sendall(self.answers.pop(0))

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Engine]:
    with closing(Engine(tmp_path / "s")) as engine:
        yield engine


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"DOCKER_HOST": f"unix://{tmp_path / 's'}", "HOME": str(tmp_path)}


def answer(status: str, document: object) -> bytes:
    content = json.dumps(document).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


@pytest.mark.parametrize(
    ("status", "message", "kind", "code"),
    [
        ("404 Not Found", "No such container: x", docker.errors.NotFound, "engine_not_found"),
        ("404 Not Found", "No such image: x:latest", docker.errors.ImageNotFound, "engine_not_found"),
        ("409 Conflict", "removal of container x is already in progress", docker.errors.APIError, "engine_conflict"),
        ("500 Internal Server Error", "open x: no space left on device", docker.errors.APIError, "engine_disk_full"),
    ],
)
def test_a_refusal_is_the_sdks_error(
    stub: Engine, environ: dict[str, str], status: str, message: str, kind: type[docker.errors.APIError], code: str
) -> None:
    stub.answers = [PING, answer(status, {"message": message})]
    with pytest.raises(docker.errors.APIError) as caught:
        reach(environ).api.inspect_container("x")
    assert type(caught.value) is kind
    assert caught.value.response is not None
    assert caught.value.response.status_code == int(status[:3])
    assert engine_error(caught.value, "look").code == code


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"no engine\r\n\r\n",
    ],
)
def test_an_answer_that_breaks_off_is_no_answer(stub: Engine, environ: dict[str, str], broken: bytes) -> None:
    """Above all to `wait`: it would mean that the container is gone."""
    stub.answers = [PING, broken]
    with pytest.raises(ENGINE_EXCEPTIONS) as caught:
        reach(environ).api.wait("x", timeout=None, condition="removed")
    assert engine_error(caught.value, "wait").code == "engine_lost"


def test_a_socket_that_is_gone_meanwhile_is_told_as_such(stub: Engine, environ: dict[str, str], tmp_path: Path) -> None:
    stub.answers = [PING]
    client = reach(environ)
    (tmp_path / "s").unlink()
    with pytest.raises(ENGINE_EXCEPTIONS) as caught:
        client.info()
    assert engine_error(caught.value, "ask").code == "engine_missing"


def test_headers_that_docker_is_configured_to_send_are_sent(
    stub: Engine, environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text('{"HttpHeaders": {"X-Of-The-User": "me"}}')
    stub.answers = [PING, answer("200 OK", {"NCPU": 1})]
    assert reach(environ).info() == {"NCPU": 1}
    assert all("X-Of-The-User: me\r\n" in request for request in stub.asked)


def test_what_does_not_ping_as_an_engine_is_left_to_the_sdk(stub: Engine, environ: dict[str, str]) -> None:
    stub.answers = [b"SSH-2.0\r\n\r\n"] * 9
    with pytest.raises(EngineError, match="from DOCKER_HOST") as caught:
        reach(environ)
    assert caught.value.code == "engine_lost"


def test_both_ways_say_the_same(engine: docker.DockerClient, derived_image: object) -> None:
    """Of the real engine: info, images, containers; and the SDK does what the own way cannot."""
    if not str(engine.api.base_url).startswith("http+docker://localhost"):
        pytest.skip("the engine is not reached by a socket")
    with closing(reach()) as client:
        assert isinstance(client, DirectClient)
        assert client.info()["ID"] == engine.info()["ID"]
        image = engine.images.list()[0].id
        assert client.api.inspect_image(image) == engine.api.inspect_image(image)
        calls: list[Callable[[docker.DockerClient], object]] = [
            lambda one: one.api.inspect_image("mindx-no-such:image"),
            lambda one: one.api.inspect_container("mindx-no-such"),
            lambda one: one.api.start("mindx-no-such"),
            lambda one: one.api.remove_container("mindx-no-such", v=True, force=True),
        ]
        for call in calls:
            errors = []
            for one in (client, engine):
                with pytest.raises(docker.errors.APIError) as caught:
                    call(one)
                errors.append((type(caught.value), caught.value.response.status_code, caught.value.explanation))
            assert errors[0] == errors[1]
        assert client.version()["ApiVersion"] == engine.version()["ApiVersion"]


def test_a_session_does_not_load_the_sdk(engine: docker.DockerClient, derived_image: object) -> None:
    """It takes as long to load as a container takes to be made: only what goes wrong needs it."""
    if not str(engine.api.base_url).startswith("http+docker://localhost"):
        pytest.skip("the engine is not reached by a socket")
    program = (
        "import asyncio, sys, mindx\n"
        "async def main():\n"
        "    async with mindx.Session() as session:\n"
        "        assert (await session.run(['true'])).ok\n"
        "asyncio.run(main())\n"
        "print(*{name.partition('.')[0] for name in sys.modules} & {'docker', 'requests', 'urllib3'})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
