"""Removing what dead sessions left behind: only what is provably ours and whose owner is provably dead."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import docker
import docker.errors

from mindx.sandbox.engine import ENGINE_EXCEPTIONS, engine_error
from mindx.sandbox.owner import Owner

GUEST = "/mindx/guest/__main__.py"


@dataclass(frozen=True, slots=True)
class Leftover:
    """A container of ours whose owner is dead. `state` is the engine's word: created, running, paused, exited."""

    container_id: str
    name: str
    state: str
    session_id: str


def find_leftovers(client: docker.DockerClient) -> list[Leftover]:
    """Return what dead owners left, in any state; blocking. Raises EngineError.

    A label alone proves nothing, anybody can set one: name, session and owner must fit each other, the program must
    be our guest, and the owner must be a process of this machine that is gone.
    """
    try:
        found = client.api.containers(all=True, filters={"label": "mindx.session"})
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, "list the containers") from error
    leftovers = []
    for one in found:
        labels = one.get("Labels") or {}
        session_id = labels.get("mindx.session", "")
        owner = Owner.from_labels(labels)
        named = f"/mindx-{session_id}" in (one.get("Names") or [])
        if named and GUEST in str(one.get("Command", "")) and owner is not None and owner.is_dead():
            leftovers.append(Leftover(one["Id"], f"mindx-{session_id}", one.get("State", "unknown"), session_id))
    return leftovers


def collect(client: docker.DockerClient, leftovers: list[Leftover]) -> list[Leftover]:
    """Remove them, anonymous volumes too, and return those that are gone; blocking. Raises EngineError."""
    gone = []
    for leftover in leftovers:
        try:
            with contextlib.suppress(docker.errors.NotFound):
                client.api.remove_container(leftover.container_id, force=True, v=True)
        except docker.errors.APIError as error:
            if error.response is None or error.response.status_code != 409:  # 409: somebody else removes it now
                raise engine_error(error, f"remove the container {leftover.name}") from error
        except ENGINE_EXCEPTIONS as error:
            raise engine_error(error, f"remove the container {leftover.name}") from error
        gone.append(leftover)
    return gone
