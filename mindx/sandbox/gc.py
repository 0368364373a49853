"""Removing what dead sessions left behind: only what is provably ours and whose owner is provably dead."""

from __future__ import annotations

import logging
import socket
import struct
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindx.core.frozen import dataclass
from mindx.errors import MindxError
from mindx.sandbox import build_leftovers, engine_way
from mindx.sandbox.engine_api import DirectApi
from mindx.sandbox.owner import Owner
from mindx.sandbox.runtimes import SMOKE_ARGUMENTS

if TYPE_CHECKING:
    import docker

GUEST = "/mindx/guest/__main__.py"
_SMOKE = " ".join(("", *SMOKE_ARGUMENTS))
_LOG = logging.getLogger("mindx.sandbox.gc")
_PEER = struct.Struct("3i")  # pid, uid, gid
# An engine that listens itself, and init, which listens for it (socket activation).
_LISTENERS = {"dockerd", "podman", "systemd", "init"}
_swept = threading.Lock()  # taken by the first sweep of this process, and never let go


@dataclass(frozen=True, slots=True)
class Leftover:
    """A container of ours whose owner is dead, or a folder of a build.

    `state` is the engine's word: created, running, paused, exited; or `folder`, which has a path for its `name`, no
    container and no session. A build's container has no session either.
    """

    container_id: str
    name: str
    state: str
    session_id: str

    @property
    def key(self) -> str:
        """What it is told by when it is gone: the container's id, or the folder's path."""
        return self.container_id or self.name


def find_leftovers(client: docker.DockerClient) -> list[Leftover]:
    """Return what dead owners left, in any state; blocking. Raises EngineError.

    A label or a name alone proves nothing, anybody can set one: name, session and owner must fit each other, the
    program must be our guest, the smoke test of a runtime or a build's, and the owner must be a process of this machine
    that is gone.
    """
    try:
        found = client.api.containers(all=True, filters={"label": "mindx.session"})
        built = client.api.containers(all=True, filters={"name": f"^/?{build_leftovers.CONTAINER_PREFIX}"})
    except engine_way.ENGINE_EXCEPTIONS as error:
        raise engine_way.engine_error(error, "list the containers") from error
    local = is_local(client)
    leftovers = []
    for one in found:
        labels = one.get("Labels") or {}
        session_id = labels.get("mindx.session", "")
        owner = Owner.from_labels(labels)
        named = f"/mindx-{session_id}" in (one.get("Names") or [])
        program = _program(client, one)
        ours = GUEST in program or program.endswith(_SMOKE)
        if named and ours and owner is not None and owner.is_dead(local_engine=local):
            leftovers.append(_leftover(one, f"mindx-{session_id}", session_id))
    for one in built:
        name = str((one.get("Names") or [""])[0]).removeprefix("/")
        owner = build_leftovers.owner_in_name(name)
        ours = _program(client, one) in build_leftovers.PROGRAMS
        if ours and owner is not None and owner.is_dead(local_engine=local):
            leftovers.append(_leftover(one, name, ""))
    leftovers += [Leftover("", str(folder), "folder", "") for folder in build_leftovers.dead_folders()]
    return leftovers


def _program(client: docker.DockerClient, one: Mapping[str, Any]) -> str:
    """Return the program that a listed container runs, "" when it is gone. Raises EngineError."""
    listed = str(one.get("Command") or "").strip()
    if listed:
        return listed
    try:  # Podman leaves the entrypoint out of its list
        config = client.api.inspect_container(one["Id"])["Config"]
    except engine_way.errors.APIError as error:
        if engine_way.is_gone(error):
            return ""
        raise engine_way.engine_error(error, "look at a container") from error
    except engine_way.ENGINE_EXCEPTIONS as error:
        raise engine_way.engine_error(error, "look at a container") from error
    return " ".join(map(str, [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]))


def _leftover(one: Mapping[str, Any], name: str, session_id: str) -> Leftover:
    return Leftover(one["Id"], name, one.get("State", "unknown"), session_id)


def is_local(client: docker.DockerClient) -> bool:
    """Return True when the engine is a process of this machine: no other machine's client is on it.

    A socket may be forwarded from elsewhere (ssh -L), so it counts who listens on it. False when that cannot be told.
    """
    try:
        # Our own client has the path itself, the SDK's where it keeps its ways.
        api: Any = client.api
        path = api.socket_path if isinstance(api, DirectApi) else api._custom_adapter.socket_path
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)
            peer = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        return Path(f"/proc/{_PEER.unpack(peer)[0]}/comm").read_text().strip() in _LISTENERS
    except (OSError, AttributeError, UnicodeDecodeError):  # AttributeError: another system than Linux
        return False


def collect(client: docker.DockerClient, leftovers: list[Leftover]) -> list[Leftover]:
    """Remove them, anonymous volumes too, and return those that are gone; blocking. Raises EngineError."""
    gone = []
    for leftover in leftovers:
        if leftover.state == "folder":
            if build_leftovers.remove_folder(Path(leftover.name)):
                gone.append(leftover)
            continue
        try:
            client.api.remove_container(leftover.container_id, force=True, v=True)
        except engine_way.errors.APIError as error:
            if not engine_way.is_gone(error):
                raise engine_way.engine_error(error, f"remove the container {leftover.name}") from error
        except engine_way.ENGINE_EXCEPTIONS as error:
            raise engine_way.engine_error(error, f"remove the container {leftover.name}") from error
        gone.append(leftover)
    return gone


def sweep_once() -> threading.Thread | None:
    """Remove in a thread of its own what dead owners left; once a process, None afterwards. Never raises.

    It takes no time of a start that began it when all is up. What goes wrong is told in the log, and `mindx gc` says
    it aloud.
    """
    if not _swept.acquire(blocking=False):
        return None
    thread = threading.Thread(target=_sweep, name="mindx-sweep", daemon=True)
    thread.start()
    return thread


def _sweep() -> None:
    try:
        client = engine_way.reach()
    except MindxError as error:
        _LOG.info("leftovers were not looked for: %s", error)
        return
    try:
        for leftover in find_leftovers(client):
            try:
                if collect(client, [leftover]):
                    _LOG.info("removed %s (%s), left by a mindx that died", leftover.name, leftover.state)
            except MindxError as error:
                _LOG.info("a leftover stays: %s", error)
    except (MindxError, OSError, ValueError) as error:
        _LOG.info("leftovers were not looked for: %s", error)
    finally:
        client.close()
