"""What the engine loads of an image's file: one image, written anew, so that the file can name no other one.

`docker load` takes every image of an archive and gives it every name that the archive says, also names of images that
are there: whoever wrote the file could put their own image behind any of the user's.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from typing import IO, Any

LISTING = "manifest.json"
MAX_LISTING_BYTES = 1 << 20
MAX_LAYERS = 512
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*", re.ASCII)
_OTHER_LISTINGS = frozenset({LISTING, "index.json", "oci-layout", "repositories"})
_PREFIXES = ("", "localhost/", "docker.io/library/")  # engines differ in how they write a name without a registry


def rewrite(content: IO[bytes], reference: str, target: IO[bytes]) -> None:
    """Write to `target` the one image of an archive of `docker save`, by the name `reference` alone.

    Raises ValueError for what is no such archive, OSError.
    """
    try:
        with tarfile.open(fileobj=content, mode="r:") as archive:
            listing = _read(archive)
            parts = dict.fromkeys([listing["Config"], *listing["Layers"]])
            with tarfile.open(fileobj=target, mode="w") as whole:
                for name in parts:
                    file, size = _open(archive, name)
                    add_file(whole, name, file, size)
                tags = [tag for tag in listing.get("RepoTags") or () if tag in [f"{p}{reference}" for p in _PREFIXES]]
                said = json.dumps([{**listing, "RepoTags": tags[:1] or [reference]}]).encode()
                add_file(whole, LISTING, io.BytesIO(said), len(said))
    except (tarfile.TarError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("its image is not understood") from error


def _read(archive: tarfile.TarFile) -> dict[str, Any]:
    file, size = _open(archive, LISTING)
    if size > MAX_LISTING_BYTES:
        raise ValueError("its list of images is too long")
    found = json.loads(file.read())
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], dict):
        raise ValueError("it holds another number of images than one")
    listing = {key: found[0][key] for key in ("Config", "Layers", "RepoTags") if key in found[0]}
    names = [listing["Config"], *listing["Layers"]]
    if len(names) > MAX_LAYERS or not all(isinstance(name, str) and _is_plain(name) for name in names):
        raise ValueError("the names of its parts are not understood")
    return listing


def _is_plain(name: str) -> bool:
    return len(name) < 256 and _NAME.fullmatch(name) is not None and name not in _OTHER_LISTINGS


def _open(archive: tarfile.TarFile, name: str) -> tuple[IO[bytes], int]:
    """Return a part of the archive and its size; older engines write a layer that comes again as a link to the first.

    Raises KeyError, ValueError.
    """
    file = archive.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is no file")
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    return file, size


def add_file(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    """Add a file of `size` bytes to an archive, with nothing of this machine beside it."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    archive.addfile(entry, content)
