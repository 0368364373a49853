"""What a base image is made of: sandbox_images/<name>/image.yaml."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Literal

import yaml

from mindx.core.data_files import data_path
from mindx.core.frozen import dataclass
from mindx.core.nearest import did_you_mean
from mindx.core.table import Table, TableError, choice, key, pairs, several, text
from mindx.errors import ImageError, ImageInputError
from mindx.sandbox.image_records import check_name, read_records, recorded_names


def check_package(name: str) -> str:
    """Return the name of a package. Raises ValueError."""
    # As Debian's policy manual, 5.6.7, has it; these become arguments of a program that runs as root.
    if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name):
        raise ValueError("is not a name of a package")
    return name


def check_path(path: str) -> str:
    """Return a path of plain words, without `..`. Raises ValueError."""
    if not re.fullmatch(r"/?[\w.+*-]+(?:/[\w.+*-]+)*", path) or ".." in path.split("/"):
        raise ValueError("is not a plain path")
    return path


_PATH = text(check=check_path)


@dataclass(frozen=True, kw_only=True)
class ImageDefinition(Table):
    """The packages of a base image and what is left out of them.

    `links` maps an absolute path to what the link there says. `exclude` and `include` are dpkg's path patterns.
    """

    description: str = key(text())
    variant: Literal["essential", "apt", "minbase"] = key(choice("essential", "apt", "minbase"), "essential")
    packages: tuple[str, ...] = key(several(text(check=check_package)))
    links: tuple[tuple[str, str], ...] = key(pairs(_PATH, _PATH), ())
    exclude: tuple[str, ...] = key(several(_PATH), ())
    include: tuple[str, ...] = key(several(_PATH), ())


def definition_names() -> list[str]:
    """Return the names of the images that come with mindx, sorted."""
    return sorted(path.parent.name for path in data_path("sandbox_images").glob("*/image.yaml"))


def usable_names() -> list[str]:
    """Return the names that a policy may write: of what comes with mindx and of what was pulled, sorted."""
    pulled = (name for name in recorded_names() if any(image.reference for image in read_records(name)))
    return sorted({*definition_names(), *pulled})


def read_definition(name: str) -> tuple[ImageDefinition, str]:
    """Return a definition and the sha256 of its file.

    Raises ImageInputError (image_unknown), or ImageError (image_bad_definition).
    """
    check_name(name)
    path = data_path("sandbox_images", f"{name}/image.yaml")
    try:
        content = path.read_bytes()
    except OSError as error:
        names = usable_names()
        hint = did_you_mean(name, names) or f"known: {', '.join(names) or 'none'}."
        raise ImageInputError("image_unknown", f"there is no image {name!r}; {hint}") from error
    return parse_definition(content, path), hashlib.sha256(content).hexdigest()


def parse_definition(content: bytes, path: Path) -> ImageDefinition:
    """Return the definition that `content` holds; `path` is for the message. Raises ImageError."""
    try:
        return ImageDefinition.read(yaml.safe_load(content))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ImageError("image_bad_definition", f"{path} is not YAML: {error}") from error
    except TableError as error:
        first = error.problems[0]
        where = ".".join(str(part) for part in first.path) or "the file"
        raise ImageError("image_bad_definition", f"{path}: {where}: {first.message}") from error
