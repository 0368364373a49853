"""Names in JSON: file names are bytes; those that are not UTF-8 are shown escaped and kept in full beside it."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any

from mindx.core.output import plain_text


def name_to(key: str, name: str) -> dict[str, str]:
    """Return `{key: name}`; for a name that is not UTF-8, its escaped form and the bytes under `key`_base64."""
    shown = plain_text(name)
    if shown == name:
        return {key: name}
    return {key: shown, f"{key}_base64": base64.b64encode(os.fsencode(name)).decode()}


def name_from(key: str, document: Mapping[str, Any]) -> str:
    """Return the name that `name_to` wrote. Raises KeyError or ValueError."""
    exact = document.get(f"{key}_base64")
    if exact is not None:
        return os.fsdecode(base64.b64decode(exact, validate=True))
    return str(document[key])
