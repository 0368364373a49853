"""The base image: built here from the distribution's packages, recorded, and built again only when it must be."""

from __future__ import annotations

import datetime
import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import docker

from mindx.errors import EngineError, ImageError
from mindx.sandbox.apt_sources import Distribution, Source, read_distribution, read_sources
from mindx.sandbox.build_leftovers import build_folder, container_name
from mindx.sandbox.dockerfile_build import build_dockerfile
from mindx.sandbox.engine import ENGINE_EXCEPTIONS, engine_error
from mindx.sandbox.host_certificates import extra_certificates
from mindx.sandbox.image_definition import ImageDefinition, read_definition
from mindx.sandbox.image_pull import find_pulled, pull_image
from mindx.sandbox.image_records import BaseImage, PackageVersion, add_record, locked, read_records
from mindx.sandbox.mmdebstrap import build_tar, read_packages
from mindx.sandbox.owner import Owner
from mindx.sandbox.project_image import ProjectImage, find_project_image, is_project_image

REPOSITORY = "mindx-base"
# Part of what decides whether an image is still good: raise it when this module builds something else.
RECIPE = "3"
LABEL_NAME = "mindx.image"
LABEL_DEFINITION = "mindx.definition"
_LABEL_DISTRIBUTION = "mindx.distribution"
_LABEL_CERTIFICATES = "mindx.host-certificates"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Progress = Callable[[str], None]


def _silent(line: str) -> None:
    """Progress that nobody looks at."""


def ensure_base(client: docker.DockerClient, name: str = "python", progress: Progress | None = None) -> BaseImage:
    """Return the base image `name`, built first if this engine has none of its present definition; blocking.

    `progress` gets one line of text at a time; when it raises, the build ends and leaves nothing behind. Two
    processes at once build it once. Raises EngineError, or ImageError: image_unknown, image_bad_definition,
    image_no_sources, image_no_builder, image_no_rights, image_no_space, image_build_failed, image_state_unusable.
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
    if not is_project_image(name):
        definition, digest = read_definition(name)
        return definition, f"{RECIPE}-{digest}"
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
    except docker.errors.ImageNotFound:
        return None
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, f"look for the image {reference[:80]}") from error


def _adopt(client: docker.DockerClient, name: str, digest: str) -> BaseImage | None:
    """Record an image that is in the engine and in no record; None when there is none of this definition."""
    found = _inspect(client, _reference(name, digest))
    if found is None:
        return None
    labels = found["Config"].get("Labels") or {}
    if labels.get(LABEL_NAME) != name or labels.get(LABEL_DEFINITION) != digest:
        return None
    count = labels.get(_LABEL_CERTIFICATES, "")
    image = BaseImage(
        name=name,
        image_id=found["Id"],
        definition_sha256=digest,
        distribution=labels.get(_LABEL_DISTRIBUTION, ""),
        built_at=found.get("Created", ""),
        host_certificates=int(count) if count.isdecimal() else 0,
        packages=_installed_packages(client, found["Id"]),
    )
    add_record(image)
    return image


def _installed_packages(client: docker.DockerClient, image_id: str) -> tuple[PackageVersion, ...]:
    """Read the list of packages out of a container that never starts."""
    try:
        container = client.api.create_container(
            image_id, entrypoint=["true"], network_disabled=True, name=container_name(Owner.me())
        )
        try:
            pieces, _ = client.api.get_archive(container["Id"], "/var/lib/dpkg/status")
            content = b"".join(pieces)
        finally:
            client.api.remove_container(container["Id"], v=True, force=True)
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, f"read the packages of the image {image_id[:19]}") from error
    return read_packages(io.BytesIO(content))


def _build(
    client: docker.DockerClient,
    name: str,
    definition: ImageDefinition | ProjectImage,
    digest: str,
    progress: Progress,
    anew: bool = False,
) -> BaseImage:
    if isinstance(definition, ProjectImage):
        return _build_own(client, name, definition, digest, progress, anew)
    return _build_packages(client, name, definition, digest, progress)


def _build_own(
    client: docker.DockerClient, name: str, own: ProjectImage, digest: str, progress: Progress, anew: bool
) -> BaseImage:
    base = ensure_base(client, own.parent.name if own.parent else own.base, progress)
    progress(f"building the image {name} from the project's Dockerfile")
    built_at = _now()
    labels = _labels(name, digest, base.distribution, base.host_certificates, "a project's own", built_at)
    image_id = build_dockerfile(
        client, own.dockerfile, own.files, base.image_id, _reference(name, digest), labels, progress, anew
    )
    image = BaseImage(
        name=name,
        image_id=image_id,
        definition_sha256=digest,
        distribution=base.distribution,
        built_at=built_at,
        host_certificates=base.host_certificates,
        packages=_packages_if_any(client, image_id),
    )
    add_record(image)
    return image


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def _labels(
    name: str, digest: str, distribution: str, certificates: int, description: str, built_at: str
) -> dict[str, str]:
    return {
        LABEL_NAME: name,
        LABEL_DEFINITION: digest,
        _LABEL_DISTRIBUTION: distribution,
        _LABEL_CERTIFICATES: str(certificates),
        # The annotations of the OCI image specification.
        "org.opencontainers.image.title": f"{REPOSITORY}-{name}",
        "org.opencontainers.image.description": description,
        "org.opencontainers.image.created": built_at,
        "org.opencontainers.image.version": digest,
        "org.opencontainers.image.base.name": distribution,
    }


def _build_packages(
    client: docker.DockerClient, name: str, definition: ImageDefinition, digest: str, progress: Progress
) -> BaseImage:
    distribution, sources = _host_sources()
    certificates = extra_certificates()
    progress(f"building the image {name} from the packages of {distribution.name}; this takes about a minute")
    try:
        with build_folder() as folder:
            tar_path = build_tar(definition, distribution, sources, certificates, folder, progress)
            with open(tar_path, "rb") as tar:
                packages = read_packages(tar)
            progress("importing the image into the engine")
            built_at = _now()
            labels = _labels(name, digest, distribution.name, len(certificates), definition.description, built_at)
            image_id = _import(client, tar_path, _reference(name, digest), labels)
    except OSError as error:
        raise ImageError("image_build_failed", f"cannot build the image {name}: {error}") from error
    image = BaseImage(
        name=name,
        image_id=image_id,
        definition_sha256=digest,
        distribution=distribution.name,
        built_at=built_at,
        host_certificates=len(certificates),
        packages=packages,
    )
    add_record(image)
    return image


def _host_sources() -> tuple[Distribution, list[Source]]:
    distribution = read_distribution()
    if distribution is None:
        raise ImageError(
            "image_no_sources",
            "cannot build an image here: this is neither Debian nor Ubuntu. Build it on such a machine.",
        )
    sources = read_sources(distribution.codename)
    if not any(source.suite == distribution.codename for source in sources):
        raise ImageError(
            "image_no_sources",
            f"cannot build an image: /etc/apt names no package source for {distribution.codename} with the component "
            "main. Add the distribution's own, then try again.",
        )
    return distribution, sources


def _import(client: docker.DockerClient, tar_path: Path, reference: str, labels: dict[str, str]) -> str:
    """Stream the tar into the engine and return the image's id."""
    repository, _, tag = reference.rpartition(":")
    changes = [f"LABEL {label}={json.dumps(value)}" for label, value in labels.items()]
    changes += [f"ENV PATH={_PATH}", "ENV LANG=C.UTF-8", 'CMD ["/bin/bash"]']
    try:
        said = client.api.import_image_from_file(str(tar_path), repository=repository, tag=tag, changes=changes)
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, f"import the image {reference}") from error
    return parse_import(said, reference)


def parse_import(said: str, name: str) -> str:
    """Return the id of the image that the engine imported; `said` is its answer, JSON lines. Raises EngineError.

    The engine answers 200 before it begins, so a fault comes as one of the lines.
    """
    image_id = ""
    for line in said.splitlines():
        try:
            part = json.loads(line)
        except ValueError:
            continue
        if "error" in part:
            fault = docker.errors.APIError(str(part["error"]), explanation=str(part["error"]))
            raise engine_error(fault, f"import the image {name}")
        if str(part.get("status", "")).startswith("sha256:"):
            image_id = part["status"]
    if not image_id:
        raise EngineError("engine_failed", f"cannot import the image {name}: the engine named no image. Try again.")
    return image_id
