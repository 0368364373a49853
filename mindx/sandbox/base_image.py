"""The base image: built here from the distribution's packages, recorded, and built again only when it must be."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from mindx.errors import EngineError
from mindx.sandbox import engine_way
from mindx.sandbox.build_leftovers import container_name
from mindx.sandbox.image_definition import ImageDefinition, read_definition
from mindx.sandbox.image_pull import find_pulled, pull_image
from mindx.sandbox.image_records import (
    PROJECT_PREFIX,
    BaseImage,
    PackageVersion,
    add_record,
    locked,
    read_records,
)
from mindx.sandbox.owner import Owner

if TYPE_CHECKING:
    import docker

    from mindx.sandbox.project_image import ProjectImage

REPOSITORY = "mindx-base"
# Part of what decides whether an image is still good: raise it when this module builds something else.
RECIPE = "3"
LABEL_NAME = "mindx.image"
LABEL_DEFINITION = "mindx.definition"
LABEL_DISTRIBUTION = "mindx.distribution"
LABEL_CERTIFICATES = "mindx.host-certificates"

Progress = Callable[[str], None]


def _silent(line: str) -> None:
    """Progress that nobody looks at."""


def ensure_base(client: docker.DockerClient, name: str = "python", progress: Progress | None = None) -> BaseImage:
    """Return the base image `name`, built first if this engine has none of its present definition; blocking.

    `progress` gets one line of text at a time; when it raises, the build ends and leaves nothing behind. Two
    processes at once build it once. Raises EngineError, ImageInputError (image_unknown), or ImageError:
    image_bad_definition, image_no_sources, image_no_builder, image_no_rights, image_no_space, image_build_failed,
    image_state_unusable.
    """
    progress = progress or _silent
    pulled = find_pulled(name)
    if pulled is not None:
        return _pulled_again(client, pulled, progress)
    definition, digest = _definition(name)
    known = _recorded(client, name, digest)
    if known is not None:
        return known
    with locked(name, lambda: progress(f"waiting for another process that builds the image {name}")):
        known = _recorded(client, name, digest) or _adopt(client, name, digest)
        return known or _build(client, name, definition, digest, progress)


def rebuild_base(client: docker.DockerClient, name: str = "python", progress: Progress | None = None) -> BaseImage:
    """Build the base image `name` anew, with the packages of today, whatever there is. Raises as ensure_base."""
    definition, digest = _definition(name)
    progress = progress or _silent
    with locked(name, lambda: progress(f"waiting for another process that builds the image {name}")):
        return _build(client, name, definition, digest, progress, anew=True)


def find_base(client: docker.DockerClient, name: str = "python") -> BaseImage | None:
    """Return the newest image of the present definition that the engine still has, else None. Raises EngineError.

    What is recorded is looked for first; an image that another account or another state folder built counts too.
    """
    pulled = find_pulled(name)
    if pulled is not None:
        return pulled if _inspect(client, pulled.image_id) is not None else None
    _, digest = _definition(name)
    known = _recorded(client, name, digest)
    if known is not None:
        return known
    with locked(name):
        return _adopt(client, name, digest)


def pull_base(client: docker.DockerClient, reference: str, name: str, progress: Progress | None = None) -> BaseImage:
    """Pull an image and keep it as the base image `name`; its digest is what counts from then on. Raises as pull_image.

    Only when the user asks for it: no run looks for an image in a registry, but for the very digest that was recorded.
    """
    return pull_image(client, reference, name, progress or _silent, _packages_if_any)


def _pulled_again(client: docker.DockerClient, image: BaseImage, progress: Progress) -> BaseImage:
    if _inspect(client, image.image_id) is not None:
        return image
    return pull_image(client, image.reference, image.name, progress, _packages_if_any)


def _packages_if_any(client: docker.DockerClient, image_id: str) -> tuple[PackageVersion, ...]:
    """Read the list of packages; an image of another distribution has none that we understand."""
    try:
        return _installed_packages(client, image_id)
    except EngineError as error:
        if error.code == "engine_not_found":
            return ()
        raise


def _recorded(client: docker.DockerClient, name: str, digest: str) -> BaseImage | None:
    for image in read_records(name):
        if image.definition_sha256 == digest and _inspect(client, image.image_id) is not None:
            return image
    return None


def definition_digest(name: str) -> str:
    """Return the digest of today's definition of an image. Raises ImageError."""
    return _definition(name)[1]


def reference_of(name: str) -> str:
    """Return the name and tag under which the engine has today's image. Raises ImageError."""
    return _reference(name, definition_digest(name))


def _definition(name: str) -> tuple[ImageDefinition | ProjectImage, str]:
    """Return what an image is made of, and its digest; a ProjectImage is one with a Dockerfile."""
    if not name.startswith(PROJECT_PREFIX):
        definition, digest = read_definition(name)
        return definition, f"{RECIPE}-{digest}"
    from mindx.sandbox.project_image import find_project_image

    own = find_project_image(name)
    if own.dockerfile:
        return own, _joined(name, _digest_of(own.parent.name if own.parent else own.base))
    base, digest = read_definition(own.base)
    return own.extend(base), _joined(name, digest)


def _digest_of(name: str) -> str:
    pulled = find_pulled(name)
    return pulled.definition_sha256 if pulled is not None else _definition(name)[1]


def _joined(name: str, digest: str) -> str:
    return f"{RECIPE}-{hashlib.sha256(f'{name} {digest}'.encode()).hexdigest()}"


def _reference(name: str, digest: str) -> str:
    return f"{REPOSITORY}-{name}:{digest.replace('-', '')[:24]}"


def _inspect(client: docker.DockerClient, reference: str) -> dict[str, Any] | None:
    try:
        return cast("dict[str, Any]", client.api.inspect_image(reference))
    except engine_way.errors.ImageNotFound:
        return None
    except engine_way.ENGINE_EXCEPTIONS as error:
        raise engine_way.engine_error(error, f"look for the image {reference[:80]}") from error


def _adopt(client: docker.DockerClient, name: str, digest: str) -> BaseImage | None:
    """Record an image that is in the engine and in no record; None when there is none of this definition."""
    found = _inspect(client, _reference(name, digest))
    if found is None:
        return None
    labels = found["Config"].get("Labels") or {}
    if labels.get(LABEL_NAME) != name or labels.get(LABEL_DEFINITION) != digest:
        return None
    count = labels.get(LABEL_CERTIFICATES, "")
    image = BaseImage(
        name=name,
        image_id=found["Id"],
        definition_sha256=digest,
        distribution=labels.get(LABEL_DISTRIBUTION, ""),
        built_at=found.get("Created", ""),
        host_certificates=int(count) if count.isdecimal() else 0,
        packages=_installed_packages(client, found["Id"]),
    )
    add_record(image)
    return image


def _installed_packages(client: docker.DockerClient, image_id: str) -> tuple[PackageVersion, ...]:
    """Read the list of packages out of a container that never starts."""
    from mindx.sandbox.mmdebstrap import read_packages

    try:
        container = client.api.create_container(
            image_id, entrypoint=["true"], network_disabled=True, name=container_name(Owner.me())
        )
        try:
            pieces, _ = client.api.get_archive(container["Id"], "/var/lib/dpkg/status")
            content = b"".join(pieces)
        finally:
            client.api.remove_container(container["Id"], v=True, force=True)
    except engine_way.ENGINE_EXCEPTIONS as error:
        raise engine_way.engine_error(error, f"read the packages of the image {image_id[:19]}") from error
    return read_packages(io.BytesIO(content))


def _build(
    client: docker.DockerClient,
    name: str,
    definition: ImageDefinition | ProjectImage,
    digest: str,
    progress: Progress,
    anew: bool = False,
) -> BaseImage:
    from mindx.sandbox.base_build import build_own, build_packages  # every session comes by here; few build

    reference = _reference(name, digest)
    if isinstance(definition, ImageDefinition):
        image = build_packages(client, name, definition, digest, reference, progress)
    else:
        base = ensure_base(client, definition.parent.name if definition.parent else definition.base, progress)
        image = build_own(client, name, definition, digest, reference, base, progress, anew)
        image = image.changed(packages=_packages_if_any(client, image.image_id))
    add_record(image)
    return image
