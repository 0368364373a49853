"""A run without a container's cost: a folder is copied into the fake, changed there, and collected."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mindx.sandbox.fake import FakeSandbox
from mindx.workspace.baseline import Baseline
from mindx.workspace.changes import Change
from mindx.workspace.copy_in import copy_in, plan_copy
from mindx.workspace.pull import collect
from mindx.workspace.store import ChangesFolder

LIMIT_BYTES = 1 << 28


def fill(folder: Path, files: dict[str, str | bytes]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text if isinstance(text, bytes) else text.encode())


def listing(folder: Path) -> dict[str, Any]:
    """Return all that a folder holds: mode and content of files, mode of folders, text of links."""
    found: dict[str, Any] = {}
    for base, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = os.path.join(base, name)
            status = os.lstat(path)
            mode = stat.S_IMODE(status.st_mode)
            key = os.path.relpath(path, folder)
            if stat.S_ISLNK(status.st_mode):
                found[key] = os.readlink(path)
            else:
                found[key] = (mode, Path(path).read_bytes()) if stat.S_ISREG(status.st_mode) else mode
    return found


class Worked:
    """What a run left: its folder, its Changes, and the tree that the plan made."""

    def __init__(self, run: ChangesFolder, baseline: Baseline, changes: tuple[Change, ...]) -> None:
        self.run = run
        self.baseline = baseline
        self.changes = changes

    @property
    def by_path(self) -> dict[str, Change]:
        return {change.path: change for change in self.changes}


def work(folder: Path | None, run: Path, plan: Callable[[Any], None], **options: Any) -> Worked:
    """Copy `folder` in, let `plan` change the fake's tree (paths below /workspace), and collect into `run`."""
    run.mkdir(exist_ok=True)

    async def whole() -> Worked:
        async with FakeSandbox() as sandbox:
            baseline = Baseline()
            if folder is not None:
                with plan_copy(folder, max_bytes=LIMIT_BYTES) as copy:
                    baseline = await copy_in(sandbox, copy)
            plan(sandbox.tree)
            changes = await collect(sandbox, baseline, ChangesFolder(run), **options)
            return Worked(ChangesFolder(run), baseline, changes)

    return asyncio.run(whole())


def put(tree: Any, path: str, data: str | bytes, mode: int | None = None) -> None:
    """Write a file in the fake's workspace, with its folders."""
    full = f"/workspace/{path}"
    tree.make_dir(full.rpartition("/")[0])
    tree.write(full, data if isinstance(data, bytes) else data.encode(), mode)
