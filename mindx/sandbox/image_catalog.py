"""All images of mindx in one engine: the base images by name, and what was made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import docker

from mindx.core.nearest import did_you_mean
from mindx.errors import ImageError, ImageInputError
from mindx.sandbox.base_image import LABEL_DEFINITION, LABEL_NAME, definition_digest, find_base
from mindx.sandbox.engine import ENGINE_EXCEPTIONS, engine_error
from mindx.sandbox.image import LABEL_BASE, LABEL_GUEST, prune_derived
from mindx.sandbox.image_definition import definition_names, read_definition
from mindx.sandbox.image_pull import find_pulled
from mindx.sandbox.image_records import (
    BaseImage,
    check_name,
    locked,
    read_records,
    recorded_names,
    write_records,
)
from mindx.sandbox.project_image import RememberedImage, forget_project_image, remembered_images


@dataclass(frozen=True, slots=True)
class ImageRow:
    """One base image. `state` is ready, missing (it can be built) or old.

    Old is another definition than today's, or one that its project has replaced.

    `size_bytes` is the engine's own figure, `sessions` counts the images for sessions that were made of it.
    """

    name: str
    state: str
    description: str
    image_id: str = ""
    size_bytes: int = 0
    created: str = ""
    sessions: int = 0
    labels: Mapping[str, str] | None = None


def list_images(client: docker.DockerClient) -> list[ImageRow]:
    """Return one row for each definition, and one for each base image of an older one. Raises EngineError."""
    try:
        derived = [str(image["Labels"].get(LABEL_BASE)) for image in client.api.images(filters={"label": LABEL_GUEST})]
        found = [client.api.inspect_image(i["Id"]) for i in client.api.images(filters={"label": LABEL_NAME})]
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, "list the images") from error
    # An image for sessions carries its base's labels too.
    bases = [image for image in found if LABEL_GUEST not in _labels(image)]
    rows: list[ImageRow] = []
    own = remembered_images()
    for name, description in _described(own).items():
        mine = [image for image in bases if _labels(image).get(LABEL_NAME) == name]
        today = _today(name, own)
        # Without a name it is what a newer build has replaced, or a stage of a Dockerfile, which has its base's labels.
        ready = [one for one in mine if _labels(one).get(LABEL_DEFINITION) == today and one.get("RepoTags")]
        if not ready and (name not in own or (not mine and not own[name].superseded)):
            rows.append(ImageRow(name, "missing", description))
        rows.extend(_row(image, "ready", description, derived) for image in ready)
        rows.extend(_row(image, "old", description, derived) for image in mine if image not in ready)
    rows.extend(_pulled_row(client, image, derived) for name in recorded_names() if (image := find_pulled(name)))
    return rows


def _described(own: Mapping[str, RememberedImage]) -> dict[str, str]:
    """Return a line for each image that can be built here, by name."""
    described = {name: read_definition(name)[0].description for name in definition_names()}
    for name, one in own.items():
        parts = [one.image.base, *(["packages"] if one.image.packages else [])]
        described[name] = f"{one.project}: {' + '.join([*parts, *(['Dockerfile'] if one.image.dockerfile else [])])}"
    return described


def _today(name: str, own: Mapping[str, RememberedImage]) -> str:
    """Return the digest of what an image would be built from now; "" when nobody would build it any more."""
    if name in own and own[name].superseded:
        return ""
    try:
        return definition_digest(name)
    except ImageError:
        if name in own:
            return ""  # its base is gone
        raise


def show_image(client: docker.DockerClient, name: str) -> tuple[ImageRow, BaseImage]:
    """Return today's image of a name and its record.

    Raises ImageInputError (image_missing, image_unknown), EngineError.
    """
    record = find_base(client, name)
    if record is None:
        raise ImageInputError("image_missing", f"the image {name} is not built yet: `mindx image build {name}`.")
    rows = [row for row in list_images(client) if row.image_id == record.image_id]
    return (rows or [ImageRow(name, "ready", "", record.image_id)])[0], record


def remove_images(client: docker.DockerClient, name: str | None) -> list[str]:
    """Remove the base images of a name, and all that was made of them; None: only what is of no use any more.

    Returns the removed ids. An image that a container uses is kept. Raises ImageError, EngineError.
    """
    removed: list[str] = []
    if name is None:
        removed += prune_derived(client)
    else:
        check_name(name)
    rows = [row for row in list_images(client) if row.image_id]
    chosen = [row for row in rows if row.name == name or (name is None and row.state == "old")]
    if name is not None and not chosen and name not in remembered_images():
        hint = did_you_mean(name, [row.name for row in rows]) or "see `mindx image list`."
        raise ImageInputError("image_missing", f"there is no image {name} in this engine; {hint}")
    # What was made of an image goes before it: an engine keeps what others stand on.
    for row in reversed(chosen):
        try:
            gone = [
                image["Id"]
                for image in client.api.images(filters={"label": f"{LABEL_BASE}={row.image_id}"})
                if _remove(client, image["Id"])
            ]
            removed += gone
            if _remove(client, row.image_id):
                removed.append(row.image_id)
        except ENGINE_EXCEPTIONS as error:
            raise engine_error(error, f"remove the image {row.name}") from error
        with locked(row.name):
            write_records(row.name, tuple(one for one in read_records(row.name) if one.image_id not in removed))
    for own, one in remembered_images().items():
        if own == name or (name is None and one.superseded):
            forget_project_image(own)
    return removed


def _remove(client: docker.DockerClient, image_id: str) -> bool:
    """Remove an image with all its names; False when something still uses it, or it is gone."""
    try:
        client.api.remove_image(image_id, force=False)
    except docker.errors.APIError as error:
        if error.response is not None and error.response.status_code in (404, 409):
            return False
        raise
    return True


def _row(image: Mapping[str, Any], state: str, description: str, derived: list[str]) -> ImageRow:
    return ImageRow(
        _labels(image)[LABEL_NAME],
        state,
        description,
        str(image["Id"]),
        int(image.get("Size") or 0),
        str(image.get("Created") or ""),
        derived.count(str(image["Id"])),
        _labels(image),
    )


def _pulled_row(client: docker.DockerClient, image: BaseImage, derived: list[str]) -> ImageRow:
    try:
        found = client.api.inspect_image(image.image_id)
    except docker.errors.ImageNotFound:
        return ImageRow(image.name, "missing", image.reference)
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, "list the images") from error
    return ImageRow(
        image.name,
        "ready",
        image.reference,
        image.image_id,
        int(found.get("Size") or 0),
        image.built_at,
        derived.count(image.image_id),
        _labels(found),
    )


def _labels(image: Mapping[str, Any]) -> dict[str, str]:
    return (image.get("Config") or {}).get("Labels") or {}
