"""The base image: built here from the distribution's packages, recorded, and built again only when it must be."""

from __future__ import annotations

import datetime
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import docker

from mindx.errors import EngineError, ImageError
from mindx.sandbox.apt_sources import Distribution, Source, read_distribution, read_sources
from mindx.sandbox.engine import ENGINE_EXCEPTIONS, engine_error
from mindx.sandbox.host_certificates import extra_certificates
from mindx.sandbox.image_definition import ImageDefinition, read_definition
from mindx.sandbox.image_records import BaseImage, add_record, locked, read_records
from mindx.sandbox.mmdebstrap import build_tar, read_packages

REPOSITORY = "mindx-base"
# Part of what decides whether an image is still good: raise it when this module builds something else.
RECIPE = "1"
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
    definition, digest = _definition(name)
    known = find_base(client, name)
    if known is not None:
        return known
    progress = progress or _silent
    with locked(name, lambda: progress(f"waiting for another process that builds the image {name}")):
        return find_base(client, name) or _build(client, name, definition, digest, progress)


def rebuild_base(client: docker.DockerClient, name: str = "python", progress: Progress | None = None) -> BaseImage:
    """Build the base image `name` anew, with the packages of today, whatever there is. Raises as ensure_base."""
    definition, digest = _definition(name)
    progress = progress or _silent
    with locked(name, lambda: progress(f"waiting for another process that builds the image {name}")):
        return _build(client, name, definition, digest, progress)


def find_base(client: docker.DockerClient, name: str = "python") -> BaseImage | None:
    """Return the newest image of the present definition that the engine still has, else None. Raises EngineError."""
    _, digest = _definition(name)
    for image in read_records(name):
        if image.definition_sha256 == digest and _is_there(client, image.image_id):
            return image
    return None


def _definition(name: str) -> tuple[ImageDefinition, str]:
    definition, digest = read_definition(name)
    return definition, f"{RECIPE}-{digest}"


def _is_there(client: docker.DockerClient, image_id: str) -> bool:
    try:
        client.api.inspect_image(image_id)
    except docker.errors.ImageNotFound:
        return False
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, f"look for the image {image_id[:19]}") from error
    return True


def _build(
    client: docker.DockerClient, name: str, definition: ImageDefinition, digest: str, progress: Progress
) -> BaseImage:
    distribution, sources = _host_sources()
    certificates = extra_certificates()
    progress(f"building the image {name} from the packages of {distribution.name}; this takes about a minute")
    try:
        with tempfile.TemporaryDirectory(prefix="mindx-image-") as folder:
            tar_path = build_tar(definition, distribution, sources, certificates, Path(folder), progress)
            packages = read_packages(tar_path)
            progress("importing the image into the engine")
            image_id = _import(client, tar_path, name, digest)
    except OSError as error:
        raise ImageError("image_build_failed", f"cannot build the image {name}: {error}") from error
    image = BaseImage(
        name=name,
        image_id=image_id,
        definition_sha256=digest,
        distribution=distribution.name,
        built_at=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
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


def _import(client: docker.DockerClient, tar_path: Path, name: str, digest: str) -> str:
    """Stream the tar into the engine and return the image's id; no tag stays behind when it fails."""
    tag = digest.replace("-", "")[:24]
    changes = [
        f"LABEL mindx.image={name}",
        f"LABEL mindx.definition={digest}",
        f"ENV PATH={_PATH}",
        "ENV LANG=C.UTF-8",
        'CMD ["/bin/bash"]',
    ]
    try:
        said = client.api.import_image_from_file(
            str(tar_path), repository=f"{REPOSITORY}-{name}", tag=tag, changes=changes
        )
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, f"import the image {name}") from error
    return parse_import(said, name)


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
