"""The real sandbox: one container of a Docker engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from hashlib import sha256
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import docker

from mindx.core.command import WORKSPACE, Exec, ListDir, MakeDir, ReadFile, Remove, Stat, WriteFile
from mindx.core.receipt import ExecResult
from mindx.errors import FileError, SandboxError, SandboxLostError
from mindx.guest import wire
from mindx.sandbox import attest, container, entries
from mindx.sandbox.base import Entry, ManifestEntry, OutputListener, PutItem, Sandbox
from mindx.sandbox.base_image import ensure_base
from mindx.sandbox.channel import Answer, Channel
from mindx.sandbox.container import ContainerSettings, Ids
from mindx.sandbox.engine import ENGINE_EXCEPTIONS, connect, engine_error
from mindx.sandbox.execution import Execution
from mindx.sandbox.image import DerivedImage, ensure_derived
from mindx.sandbox.owner import Owner

T = TypeVar("T")
LEASE_S = 300.0  # the guest ends when it has heard nothing for so long; a host that dies is noticed at once
READY_WITHIN_S = 30.0
GRACE_S = 5.0  # how much later than the guest's deadline the host's own clock ends the session
GONE_WITHIN_S = 10.0
Progress = Callable[[str], None]


class DockerSandbox(Sandbox):
    """One container, from its start to its end. Use it from one event loop."""

    def __init__(self, settings: ContainerSettings | None = None, progress: Progress | None = None) -> None:
        self.settings = settings or ContainerSettings()
        self.session_id = secrets.token_hex(8)
        self.facts: dict[str, str] = {}
        self.ids = Ids.draw()
        self.container_id = ""
        self._progress = progress
        self._client: docker.DockerClient | None = None
        self._channel: Channel | None = None
        self._attached: Any = None
        self._gone: threading.Event | None = None
        self._turn = asyncio.Lock()
        self._heartbeat: asyncio.TimerHandle | None = None
        self._closing = asyncio.Lock()
        self._started = False
        self._closed = False

    # -- life

    async def start(self) -> None:
        """Start the container and compare what is in force with what was asked."""
        if self._started:
            raise SandboxError("started_twice", "The session has been started already.")
        self._started = True
        cpuset = await self._in_thread("start a container", self._create)
        sock = await self._in_thread("attach to the container", self._attach)
        self._channel = await Channel.open(sock)
        self._watch_removal()
        await self._in_thread("start the container", lambda client: client.api.start(self.container_id))
        await self._greet()
        differences = attest.compare(self.settings, cpuset, self.facts)
        if differences:
            listed = "; ".join(f"{d.control}: asked {d.asked}, in force {d.effective}" for d in differences)
            raise SandboxError(
                "not_as_asked",
                f"The engine did not give the container what was asked: {listed}. Nothing was run.",
                details={"differences": [[d.control, d.asked, d.effective] for d in differences]},
            )
        self._beat()

    def _create(self, client: docker.DockerClient) -> str:
        image = self._derived_image(client)
        cpuset = container.pick_cpus(self.settings.limits.cpus, client.info()["NCPU"])
        labels = container.labels(self.session_id, Owner.me(), self.settings)
        host = container.host_config(self.settings, self.ids, cpuset)
        request = container.create_request(image.image_id, image.python, labels, host)
        created = client.api.create_container_from_config(request, f"mindx-{self.session_id}")
        self.container_id = created["Id"]
        return cpuset

    def _derived_image(self, client: docker.DockerClient) -> DerivedImage:
        base = ensure_base(client, self.settings.image, self._progress)
        return ensure_derived(client, base.image_id, self._progress)

    def _attach(self, client: docker.DockerClient) -> Any:
        stream = client.api.attach_socket(self.container_id, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        self._attached = stream  # the response must outlive the socket that is taken out of it
        return getattr(stream, "_sock", stream)

    def _watch_removal(self) -> None:
        """Wait for the removal from before the start on: afterwards nothing can be asked about the container."""
        gone = self._gone = threading.Event()
        client, container_id = self._client, self.container_id
        assert client is not None

        def wait() -> None:
            with contextlib.suppress(*ENGINE_EXCEPTIONS):
                client.api.wait(container_id, timeout=None, condition="removed")
            gone.set()

        threading.Thread(target=wait, name="mindx-removal", daemon=True).start()

    async def _greet(self) -> None:
        channel = self._alive()
        answer = Answer(channel, WORKSPACE)
        hello = {
            "protocol": wire.PROTOCOL,
            "uid": self.ids.uid,
            "gid": self.ids.gid,
            "lease_ms": int(LEASE_S * 1000),
        }
        texts = [f"{key}={value}".encode() for key, value in hello.items()]
        channel.send(wire.HELLO, answer.request_id, wire.join_texts(texts))
        try:
            ready = await asyncio.wait_for(answer.result(), READY_WITHIN_S)
        except asyncio.TimeoutError:
            raise SandboxError(
                "guest_silent", f"The container did not answer within {READY_WITHIN_S:g} s of its start."
            ) from None
        pairs = (text.decode("utf-8", "replace").partition("=") for text in wire.split_texts(ready))
        self.facts = {key: value for key, _, value in pairs}

    def _beat(self) -> None:
        """Tell the guest from time to time that the host lives."""
        with contextlib.suppress(SandboxLostError):
            self._alive().send(wire.PING, 0)
            self._heartbeat = asyncio.get_running_loop().call_later(LEASE_S / 4, self._beat)

    async def close(self) -> None:
        """End the container and wait until the engine has removed it."""
        with anyio.CancelScope(shield=True):
            async with self._closing:
                await self._close()

    async def _close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._heartbeat is not None:
                self._heartbeat.cancel()
            if self._channel is not None:
                self._channel.drop_requests(self._closed_error())
            polite = await self._part()
            if self._channel is not None:
                self._channel.close()
                await self._channel.ended.wait()
            if self._attached is not None:
                self._attached.close()  # it holds the socket open behind asyncio's back
            if self.container_id and not (polite and await self._wait_gone(GONE_WITHIN_S)):
                await self._in_thread("remove the container", self._remove, closing=True)
            if self._client is not None:
                await anyio.to_thread.run_sync(self._client.close)

    async def _part(self) -> bool:
        """Say goodbye; True when the guest has answered and ends by itself."""
        channel = self._channel
        if channel is None or channel.error is not None or not self.facts:
            return False
        try:
            answer = Answer(channel, WORKSPACE)
            channel.send(wire.GOODBYE, answer.request_id)
            await asyncio.wait_for(answer.result(), GRACE_S)
            channel.send(wire.FAREWELL, 0)
        except (SandboxError, FileError, asyncio.TimeoutError):
            return False
        return True

    async def _wait_gone(self, seconds: float) -> bool:
        gone = self._gone
        return gone is not None and await anyio.to_thread.run_sync(gone.wait, seconds)

    def _remove(self, client: docker.DockerClient) -> None:
        with contextlib.suppress(docker.errors.NotFound):
            try:
                client.api.remove_container(self.container_id, force=True, v=True)
            except docker.errors.APIError as error:
                if error.response is None or error.response.status_code != 409:
                    raise
        if self._gone is not None:  # 409: a removal is under way already
            self._gone.wait(GONE_WITHIN_S)

    async def _in_thread(self, doing: str, call: Callable[[docker.DockerClient], T], closing: bool = False) -> T:
        """Run a blocking call in a thread, always to its end: a half-made container must not be lost sight of."""
        if self._closed and not closing:
            raise self._closed_error()

        def work() -> T:
            if self._client is None:
                self._client = connect()
            try:
                return call(self._client)
            except ENGINE_EXCEPTIONS as error:
                raise engine_error(error, doing) from error

        return await anyio.to_thread.run_sync(work, abandon_on_cancel=False)

    def _closed_error(self) -> SandboxLostError:
        return SandboxLostError("session_closed", "The session is closed.")

    def _alive(self) -> Channel:
        if self._closed and self._channel is None:
            raise self._closed_error()
        if self._channel is None:
            raise SandboxLostError("not_started", "The session has not been started.")
        return self._channel

    # -- programs

    async def execute(self, command: Exec, on_output: OutputListener | None = None) -> ExecResult:
        """Run a program to its end."""
        async with self._turn:
            channel = self._open_channel()
            try:
                execution = Execution(channel, command, on_output)
            except (ValueError, struct.error) as error:
                raise SandboxError("bad_command", f"The command cannot be sent: {error}.") from error
            late = None
            if command.timeout_s is not None:
                late = asyncio.get_running_loop().call_later(command.timeout_s + GRACE_S, self._give_up)
            try:
                return await execution.done
            except asyncio.CancelledError:
                await self._cancel(channel, execution)
                raise
            finally:
                if late is not None:
                    late.cancel()

    async def _cancel(self, channel: Channel, execution: Execution) -> None:
        """Kill the command and wait until the guest says that nothing of it is left."""
        with anyio.CancelScope(shield=True):
            done: asyncio.Future[ExecResult] = asyncio.get_running_loop().create_future()
            execution.done = done
            late = asyncio.get_running_loop().call_later(GRACE_S, self._give_up)
            try:
                channel.send(wire.CANCEL, execution.request_id)
                await done
            except (SandboxLostError, FileError):
                return
            finally:
                late.cancel()

    def _give_up(self) -> None:
        """The guest is late: its word counts no more. Closing the stream ends the container."""
        if self._channel is not None:
            self._channel.lose("guest_late", "The container did not end a command at its deadline and was given up.")

    # -- files

    def _open_channel(self) -> Channel:
        if self._closed:
            raise self._closed_error()
        return self._alive()

    def _ask(self, kind: int, path: str, payload: bytes, on_piece: Callable[[bytes], None] | None = None) -> Answer:
        channel = self._open_channel()
        answer = Answer(channel, path, on_piece)
        channel.send(kind, answer.request_id, payload)
        return answer

    async def read_file(self, command: ReadFile) -> bytes:
        """Return a file's bytes, checked against the guest's digest."""
        payload = wire.READ_REQUEST.pack(command.max_bytes) + os.fsencode(command.path)
        answer = self._ask(wire.READ, command.path, payload)
        end = await answer.result()
        data = answer.pieces[0] if len(answer.pieces) == 1 else b"".join(answer.pieces)
        self._check_digest(command.path, end, len(data), sha256(data).digest())
        return data

    def _check_digest(self, path: str, end: bytes, size: int, digest: bytes) -> None:
        if len(end) != wire.FILE_END.size or wire.FILE_END.unpack(end) != (size, digest):
            channel = self._open_channel()
            channel.lose("file_torn", f"{path}: what arrived is not what the container says it sent.")
            assert channel.error is not None
            raise channel.error

    async def fetch(self, path: str, max_bytes: int) -> AsyncIterator[bytes]:
        """Yield a file's bytes as they arrive; the last check comes after the last piece."""
        channel = self._open_channel()
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        held = 0

        def take(piece: bytes) -> None:
            nonlocal held
            held += len(piece)
            if held > 8 << 20:
                channel.pause_reading()
            pieces.put_nowait(piece)

        answer = self._ask(wire.READ, path, wire.READ_REQUEST.pack(max_bytes) + os.fsencode(path), take)
        ended = asyncio.ensure_future(answer.result())
        ended.add_done_callback(lambda _: pieces.put_nowait(None))
        digest, size = sha256(), 0
        try:
            while (piece := await pieces.get()) is not None:
                held -= len(piece)
                if held < 1 << 20:
                    channel.resume_reading()
                digest.update(piece)
                size += len(piece)
                yield piece
            self._check_digest(path, await ended, size, digest.digest())
        finally:
            channel.resume_reading()
            ended.cancel()

    async def write_file(self, command: WriteFile) -> None:
        """Write a file at once."""
        channel = self._open_channel()
        path = os.fsencode(command.path)
        mode = -1 if command.mode is None else command.mode
        answer = Answer(channel, command.path)
        first = command.data[: wire.CHUNK]
        head = wire.WRITE_REQUEST.pack(len(command.data), mode, len(path))
        channel.send(wire.WRITE, answer.request_id, head + path + first)
        if len(first) < len(command.data):
            rest = memoryview(command.data)
            for at in range(wire.CHUNK, len(rest), wire.CHUNK):
                if answer.failed:
                    break
                channel.send(wire.DATA, answer.request_id, bytes(rest[at : at + wire.CHUNK]))
                await channel.writable()
        await answer.result()

    async def list_dir(self, command: ListDir) -> list[Entry]:
        """Return the entries of a directory, sorted by name."""
        answer = self._ask(wire.LIST, command.path, os.fsencode(command.path))
        await answer.result()
        return entries.listing(command.path, answer.pieces)

    async def make_dir(self, command: MakeDir) -> None:
        """Make a directory and its missing parents."""
        await self._ask(wire.MKDIR, command.path, os.fsencode(command.path)).result()

    async def remove(self, command: Remove) -> None:
        """Remove a file or link."""
        await self._ask(wire.REMOVE, command.path, os.fsencode(command.path)).result()

    async def stat(self, command: Stat) -> Entry:
        """Return what is there."""
        answer = self._ask(wire.STAT, command.path, os.fsencode(command.path))
        return entries.entry(await answer.result())

    async def put(self, items: Iterable[PutItem]) -> None:
        """Copy things in, in one stream."""
        channel = self._open_channel()
        answer = Answer(channel, WORKSPACE)
        channel.send(wire.PUT, answer.request_id)
        try:
            for piece in entries.put_stream(items):
                if channel.error is not None:
                    raise channel.error
                channel.send(wire.DATA, answer.request_id, piece)
                await channel.writable()
        except BaseException:
            channel.end(answer.request_id)
            with contextlib.suppress(SandboxLostError):
                channel.send(wire.DATA, answer.request_id)
            raise
        channel.send(wire.DATA, answer.request_id)
        await answer.result()

    async def manifest(self, max_entries: int = 200_000) -> list[ManifestEntry]:
        """Return every name of the workspace with its digest."""
        answer = self._ask(wire.MANIFEST, WORKSPACE, wire.MANIFEST_REQUEST.pack(max_entries))
        await answer.result()
        return entries.manifest(answer.pieces, max_entries)
