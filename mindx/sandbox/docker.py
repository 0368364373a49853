"""The real sandbox: one container of a Docker engine."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import struct
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from mindx.core.command import WORKSPACE, Exec, Terminal
from mindx.core.receipt import ExecResult
from mindx.errors import FileError, SandboxError, SandboxLostError
from mindx.guest import wire
from mindx.sandbox import attest, container, engine_way, gc, podman, podman_words, runtimes
from mindx.sandbox.background import BackgroundCommands
from mindx.sandbox.base import BackgroundState, OutputListener
from mindx.sandbox.base_image import ensure_base
from mindx.sandbox.channel import Answer, Channel
from mindx.sandbox.container import ContainerSettings, EngineControls, Ids
from mindx.sandbox.deadline import HostDeadline
from mindx.sandbox.events import LOST, EngineEvent, current_events
from mindx.sandbox.execution import Execution
from mindx.sandbox.file_requests import FileRequests
from mindx.sandbox.image import DerivedImage, ensure_derived
from mindx.sandbox.life import Life
from mindx.sandbox.owner import Owner
from mindx.sandbox.settle import all_to_the_end, to_the_end

if TYPE_CHECKING:
    import docker

T = TypeVar("T")
LEASE_S = 300.0  # the guest ends when it has heard nothing for so long; a host that dies is noticed at once
READY_WITHIN_S = 30.0
GRACE_S = 5.0  # how much later than the guest's deadline the host's own clock ends the session
GONE_WITHIN_S = 10.0
Progress = Callable[[str], None]


class DockerSandbox(FileRequests):
    """One container, from its start to its end. Use it from one event loop."""

    def __init__(self, settings: ContainerSettings | None = None, progress: Progress | None = None) -> None:
        self.settings = settings or ContainerSettings()
        self.session_id = secrets.token_hex(8)
        self.facts: dict[str, str] = {}
        self._attestation: attest.Attestation | None = None
        self.ids = Ids.draw()
        self.container_id = ""
        self._progress = progress
        self._client: docker.DockerClient | None = None
        self._channel: Channel | None = None
        self._attached: Any = None
        self._podman = False
        self._gone: threading.Event | None = None
        self._connecting = threading.Lock()
        self._turn = asyncio.Lock()
        self._events = current_events()
        self._life = Life()
        self._deadline: HostDeadline | None = None
        self._background = BackgroundCommands(self.settings.limits.background, self._give_up)
        self._heartbeat: asyncio.TimerHandle | None = None
        self._closing = asyncio.Lock()
        self._started = False
        self._closed = False

    @property
    def attestation(self) -> attest.Attestation | None:
        """What was found to be in force at the start."""
        return self._attestation

    # -- life

    async def start(self) -> None:
        """Start the container and compare what is in force with what was asked."""
        if self._started:
            raise SandboxError("started_twice", "The session has been started already.")
        self._started = True
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise

    async def _start(self) -> None:
        listener = self._life.listener(self._hear_engine)
        # The events are followed before there is a container; what the engine says of itself takes it as long.
        _, info, image = await all_to_the_end(
            self._in_thread("follow its events", lambda _: self._events.watch(self.session_id, listener)),
            self._in_thread("ask the engine about itself", lambda client: client.info()),
            self._in_thread("find the image", self._derived_image),
        )
        asked = await self._in_thread("start a container", lambda client: self._create(client, info, image))
        sock = await self._in_thread("attach to the container", self._attach)
        self._channel = await Channel.open(sock)
        self._channel.obituary = self._life.obituary
        if self._life.unheard:
            self._lose_events(self._channel)
        self._watch_removal()
        await self._in_thread("start the container", lambda client: client.api.start(self.container_id))
        inspected, _ = await all_to_the_end(
            self._in_thread("inspect the container", lambda client: self._inspect(client, asked)), self._greet()
        )
        self._attestation = attest.attest(self.settings, asked, inspected, self.facts)
        self._refuse(self._attestation)
        if self._podman:
            await podman.require_events(self._life)
        self._beat()
        gc.sweep_once()

    def _refuse(self, attestation: attest.Attestation) -> None:
        """Refuse the session unless all is as asked. Raises SandboxError."""
        attestation.require()

    def _create(self, client: docker.DockerClient, info: dict[str, Any], image: DerivedImage) -> attest.Asked:
        self._podman = podman_words.is_podman(info)
        controls = EngineControls.of(info)
        if not self._podman:  # it takes its own default whatever is asked, and attestation tells
            runtimes.require(client, info, self.settings.runtime, image)
        cpuset = container.pick_cpus(self.settings.limits.cpus, controls.cpus)
        labels = container.labels(self.session_id, Owner.me(), self.settings)
        host = container.host_config(self.settings, self.ids, cpuset, controls)
        if self._podman:
            image, host = podman.ensure_profile(client, image), podman_words.fit(host)
        request = container.create_request(image.image_id, image.python, labels, host)
        self.container_id = name = f"mindx-{self.session_id}"  # a create whose answer is lost has made one all the same
        try:
            if self._podman:
                created = podman.create(client, request, name)
            else:
                created = client.api.create_container_from_config(request, name)
        except engine_way.errors.APIError as error:
            if error.response is not None:
                self.container_id = ""  # refused: what has this name, if anything, is not ours
            raise
        self.container_id = created["Id"]
        if self._podman:
            return podman_words.asked(request, cpuset, created)
        return attest.Asked(request, cpuset, tuple(created.get("Warnings") or ()))

    def _inspect(self, client: docker.DockerClient, asked: attest.Asked) -> dict[str, Any]:
        if self._podman:
            return podman.inspect(client, self.container_id, asked.request)
        return dict(client.api.inspect_container(self.container_id))

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
            try:
                client.api.wait(container_id, timeout=None, condition="removed")
            except engine_way.errors.NotFound:
                pass
            except engine_way.ENGINE_EXCEPTIONS:
                return  # the engine went away, and what became of the container is not known
            gone.set()

        threading.Thread(target=wait, name="mindx-removal", daemon=True).start()

    async def _greet(self) -> None:
        channel = self._alive()
        answer = Answer(channel, WORKSPACE, final=wire.READY)
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
            self._alive().beat()
            self._heartbeat = asyncio.get_running_loop().call_later(LEASE_S / 4, self._beat)

    async def close(self) -> None:
        """End the container and wait until the engine has removed it."""
        await to_the_end(self._close_in_turn())

    async def _close_in_turn(self) -> None:
        async with self._closing:
            await self._close()

    async def _close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._heartbeat is not None:
                self._heartbeat.cancel()
            if self._deadline is not None:
                self._deadline.cancel()
            if self._channel is not None:
                self._channel.drop_requests(self._closed_error())
            polite = await self._part()
            if self._channel is not None:
                await self._channel.close()
            if self._attached is not None:
                if self._channel is None:
                    getattr(self._attached, "_sock", self._attached).close()
                response = getattr(self._attached, "_response", None)
                if response is not None:
                    response.close()  # from the outside in: else what wraps the socket finds it closed, and says so
                self._attached.close()  # it holds the socket open behind asyncio's back
            try:
                if self.container_id and not (polite and await self._wait_gone(GONE_WITHIN_S)):
                    await self._in_thread("remove the container", self._remove, closing=True)
            finally:
                self._events.unwatch(self.session_id)
                if self._client is not None:
                    await to_the_end(asyncio.to_thread(self._client.close))

    async def _part(self) -> bool:
        """Say goodbye; True when the guest has answered and ends by itself."""
        channel = self._channel
        if channel is None or channel.error is not None or not self.facts:
            return False
        try:
            answer = Answer(channel, WORKSPACE, final=wire.BYE)
            channel.send(wire.GOODBYE, answer.request_id)
            await asyncio.wait_for(answer.result(), GRACE_S)
            channel.send(wire.FAREWELL, 0)
        except (SandboxError, FileError, asyncio.TimeoutError):
            return False
        return True

    async def _wait_gone(self, seconds: float) -> bool:
        gone = self._gone
        return gone is not None and await to_the_end(asyncio.to_thread(gone.wait, seconds))

    def _remove(self, client: docker.DockerClient) -> None:
        try:
            client.api.remove_container(self.container_id, force=True, v=True)
        except engine_way.errors.APIError as error:
            if not engine_way.is_gone(error):
                raise
        if self._gone is not None:  # a removal may be under way already
            self._gone.wait(GONE_WITHIN_S)

    async def _in_thread(self, doing: str, call: Callable[[docker.DockerClient], T], closing: bool = False) -> T:
        """Run a blocking call in a thread, always to its end: a half-made container must not be lost sight of."""
        if self._closed and not closing:
            raise self._closed_error()

        def work() -> T:
            with self._connecting:
                if self._client is None:
                    self._client = engine_way.reach()
            try:
                return call(self._client)
            except engine_way.ENGINE_EXCEPTIONS as error:
                raise engine_way.engine_error(error, doing) from error

        return await to_the_end(asyncio.to_thread(work))

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
            except (ValueError, OverflowError, struct.error) as error:
                raise SandboxError("bad_command", f"The command cannot be sent: {error}.") from error
            deadline = self._deadline = self._deadline or HostDeadline(None, self._give_up)
            deadline.set(None if command.timeout_s is None else command.timeout_s + GRACE_S)
            try:
                return await execution.done
            except asyncio.CancelledError:
                await to_the_end(self._cancel(execution, deadline))
                raise
            finally:
                deadline.clear()

    async def _cancel(self, execution: Execution, deadline: HostDeadline) -> None:
        """Kill the command and wait until the guest says that nothing of it is left."""
        if execution.ended:
            return  # its answer came in the very moment of the cancellation
        execution.done = asyncio.get_running_loop().create_future()
        deadline.set(GRACE_S)
        try:
            execution.cancel()
            await execution.done
        except (SandboxError, FileError):
            return

    def _give_up(self) -> None:
        """The guest is late: its word counts no more. Closing the stream ends the container."""
        if self._channel is not None:
            self._channel.lose("guest_late", "The container did not end a command at its deadline and was given up.")

    async def start_background(self, command: Exec) -> str:
        """Start a program beside the others."""
        return self._background.start(self._open_channel(), command)

    async def poll_background(self, background_id: str) -> BackgroundState:
        """Say how it stands."""
        self._open_channel()
        return self._background.state(background_id)

    async def stop_background(self, background_id: str) -> BackgroundState:
        """Kill it and all that it left."""
        self._open_channel()
        await to_the_end(self._background.stop(background_id))
        return self._background.state(background_id)

    async def send_background(self, background_id: str, data: bytes) -> None:
        """Type into its terminal."""
        self._open_channel()
        self._background.send(background_id, data)

    async def resize_background(self, background_id: str, terminal: Terminal) -> None:
        """Give its terminal another size."""
        self._open_channel()
        self._background.resize(background_id, terminal)

    async def await_background(self, background_id: str, seen: int, timeout_s: float) -> BackgroundState:
        """Wait for output or the end."""
        self._open_channel()
        await self._background.news(background_id, seen, timeout_s)
        return self._background.state(background_id)

    # -- the engine's word

    def _hear_engine(self, event: EngineEvent) -> None:
        """Take one of the engine's events, in the loop's thread."""
        channel = self._channel
        if channel is None or channel.error is not None or channel.closing:
            return
        if event.action == LOST:
            self._lose_events(channel)
        elif event.foreign or self._life.attaches > 1:
            channel.lose(
                "foreign_access",
                f"Somebody else used the engine on this container ({event.action[:100]}). Nothing it says is trusted.",
            )
        elif event.action == "pause":
            channel.send(wire.HOLD, 0)
            self._background.pause()
            if self._deadline is not None:
                self._deadline.pause()
        elif event.action == "unpause":
            channel.send(wire.RESUME, 0, wire.PAUSED_FOR.pack(self._life.paused_ns))
            self._background.resume()
            if self._deadline is not None:
                self._deadline.resume()

    def _lose_events(self, channel: Channel) -> None:
        channel.lose(
            LOST,
            "The engine's event stream broke off and cannot be had again: who else uses the engine on this container "
            "would not be noticed any more.",
        )

    def _open_channel(self) -> Channel:
        if self._closed:
            raise self._closed_error()
        return self._alive()
