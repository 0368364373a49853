"""The data that travels with mindx: policies/, sandbox_images/ and the scripts that set up an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

DataKind = Literal["policies", "sandbox_images", "scripts"]

_PACKAGE = Path(__file__).resolve().parent.parent


def data_path(kind: DataKind, name: str = "") -> Path:
    """Return where a data file or folder stands; "" names the folder of its kind.

    An installed mindx has it inside the package (mindx/data), a checkout at its root. The path need not exist: the
    caller knows better what to say when it does not. Raises ValueError for a name that leaves the folder.
    """
    packaged = _PACKAGE / "data" / kind
    folder = packaged if packaged.is_dir() else _PACKAGE.parent / kind
    path = folder / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError(f"{name!r} is not a name inside {kind}/")
    return path
