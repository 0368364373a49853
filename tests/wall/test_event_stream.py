"""The engine's event stream breaks off: live sessions follow it anew, or end and say why."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mindx.errors import SandboxLostError
from mindx.sandbox import events
from mindx.sandbox.engine_place import find_places
from tests.wall.support import python, sh, until

pytestmark = pytest.mark.anyio
LATER = python("import time; time.sleep(60)", timeout_s=None)


class Proxy:
    """A socket in front of the engine's. `cut` breaks the event streams; `streams` counts those that were asked for."""

    def __init__(self, path: Path, engine: str) -> None:
        self.refusing = False
        self.streams = 0
        self.refused = threading.Event()
        self._engine = engine
        self._streams: list[socket.socket] = []
        self._ends: list[socket.socket] = []
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(64)
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def cut(self) -> None:
        shut(*self._streams)
        self._streams.clear()

    def close(self) -> None:
        shut(self._server)
        self._threads[0].join()
        shut(*self._ends)
        for thread in self._threads:
            thread.join()
        for end in (self._server, *self._ends):
            end.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                there = socket.socket(socket.AF_UNIX)
                self._ends += [client, there]
                there.connect(self._engine)
                for work in (self._ask, self._answer):
                    self._threads.append(threading.Thread(target=work, args=(client, there)))
                    self._threads[-1].start()

    def _ask(self, client: socket.socket, there: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if b"/events?" in data.split(b"\r\n", 1)[0]:
                    if self.refusing:
                        self.refused.set()
                        shut(client, there)
                        return
                    self.streams += 1
                    self._streams += [client, there]
                there.sendall(data)
            there.shutdown(socket.SHUT_WR)

    def _answer(self, client: socket.socket, there: socket.socket) -> None:
        with suppress(OSError):
            while data := there.recv(65536):
                client.sendall(data)
        shut(client, there)


def shut(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, derived_image: object) -> Iterator[Proxy]:
    place = find_places()[0].socket
    if place is None:
        pytest.skip("the engine is not reached by a socket")
    made = Proxy(tmp_path / "s", str(place))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 's'}")
    yield made
    made.close()


async def test_a_stream_that_breaks_off_is_opened_anew_and_a_foreign_hand_is_noticed(engine, make, proxy):
    async with make() as sandbox:
        proxy.cut()
        await until(lambda: proxy.streams == 2)
        assert (await sandbox.execute(sh("true"))).ok  # what the engine repeats is not taken for a second attach
        running = asyncio.create_task(sandbox.execute(LATER))
        engine.api.exec_create(sandbox.container_id, ["true"])
        with pytest.raises(SandboxLostError) as caught:
            await asyncio.wait_for(running, 10)
        assert caught.value.code == "foreign_access"


async def test_what_happened_meanwhile_is_told_late(engine, make, proxy):
    async with make() as sandbox:
        running = asyncio.create_task(sandbox.execute(LATER))
        proxy.refusing = True
        proxy.cut()
        assert await asyncio.to_thread(proxy.refused.wait, 10)
        stream = engine.api.attach_socket(sandbox.container_id, params={"stdout": 1, "stream": 1})
        stream._sock.close()
        stream.close()
        proxy.refusing = False
        with pytest.raises(SandboxLostError) as caught:
            await asyncio.wait_for(running, 10)
        assert caught.value.code == "foreign_access"


async def test_a_stream_that_cannot_be_had_again_ends_the_sessions(make, proxy, monkeypatch):
    monkeypatch.setattr(events, "REOPEN_AFTER_S", (0.01, 0.1))
    async with make() as sandbox, make() as idle:
        running = asyncio.create_task(sandbox.execute(LATER))
        proxy.refusing = True
        proxy.cut()
        with pytest.raises(SandboxLostError) as caught:
            await asyncio.wait_for(running, 10)
        assert caught.value.code == "events_lost"
        with pytest.raises(SandboxLostError) as later:
            await asyncio.wait_for(idle.execute(LATER), 10)
        assert later.value.code == "events_lost"
    proxy.refusing = False
    async with make() as fresh:  # the next session opens a stream of its own
        assert (await fresh.execute(sh("true"))).ok
