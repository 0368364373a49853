"""Podman, asked by its own API on the same socket: its form of Docker's leaves out what the wall needs.

docs/decisions/0010 says what. The words of both are translated in podman_words.py.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from mindx.errors import EngineError
from mindx.sandbox import engine_way, podman_words, seccomp
from mindx.sandbox.build_leftovers import container_name
from mindx.sandbox.engine_api import LIBPOD, DirectApi
from mindx.sandbox.image import REPOSITORY, DerivedImage
from mindx.sandbox.image_records import locked
from mindx.sandbox.life import Life
from mindx.sandbox.owner import Owner

if TYPE_CHECKING:
    import docker

EVENTS_WITHIN_S = 5.0


def ensure_profile(client: docker.DockerClient, image: DerivedImage) -> DerivedImage:
    """Return the same image with our seccomp profile in a label and no name servers, made if it is not there; blocking.

    Podman takes a profile from a file of its own machine, which may be another, or from the image. And where there is
    no network it covers no /etc/resolv.conf, as Docker does: an image may hold that of the host it was built on.
    Raises EngineError.
    """
    digest = hashlib.sha256(f"{image.image_id}\0{seccomp.profile_sha256()}\0no names".encode()).hexdigest()[:32]
    reference = f"{REPOSITORY}:{digest}"
    try:
        image_id = _profiled(client, reference)
        if not image_id:
            with locked("derived"):
                image_id = _profiled(client, reference) or _add_profile(client, image, digest)
    except engine_way.ENGINE_EXCEPTIONS as error:
        raise engine_way.engine_error(error, "put the seccomp profile into the image for sessions") from error
    return DerivedImage(image_id, image.base_id, image.guest_sha256, image.python)


def _profiled(client: docker.DockerClient, reference: str) -> str:
    try:
        found = client.api.inspect_image(reference)
    except engine_way.errors.ImageNotFound:
        return ""
    return str(found["Id"]) if podman_words.profile_of(found) == seccomp.profile() else ""


def _add_profile(client: docker.DockerClient, image: DerivedImage, tag: str) -> str:
    made = client.api.create_container(image.image_id, entrypoint=["true"], name=container_name(Owner.me()))
    try:
        client.api.put_archive(made["Id"], "/etc", _no_name_servers())
        # Without quotes: Podman takes them off and leaves the backslashes.
        changes = [f"LABEL {podman_words.PROFILE_LABEL}={seccomp.profile()}"]
        return str(client.api.commit(made["Id"], REPOSITORY, tag, changes=changes)["Id"])
    finally:
        client.api.remove_container(made["Id"], v=True, force=True)


def _no_name_servers() -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as files:
        files.addfile(tarfile.TarInfo("resolv.conf"))
    return archive.getvalue()


def create(client: docker.DockerClient, request: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Make the container and return its Id and Warnings. Raises what the SDK's own calls raise."""
    return _ask(client, "POST", "/containers/create", podman_words.specification(request, name))


async def require_events(life: Life) -> None:
    """Return once Podman has told of our own attach. Raises EngineError (engine_unfit).

    It may be set up to tell of nothing, and then nobody else's hand on the container would be noticed.
    """
    if not await life.attached(EVENTS_WITHIN_S):
        raise EngineError(
            "engine_unfit",
            "cannot follow what happens to the container: this Podman tells no events, so that somebody else's hand "
            'on it would not be noticed. Write events_logger = "file" (or journald) under [engine] in its '
            "containers.conf and start it again; see docs/engines.md.",
        )


def inspect(client: docker.DockerClient, container_id: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Podman says of a container in Docker's words. Raises what the SDK's own calls raise."""
    found = _ask(client, "GET", f"/containers/{container_id}/json")
    image = client.api.inspect_image(found["Image"])
    return podman_words.in_dockers_words(found, podman_words.profile_of(image), request)


def _ask(client: docker.DockerClient, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Ask Podman by its own API: over the socket itself, or by the SDK's HTTP session where it is elsewhere."""
    if isinstance(client.api, DirectApi):
        return cast("dict[str, Any]", client.api.libpod(method, path, body))
    import requests.exceptions

    url = f"{client.api.base_url}/v{LIBPOD}/libpod{path}"
    response = client.api.request(method, url, json=body, timeout=client.api.timeout)
    try:
        response.raise_for_status()
    except requests.exceptions.HTTPError as error:
        raise engine_way.errors.create_api_error_from_http_exception(error) from error
    return cast("dict[str, Any]", response.json())
