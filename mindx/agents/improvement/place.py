"""Where mindx itself lies, and by what name the rules know a file of it."""

from __future__ import annotations

import os
from pathlib import Path

import mindx
from mindx.agents.improvement.models import SELF_FILE


def project_folder() -> Path | None:
    """Return the project that this mindx is, None when it is installed without one."""
    root = _root()
    return root if (root / "pyproject.toml").is_file() and (root / SELF_FILE).is_file() else None


def rule_target(workspace: Path | None, path: str) -> str:
    """Return the name by which the Constitution knows a file of a workspace.

    Its rules name the parts of mindx as they lie in its project. A workspace that is only a part of that project, or
    reaches it by another way, does not change what a file is.
    """
    if workspace is None:
        return path
    root = os.path.realpath(_root())
    real = os.path.realpath(workspace / path)
    inside = os.path.relpath(real, root)
    is_mindx = inside.startswith("mindx/") or project_folder() is not None
    return inside if is_mindx and real.startswith(root + "/") else path


def _root() -> Path:
    return Path(mindx.__file__).resolve().parent.parent
