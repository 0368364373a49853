"""A base image as one file: for machines without mirrors, without Debian, or without a network."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import docker

from mindx.core.frozen import dataclass
from mindx.core.table import Table, key, table, text, whole
from mindx.errors import ImageInputError
from mindx.sandbox.base_image import definition_digest, find_base, reference_of
from mindx.sandbox.engine import ENGINE_EXCEPTIONS, engine_error
from mindx.sandbox.image_content import add_file, rewrite
from mindx.sandbox.image_records import BaseImage, add_record, locked

MANIFEST = "mindx-image.json"
CONTENT = "image.tar"
SCHEMA_VERSION = 1
MAX_MANIFEST_BYTES = 8 << 20
_PIECE = 1 << 20

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Manifest(Table):
    """What an exported file says of itself; `sha256` and `size` are those of image.tar, which docker load reads."""

    schema_version: int = key(whole(1, SCHEMA_VERSION))
    reference: str = key(text())
    architecture: str = key(text())
    sha256: str = key(text())
    size: int = key(whole(0, 1 << 50))
    image: BaseImage = key(table(BaseImage))


def export_image(client: docker.DockerClient, name: str, path: Path, progress: Progress) -> Manifest:
    """Write the base image `name` to a new file, whole or not at all. Raises ImageInputError, EngineError.

    Codes: image_missing, image_file_exists, image_file_unwritable.
    """
    image = find_base(client, name)
    if image is None:
        raise ImageInputError("image_missing", f"the image {name} is not built yet: `mindx image build {name}`.")
    if os.path.lexists(path):
        raise ImageInputError("image_file_exists", f"{path} is there already; name a new file.")
    reference = reference_of(name)
    part = path.with_name(f".{path.name}.part-{os.getpid()}")
    try:
        with tempfile.TemporaryFile(dir=path.parent) as content:
            progress(f"reading the image {name} from the engine")
            digest = hashlib.sha256()
            for piece in client.api.get_image(reference):
                digest.update(piece)
                content.write(piece)
            architecture = client.api.inspect_image(image.image_id).get("Architecture", "")
            manifest = Manifest(
                schema_version=SCHEMA_VERSION,
                reference=reference,
                architecture=str(architecture),
                sha256=digest.hexdigest(),
                size=content.tell(),
                image=image,
            )
            content.seek(0)
            progress(f"writing {path}")
            with open(part, "xb") as file, tarfile.open(fileobj=file, mode="w") as archive:
                said = (json.dumps(manifest.plain(), indent=1) + "\n").encode()
                add_file(archive, MANIFEST, io.BytesIO(said), len(said))
                add_file(archive, CONTENT, content, manifest.size)
        part.rename(path)
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, f"read the image {name}") from error
    except OSError as error:
        raise ImageInputError("image_file_unwritable", f"cannot write {path}: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)
    return manifest


def import_image(client: docker.DockerClient, path: Path, progress: Progress) -> BaseImage:
    """Load a file that export_image wrote, after its digest was compared, and record the image.

    Raises EngineError, or ImageInputError: image_file_unreadable, image_file_damaged, image_unknown,
    image_other_definition.
    """
    try:
        with open(path, "rb") as file, tarfile.open(fileobj=file, mode="r:") as archive:
            manifest = _read_manifest(archive, path)
            _check_definition(manifest, path)
            content = archive.extractfile(CONTENT)
            if content is None:
                raise _damaged(path, "it holds no image")
            progress("comparing the digest")
            if _sha256(content) != manifest.sha256:
                raise _damaged(path, "its digest differs from what its manifest says")
            content.seek(0)
            progress(f"loading the image {manifest.image.name} into the engine")
            return _load(client, manifest, content, path)
    except (KeyError, tarfile.TarError) as error:
        raise _damaged(path, "it is no export of an image") from error
    except OSError as error:
        raise ImageInputError("image_file_unreadable", f"cannot read {path}: {error.strerror or error}.") from error


def _load(client: docker.DockerClient, manifest: Manifest, content: IO[bytes], path: Path) -> BaseImage:
    name = manifest.image.name
    try:
        with tempfile.TemporaryFile() as one:
            rewrite(content, manifest.reference, one)
            one.seek(0)
            client.images.load(one)
        found = client.api.inspect_image(manifest.reference)
    except docker.errors.ImageNotFound as error:
        raise _damaged(path, f"it does not hold {manifest.reference}") from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    except ENGINE_EXCEPTIONS as error:
        raise engine_error(error, f"load the image {name}") from error
    # Another image store counts ids in another way; the content was compared above.
    image = manifest.image.changed(image_id=found["Id"])
    with locked(name):
        add_record(image)
    return image


def _read_manifest(archive: tarfile.TarFile, path: Path) -> Manifest:
    file = archive.extractfile(MANIFEST)
    try:
        return Manifest.read(json.loads(file.read(MAX_MANIFEST_BYTES) if file else b""))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "its manifest is not understood") from error


def _check_definition(manifest: Manifest, path: Path) -> None:
    name = manifest.image.name
    if manifest.image.definition_sha256 != definition_digest(name) or manifest.reference != reference_of(name):
        raise ImageInputError(
            "image_other_definition",
            f"{path} was exported by a mindx with another definition of the image {name}. "
            "Export it with the same version as this one.",
        )


def _sha256(content: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while piece := content.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


def _damaged(path: Path, what: str) -> ImageInputError:
    return ImageInputError("image_file_damaged", f"{path} cannot be imported: {what}. Export it again.")
