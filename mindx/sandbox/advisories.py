"""Known holes of the engine's parts, by version: mindx/sandbox/data/advisories.yaml."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

Product = Literal["engine", "containerd", "runc"]
Version = tuple[int, int, int, int]  # the last is the number of a release candidate, or RELEASED
RELEASED = 1 << 30
# Where Debian and Ubuntu keep what they changed in a package.
DOC_FOLDER = Path("/usr/share/doc")
_PACKAGES: dict[str, tuple[str, ...]] = {
    "engine": ("docker.io", "docker-ce"),
    "containerd": ("containerd", "containerd.io"),
    "runc": ("runc", "containerd.io"),
}


class Advisory(BaseModel):
    """One hole. `fixed` are upstream's versions, one for each line; `needs` is "" when a plan alone may use it.

    `source` is the advisory that it was checked against, by id.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cve: str
    product: Product
    source: str
    fixed: tuple[str, ...]
    what: str
    needs: str


@lru_cache(maxsize=1)
def all_advisories() -> tuple[Advisory, ...]:
    """Return the whole table."""
    content = (Path(__file__).parent / "data" / "advisories.yaml").read_bytes()
    return TypeAdapter(tuple[Advisory, ...]).validate_python(yaml.safe_load(content))


def find_advisories(product: Product, version: str) -> tuple[Advisory, ...] | None:
    """Return the holes of a version by upstream's numbers; None when the version is not understood."""
    parsed = parse_version(version)
    if parsed is None:
        return None
    return tuple(one for one in all_advisories() if one.product == product and not is_fixed(parsed, one.fixed))


def is_fixed(version: Version, fixed: Sequence[str]) -> bool:
    """Return True when a version has the repair of its own line, or is newer than all that were repaired."""
    repaired = sorted(parsed for parsed in map(parse_version, fixed) if parsed is not None)
    for one in repaired:
        if one[:2] == version[:2]:
            return version >= one
    return version >= repaired[-1]


def parse_version(text: str) -> Version | None:
    """Return the numbers of `1.1.5+ds1-1+deb12u1`, `v2.0.4`, `26.1`, `1.0.0~rc93+ds1`; None for anything else."""
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-~.]rc\.?(\d+))?", text.strip())
    if match is None:
        return None
    return int(match[1]), int(match[2]), int(match[3] or 0), RELEASED if match[4] is None else int(match[4])


def mended_by_distribution(product: Product, version: str, doc_folder: Path = DOC_FOLDER) -> frozenset[str]:
    """Return the CVE ids that the installed package's own changelog names; empty when there is none to read.

    A distribution mends old versions without changing upstream's number. Only for an engine of this machine, and only
    when `version` is the package's: another one may run beside it.
    """
    found: set[str] = set()
    for package in _PACKAGES[product]:
        path = doc_folder / package / "changelog.Debian.gz"
        try:
            with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
                text = file.read(8 << 20)
        except (OSError, EOFError):
            continue
        packaged = re.match(r"\S+ \((?:\d+:)?([^)\s]+)\)", text)
        if packaged is not None and packaged[1].rpartition("-")[0] == version:
            found.update(re.findall(r"CVE-\d{4}-\d{4,}", text))
    return frozenset(found)
