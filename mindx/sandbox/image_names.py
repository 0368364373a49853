"""Whether a name is that of an image that mindx knows: asked before anything starts, without an engine."""

from __future__ import annotations

from mindx.core.data_files import data_path
from mindx.sandbox.image_definition import read_definition, usable_names
from mindx.sandbox.image_records import PROJECT_PREFIX, check_name
from mindx.sandbox.project_image import find_project_image


def check_known(name: str) -> None:
    """Raise ImageInputError (image_unknown), which names the nearest, unless `name` can be built or was pulled."""
    check_name(name)
    if name.startswith(PROJECT_PREFIX):
        find_project_image(name)
    elif not data_path("sandbox_images", f"{name}/image.yaml").is_file() and name not in usable_names():
        read_definition(name)
