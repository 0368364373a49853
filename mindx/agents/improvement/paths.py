"""Where an improvement keeps what it makes, where mindx itself lies, and by what name the rules know a file of it."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import mindx
from mindx.agents.improvement.models import SELF_FILE
from mindx.core.unwritable import state_unwritable
from mindx.workspace.apply import JOURNAL_FOLDER

IMPROVEMENT_FOLDER = "improvement"  # in the folder of the society's state
CONTEXT_FILE, RESULT_FILE, LOG_FILE, LOCK_FILE = "context.json", "result.json", "agent.log", ".lock"
TRACE_FILE, CHANGES_FOLDER = "trace.jsonl", "changes"


def folder_of(work_dir: Path, interaction_id: str) -> Path:
    """Return the folder of one improvement: `improvement/<interaction_id>` below the state folder of the mind."""
    return work_dir / interaction_id


def clear(folder: Path, *names: str) -> None:
    """Make the folder (0700) of an improvement ready for a new try: `names` go, and Changes that were not applied.

    Raises StateError.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in names:
            (folder / name).unlink(missing_ok=True)
        changes = folder / CHANGES_FOLDER
        if not any((changes / JOURNAL_FOLDER).glob("*")):
            with suppress(FileNotFoundError):
                shutil.rmtree(changes)
    except OSError as error:
        raise state_unwritable(folder, error) from error


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
