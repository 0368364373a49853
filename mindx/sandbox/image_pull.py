"""Images by reference from a registry: asked for by the user, resolved to a digest, and from then on that digest."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from mindx.errors import EngineError, ImageError, ImageInputError
from mindx.sandbox import engine_way
from mindx.sandbox.image_definition import definition_names
from mindx.sandbox.image_records import BaseImage, PackageVersion, add_record, check_name, locked, read_records

if TYPE_CHECKING:
    import docker

Progress = Callable[[str], None]
Packages = Callable[["docker.DockerClient", str], tuple[PackageVersion, ...]]
# HOST[:PORT]/PATH[:TAG][@sha256:DIGEST], as docker writes it.
_REFERENCE = re.compile(
    r"(?P<repository>[a-z0-9][a-zA-Z0-9._-]*(?::\d+)?(?:/[a-z0-9][a-z0-9._-]*)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


def pull_image(
    client: docker.DockerClient, reference: str, name: str, progress: Progress, packages: Packages
) -> BaseImage:
    """Pull an image, record it as `name` with its digest, and return the record; blocking.

    `packages` lists what is in an image. Raises EngineError, ImageInputError (image_unknown, image_bad_reference,
    image_name_taken), or ImageError (image_no_digest).
    """
    check_name(name)
    if name in definition_names():
        raise ImageInputError("image_name_taken", f"{name} is an image that mindx builds itself; choose another name.")
    match = _REFERENCE.fullmatch(reference)
    if match is None or len(reference) > 255:
        raise ImageInputError("image_bad_reference", f"{reference[:80]!r} is no reference such as HOST/NAME:TAG.")
    repository, tag = match["repository"], match["digest"] or match["tag"] or "latest"
    with locked(name, lambda: progress(f"waiting for another process that pulls the image {name}")):
        progress(f"pulling {reference}")
        try:
            for line in client.api.pull(repository, tag, stream=True, decode=True):
                if "error" in line:
                    raise EngineError("engine_failed", f"cannot pull {reference}: {str(line['error'])[:300]}.")
            joined = f"{repository}@{tag}" if match["digest"] else f"{repository}:{tag}"
            found = client.api.inspect_image(joined)
        except engine_way.ENGINE_EXCEPTIONS as error:
            raise engine_way.engine_error(error, f"pull the image {reference}") from error
        digest = match["digest"] or _digest_of(found.get("RepoDigests") or (), repository)
        if not digest:
            raise ImageError("image_no_digest", f"{reference} has no digest of that registry; it cannot be recorded.")
        image = BaseImage(
            name=name,
            image_id=found["Id"],
            definition_sha256=digest.replace(":", "-"),
            distribution=reference,
            built_at=found.get("Created") or "",
            host_certificates=0,
            packages=packages(client, found["Id"]),
            reference=f"{repository}@{digest}",
        )
        add_record(image)
    return image


def find_pulled(name: str) -> BaseImage | None:
    """Return what was pulled last under a name; None when nothing was, or when mindx builds that image itself."""
    check_name(name)
    if name in definition_names():
        return None
    return next((image for image in read_records(name) if image.reference), None)


def _digest_of(repo_digests: tuple[str, ...] | list[str], repository: str) -> str:
    for one in repo_digests:
        where, _, digest = one.partition("@")
        # The engine writes the short names of its default registry out, or not.
        if where == repository or where.endswith(f"/{repository}"):
            return digest
    return ""
