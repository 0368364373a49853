"""What a base image is made of: sandbox_images/<name>/image.yaml."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from mindx.core.data_files import data_path
from mindx.errors import ImageError
from mindx.sandbox.image_records import check_name


def _check_package(name: str) -> str:
    # As Debian's policy manual, 5.6.7, has it; these become arguments of a program that runs as root.
    if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name):
        raise ValueError("is not a name of a package")
    return name


def _check_path(path: str) -> str:
    if not re.fullmatch(r"/?[\w.+*-]+(?:/[\w.+*-]+)*", path) or ".." in path.split("/"):
        raise ValueError("is not a plain path")
    return path


_Package = Annotated[str, AfterValidator(_check_package)]
_Path = Annotated[str, AfterValidator(_check_path)]


class ImageDefinition(BaseModel):
    """The packages of a base image and what is left out of them.

    `links` maps an absolute path to what the link there says. `exclude` and `include` are dpkg's path patterns.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: str
    variant: Literal["essential", "apt", "minbase"] = "essential"
    packages: tuple[_Package, ...]
    links: dict[_Path, _Path] = {}
    exclude: tuple[_Path, ...] = ()
    include: tuple[_Path, ...] = ()


def definition_names() -> list[str]:
    """Return the names of the images that come with mindx, sorted."""
    return sorted(path.parent.name for path in data_path("sandbox_images").glob("*/image.yaml"))


def read_definition(name: str) -> tuple[ImageDefinition, str]:
    """Return a definition and the sha256 of its file. Raises ImageError: image_unknown, image_bad_definition."""
    check_name(name)
    path = data_path("sandbox_images", f"{name}/image.yaml")
    try:
        content = path.read_bytes()
    except OSError as error:
        known = ", ".join(definition_names()) or "none"
        raise ImageError("image_unknown", f"there is no image {name!r}; known: {known}.") from error
    return parse_definition(content, path), hashlib.sha256(content).hexdigest()


def parse_definition(content: bytes, path: Path) -> ImageDefinition:
    """Return the definition that `content` holds; `path` is for the message. Raises ImageError."""
    try:
        return ImageDefinition.model_validate(yaml.safe_load(content))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ImageError("image_bad_definition", f"{path} is not YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ImageError("image_bad_definition", f"{path}: {where}: {first['msg']}") from error
