"""The folders of improvements that are over and old: which they are, and removing them."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from mindx.agents.improvement.paths import CHANGES_FOLDER, LOCK_FILE
from mindx.core.unwritable import state_unwritable
from mindx.errors import InputError
from mindx.runtime.tasks.atomic import is_free, locked, names_in
from mindx.workspace.apply import JOURNAL_FOLDER
from mindx.workspace.journal import journals, read_journal


def old_improvements(work_dir: Path, before_s: float, unfinished: Collection[str]) -> list[Path]:
    """Return the folders in which nothing has changed since `before_s` (seconds since 1970), by name.

    Those that are worked on stay, those of the interactions that are `unfinished`, and those whose change was being
    applied or taken back when a process was killed: the next apply needs what lies there. Raises StateError.
    """
    folders = (work_dir / name for name in names_in(work_dir) if name not in unfinished)
    return [folder for folder in folders if _last_change_s(folder) < before_s and _is_over(folder)]


def remove_improvement(folder: Path) -> bool:
    """Remove a folder, and with it the way back from its change; False when somebody works on it. Raises StateError."""
    try:
        with locked(folder / LOCK_FILE, InputError("improvement_busy", f"{folder.name} is being worked on")):
            shutil.rmtree(folder)
    except InputError:
        return False
    except OSError as error:
        raise state_unwritable(folder, error) from error
    return True


def _last_change_s(folder: Path) -> float:
    return max(path.lstat().st_mtime for path in (folder, *folder.iterdir()))


def _is_over(folder: Path) -> bool:
    try:
        phases = {read_journal(path).phase for path in journals(folder / CHANGES_FOLDER / JOURNAL_FOLDER)}
    except InputError:  # a damaged journal is for a person to look at
        return False
    return not phases & {"applying", "undoing"} and is_free(folder / LOCK_FILE)
