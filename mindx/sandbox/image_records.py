"""What is remembered of the base images that were built here, one JSON file for each name."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mindx.core.atomic_file import write_whole
from mindx.core.folders import state_dir
from mindx.core.frozen import dataclass
from mindx.core.lock_file import hold_lock
from mindx.core.table import Table, key, several, table, text, whole
from mindx.errors import ImageError, ImageInputError

SCHEMA_VERSION = 1
PROJECT_PREFIX = "project-"  # of the names of projects' own images
# More engines than anyone uses from one account; older records go.
_MAX_RECORDS = 20


@dataclass(frozen=True, kw_only=True)
class PackageVersion(Table):
    """One package of an image, as the distribution names it."""

    name: str = key(text())
    version: str = key(text())
    architecture: str = key(text())


@dataclass(frozen=True, kw_only=True)
class BaseImage(Table):
    """One base image in one engine.

    `host_certificates` counts what was added to the distribution's own set. `reference` is NAME@DIGEST for an image
    that was pulled, "" for one that was built here.
    """

    name: str = key(text())
    image_id: str = key(text())
    definition_sha256: str = key(text())
    distribution: str = key(text())
    built_at: str = key(text())
    host_certificates: int = key(whole(0, 100_000))
    packages: tuple[PackageVersion, ...] = key(several(table(PackageVersion)))
    reference: str = key(text(), "")


@dataclass(frozen=True, kw_only=True)
class _RecordFile(Table):
    schema_version: int = key(whole(1, SCHEMA_VERSION))
    images: tuple[BaseImage, ...] = key(several(table(BaseImage)))


def images_dir() -> Path:
    """Return the folder of the records; it need not exist."""
    return state_dir() / "images"


def check_name(name: str) -> None:
    """Raise ImageInputError (image_unknown) unless `name` can name an image: it becomes part of paths and of tags."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,40}", name):
        raise ImageInputError(
            "image_unknown", f"{name[:80]!r} is not a name of an image: use a-z, 0-9 and hyphens, as `python`."
        )


def read_records(name: str) -> tuple[BaseImage, ...]:
    """Return what was built under `name`, the newest first, one for each engine and definition.

    A file that is missing or not understood counts as empty: the image is then built again.
    """
    check_name(name)
    try:
        content = (images_dir() / f"{name}.json").read_text(encoding="utf-8")
        return _RecordFile.read(json.loads(content)).images
    except (OSError, ValueError, RecursionError):
        return ()


def recorded_names() -> list[str]:
    """Return the names that have records, sorted."""
    return sorted(path.stem for path in images_dir().glob("*.json"))


def add_record(image: BaseImage) -> None:
    """Put a record in front of the others of its name; call it under `locked(name)`. Raises ImageError."""
    others = [known for known in read_records(image.name) if known.image_id != image.image_id]
    write_records(image.name, (image, *others)[:_MAX_RECORDS])


def write_records(name: str, images: tuple[BaseImage, ...]) -> None:
    """Replace the records of a name in one step; call it under `locked(name)`. Raises ImageError."""
    path = images_dir() / f"{name}.json"
    content = _RecordFile(schema_version=SCHEMA_VERSION, images=images).plain()
    try:
        images_dir().mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{json.dumps(content, indent=1)}\n".encode(), mode=0o666)
    except OSError as error:
        raise _unusable(path, error) from error


@contextmanager
def locked(name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the one lock of an image among all processes of this user; `waiting` is called when it is taken.

    The lock ends with the process, however it ends. Blocking. Raises ImageError when the folder cannot be used.
    """
    check_name(name)
    path = images_dir() / f"{name}.lock"
    try:
        images_dir().mkdir(parents=True, exist_ok=True)
        handle = hold_lock(path)
        if handle is None:
            waiting()
            handle = hold_lock(path, None)
    except OSError as error:
        raise _unusable(path, error) from error
    assert handle is not None
    try:
        yield
    finally:
        os.close(handle)


def _unusable(path: Path, error: OSError) -> ImageError:
    return ImageError(
        "image_state_unusable",
        f"cannot keep records of images in {path.parent}: {error.strerror}. "
        "Make room or give access there, or set MINDX_STATE_DIR to another folder.",
    )
