"""A project's own image: a base, packages of the distribution, a Dockerfile. Its name is the digest of all of that.

What stands here was trusted by the user before (mindx.project_file). The whole definition is kept in the state folder,
so that a later process can build the image again by its name alone, whatever the project's files say by then.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from mindx.core.atomic_file import write_whole
from mindx.core.frozen import dataclass
from mindx.core.table import Kind, Table, TableError, key, several, text
from mindx.errors import ImageError, ImageInputError
from mindx.sandbox.dockerfile import find_fault
from mindx.sandbox.image_definition import ImageDefinition, check_package, check_path
from mindx.sandbox.image_records import PROJECT_PREFIX, check_name, images_dir

SCHEMA_VERSION = 1
MAX_PACKAGES = 200
MAX_FILES = 64


def check_base(name: str) -> str:
    """Return the name of an image that others may be made of. Raises ValueError."""
    if name.startswith(PROJECT_PREFIX):
        raise ValueError("is a project's own image; name one of `mindx image list` that is not")
    try:
        check_name(name)
    except ImageError as error:
        raise ValueError(error.message) from None
    return name


def check_file(path: str) -> str:
    """Return the path of a file that COPY may name. Raises ValueError."""
    check_path(path)
    if path.startswith("/") or path == "Dockerfile" or "*" in path:
        raise ValueError("is not the path of a file beside the Dockerfile")
    return path


def _read_file(value: Any) -> tuple[str, str]:
    """Return one file as its path and its content in base64."""
    if not isinstance(value, (list, tuple)) or len(value) != 2 or not all(isinstance(part, str) for part in value):
        raise ValueError("this must be a path and its content")
    try:
        base64.b64decode(value[1], validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("this is not base64") from None
    return check_file(value[0]), value[1]


@dataclass(frozen=True, kw_only=True)
class ProjectImage(Table):
    """One definition. `dockerfile` is its text, "" for none; `files` are what COPY may name, in base64."""

    base: str = key(text(check=check_base), "python")
    packages: tuple[str, ...] = key(several(text(check=check_package), high=MAX_PACKAGES), ())
    dockerfile: str = key(text(), "")
    files: tuple[tuple[str, str], ...] = key(several(Kind(_read_file, {"type": "array"}), high=MAX_FILES), ())

    def check(self) -> None:
        """Raise ValueError for what adds nothing, and for a Dockerfile that mindx does not take."""
        if not self.packages and not self.dockerfile:
            raise ValueError("it adds nothing to its base: name packages or a dockerfile, or write image: NAME")
        if len({path for path, _ in self.files}) != len(self.files):
            raise ValueError("files names one twice")
        if self.files and not self.dockerfile:
            raise ValueError("files are for a dockerfile, and it names none")
        fault = find_fault(self.dockerfile) if self.dockerfile else ""
        if fault:
            raise ValueError(f"dockerfile: {fault}")

    @property
    def name(self) -> str:
        """The image's name: the digest of the definition."""
        return PROJECT_PREFIX + hashlib.sha256(_canonical(self)).hexdigest()[:32]

    @property
    def parent(self) -> ProjectImage | None:
        """What the Dockerfile begins with when there are packages too, None when that is the base itself."""
        if not (self.dockerfile and self.packages):
            return None
        return ProjectImage(base=self.base, packages=self.packages)

    def extend(self, base: ImageDefinition) -> ImageDefinition:
        """Return a base's definition with the packages added."""
        more = tuple(sorted(set(self.packages) - set(base.packages)))
        return base.changed(packages=(*base.packages, *more))


@dataclass(frozen=True, slots=True)
class _Record:
    """One file of the state folder. A `step` is only the first half of another image."""

    project: str
    image: ProjectImage
    step: bool


@dataclass(frozen=True, slots=True)
class RememberedImage:
    """A definition, the folder of its project, and whether the project has asked for another one since."""

    image: ProjectImage
    project: str
    superseded: bool


def remember_project_image(image: ProjectImage, project: Path) -> str:
    """Keep a definition, and that of its parent, and return its name. Raises ImageError (image_state_unusable)."""
    folder = _folder()
    for one in filter(None, (image.parent, image)):
        path = folder / f"{one.name}.json"
        step = one is not image
        record = _Record(str(project), one, step)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            known = _read(path)
            if known == record or (known is not None and step):
                if not step:
                    os.utime(path)  # the newest of a project is the one that it asks for
                continue
            write_whole(path, _render(record).encode(), mode=0o666)
        except OSError as error:
            raise ImageError(
                "image_state_unusable",
                f"cannot keep the project's image in {folder}: {error.strerror}. Make room or give access there, or "
                "set MINDX_STATE_DIR to another folder.",
            ) from error
    return image.name


def find_project_image(name: str) -> ProjectImage:
    """Return the definition of a name. Raises ImageInputError (image_unknown) when this state folder has none."""
    check_name(name)
    found = _read(_folder() / f"{name}.json")
    if found is None or found.image.name != name:
        raise ImageInputError(
            "image_unknown",
            f"the image {name} of a project is not known here. Use mindx in that project's folder once, or trust it: "
            "mindx trust DIR.",
        )
    return found.image


def remembered_images() -> dict[str, RememberedImage]:
    """Return all definitions of this state folder by name."""
    found = [(path.stat().st_mtime_ns, one) for path in _folder().glob("*.json") if (one := _read(path)) is not None]
    current: dict[str, ProjectImage] = {}
    for _, one in sorted(found, key=lambda pair: (pair[0], pair[1].image.name)):
        if not one.step:
            current[one.project] = one.image
    wanted = {image.name for image in current.values()} | {
        image.parent.name for image in current.values() if image.parent is not None
    }
    return {one.image.name: RememberedImage(one.image, one.project, one.image.name not in wanted) for _, one in found}


def forget_project_image(name: str) -> None:
    """Remove a definition; it is kept anew when its project asks for it."""
    check_name(name)
    (_folder() / f"{name}.json").unlink(missing_ok=True)


def _folder() -> Path:
    return images_dir() / "projects"


def _render(record: _Record) -> str:
    document = {"schema_version": SCHEMA_VERSION, "project": record.project, "step": record.step}
    return json.dumps({**document, "image": record.image.plain()}) + "\n"


def _read(path: Path) -> _Record | None:
    """Return what a file holds; one that is missing or not understood counts as not there."""
    try:
        document = json.loads(path.read_bytes())
        image = ProjectImage.read(document["image"])
        return _Record(str(document["project"]), image, bool(document["step"]))
    except (OSError, ValueError, KeyError, TypeError, TableError):
        return None


def _canonical(image: ProjectImage) -> bytes:
    value = image.plain() | {"packages": sorted(set(image.packages)), "files": sorted(image.files)}
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
