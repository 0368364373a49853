"""The builds of base images: from the distribution's packages, or by a project's own Dockerfile."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path

import docker

from mindx.errors import EngineError, ImageError
from mindx.sandbox.apt_sources import Distribution, Source, read_distribution, read_sources
from mindx.sandbox.base_image import (
    LABEL_CERTIFICATES,
    LABEL_DEFINITION,
    LABEL_DISTRIBUTION,
    LABEL_NAME,
    REPOSITORY,
)
from mindx.sandbox.build_leftovers import build_folder
from mindx.sandbox.dockerfile_build import build_dockerfile
from mindx.sandbox.engine import ENGINE_EXCEPTIONS, engine_error
from mindx.sandbox.host_certificates import extra_certificates
from mindx.sandbox.image_definition import ImageDefinition
from mindx.sandbox.image_records import BaseImage
from mindx.sandbox.mmdebstrap import build_tar, read_packages
from mindx.sandbox.project_image import ProjectImage

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Progress = Callable[[str], None]


def build_own(
    client: docker.DockerClient,
    name: str,
    own: ProjectImage,
    digest: str,
    reference: str,
    base: BaseImage,
    progress: Progress,
    anew: bool,
) -> BaseImage:
    """Build a project's Dockerfile on `base` and return its record, without packages. Raises as build_dockerfile."""
    progress(f"building the image {name} from the project's Dockerfile")
    built_at = _now()
    labels = _labels(name, digest, base.distribution, base.host_certificates, "a project's own", built_at)
    image_id = build_dockerfile(client, own.dockerfile, own.files, base.image_id, reference, labels, progress, anew)
    return BaseImage(
        name=name,
        image_id=image_id,
        definition_sha256=digest,
        distribution=base.distribution,
        built_at=built_at,
        host_certificates=base.host_certificates,
        packages=(),
    )


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def _labels(
    name: str, digest: str, distribution: str, certificates: int, description: str, built_at: str
) -> dict[str, str]:
    return {
        LABEL_NAME: name,
        LABEL_DEFINITION: digest,
        LABEL_DISTRIBUTION: distribution,
        LABEL_CERTIFICATES: str(certificates),
        # The annotations of the OCI image specification.
        "org.opencontainers.image.title": f"{REPOSITORY}-{name}",
        "org.opencontainers.image.description": description,
        "org.opencontainers.image.created": built_at,
        "org.opencontainers.image.version": digest,
        "org.opencontainers.image.base.name": distribution,
    }


def build_packages(
    client: docker.DockerClient,
    name: str,
    definition: ImageDefinition,
    digest: str,
    reference: str,
    progress: Progress,
) -> BaseImage:
    """Build the packages of a definition from the host's own sources and return the record. Raises as ensure_base."""
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
            image_id = _import(client, tar_path, reference, labels)
    except OSError as error:
        raise ImageError("image_build_failed", f"cannot build the image {name}: {error}") from error
    return BaseImage(
        name=name,
        image_id=image_id,
        definition_sha256=digest,
        distribution=distribution.name,
        built_at=built_at,
        host_certificates=len(certificates),
        packages=packages,
    )


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
    changes = [f"LABEL {label}={json.dumps(value)}" for label, value in labels.items()]
    changes += [f"ENV PATH={_PATH}", "ENV LANG=C.UTF-8", 'CMD ["/bin/bash"]']
    try:
        # The name with its tag: Podman does not see one that comes beside it.
        said = client.api.import_image_from_file(str(tar_path), repository=reference, changes=changes)
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
