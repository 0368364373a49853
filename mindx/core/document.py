"""The documents that mindx prints and keeps: their version, and how they are written; quick to import."""

from __future__ import annotations

import json
from typing import Any

SCHEMA_VERSION = 1


def render_json(document: Any) -> str:
    """Return a document as indented JSON in printable ASCII, with a newline at the end."""
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"
