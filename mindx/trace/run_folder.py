"""Run folders: what a Run leaves behind, each in a folder of its own that only its user can open."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from mindx.core.atomic_file import write_whole
from mindx.core.nearest import did_you_mean, nearest_id
from mindx.core.unwritable import state_unwritable
from mindx.errors import InputError
from mindx.trace.recorder import is_being_written

_RUN_ID = re.compile(r"\d{8}T\d{9}-[0-9a-f]{6}")
_PREFIX = re.compile(r"[0-9Ta-f-]{1,25}")
_REFUSED = ("SKIPPED", "ERROR", "DENIED")
_MAX_REFUSED_BYTES = 16 * 1024 * 1024  # 10,000 steps that were not reached, and their faults
MAX_RESULT_BYTES = 512 * 1024 * 1024


def new_run_id(now: datetime | None = None, salt: str | None = None) -> str:
    """Return an id that sorts by time: `20260131T120000123-9f3a1c` (UTC, milliseconds, a random end)."""
    now = now or datetime.now(timezone.utc)
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}-{salt or secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One Run's folder: trace.jsonl, plan.json (the text as given), result.json, output/ (the spool) and files/.

    files/ holds changed content.
    """

    path: Path

    @property
    def run_id(self) -> str:
        """The Run's id, which is the folder's name."""
        return self.path.name

    @property
    def trace_path(self) -> Path:
        """Where the trace is."""
        return self.path / "trace.jsonl"

    @property
    def plan_path(self) -> Path:
        """Where the plan's text is."""
        return self.path / "plan.json"

    @property
    def result_path(self) -> Path:
        """Where the result is, once there is one."""
        return self.path / "result.json"

    @property
    def files_path(self) -> Path:
        """Where changed content is kept."""
        return self.path / "files"

    def write(self, name: str, data: bytes | Iterable[bytes]) -> None:
        """Write a file of the folder, whole or in pieces: after a crash it is there whole or not at all.

        Raises StateError.
        """
        try:
            write_whole(self.path / name, data)
        except OSError as error:
            raise state_unwritable(self.path / name, error) from error

    def read_result(self) -> dict[str, Any] | None:
        """Return the result's document, or None when the run left none. Raises InputError when it is not readable."""
        try:
            with self.result_path.open("rb") as file:
                too_large = os.fstat(file.fileno()).st_size > MAX_RESULT_BYTES
                text = b"" if too_large else file.read(MAX_RESULT_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(self.result_path, error.strerror or str(error)) from error
        if too_large:
            raise _unreadable(
                self.result_path,
                f"it is larger than {MAX_RESULT_BYTES // 1024**2} MiB; `mindx trace show {self.run_id}` tells the run",
            )
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _unreadable(self.result_path, "it is not JSON") from error
        if not isinstance(document, dict):
            raise _unreadable(self.result_path, "it is not the document of a run")
        return document

    def ended_at_input(self) -> bool:
        """Return True for a run that was refused for what it was given (`invalid`) before any step began.

        A result that cannot be read, or is large, is of a run that did something.
        """
        try:
            if self.result_path.stat().st_size > _MAX_REFUSED_BYTES:
                return False
            document = self.read_result() or {}
            steps = document.get("steps") or ()
            begun = any(step["duration_s"] or step["status"] not in _REFUSED for step in steps)
        except (InputError, OSError, KeyError, TypeError):
            return False
        return document.get("outcome") == "invalid" and not begun

    def state(self) -> str:
        """Return `finished`, `running`, or `interrupted` (its mindx died before it wrote a result)."""
        if self.result_path.is_file():
            return "finished"
        return "running" if is_being_written(self.trace_path) else "interrupted"


class RunStore:
    """All run folders of a user, under `root` (`state_dir()/runs`)."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self) -> RunFolder:
        """Make a new folder (mode 0700). Raises StateError."""
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            while True:
                path = self.root / new_run_id()
                with suppress(FileExistsError):
                    path.mkdir(mode=0o700)
                    return RunFolder(path)
        except OSError as error:
            raise state_unwritable(self.root, error) from error

    def runs(self) -> Iterator[RunFolder]:
        """Yield every run, the newest first. What is not a run's folder is passed over."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return
        except OSError as error:
            raise state_unwritable(self.root, error) from error
        for name in reversed(names):
            if _RUN_ID.fullmatch(name):
                yield RunFolder(self.root / name)

    def find(self, run: str) -> RunFolder:
        """Return the run that an id, the start of one, or `last` names. Raises InputError when none or several do.

        `last` is the newest that came past its input; where none did, the newest.
        """
        if run == "last":
            newest: RunFolder | None = None
            for folder in self.runs():
                if not folder.ended_at_input():
                    return folder
                newest = newest or folder
            if newest is not None:
                return newest
            raise InputError("run_unknown", "there is no run yet; `mindx run PLAN` makes one")
        found = [folder for folder in self.runs() if folder.run_id.startswith(run)] if _PREFIX.fullmatch(run) else []
        if not found:
            known = (folder.run_id for folder in self.runs())
            hint = did_you_mean(run, ("last",)) or nearest_id(run, known, "`mindx runs list` shows them")
            raise InputError("run_unknown", f"no run has the id {run!r}; {hint}")
        if len(found) > 1:
            names = ", ".join(folder.run_id for folder in found[:5])
            raise InputError("run_ambiguous", f"{len(found)} runs start with {run!r} ({names} ...); give more of it")
        return found[0]


def _unreadable(path: Path, why: str) -> InputError:
    return InputError("result_unreadable", f"{path} cannot be read: {why}", details={"path": str(path)})
