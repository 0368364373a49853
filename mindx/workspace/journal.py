"""Journal: what an apply is about to do, on disk before it does it, so that it can be undone at any moment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mindx.errors import InputError, Phase
from mindx.workspace.changes import State, state_from, state_to
from mindx.workspace.handle import is_relative
from mindx.workspace.names import name_from, name_to
from mindx.workspace.store import SCHEMA_VERSION, read_document, write_document

JournalPhase = Literal["applying", "applied", "undoing", "undone"]
_PHASES = ("applying", "applied", "undoing", "undone")


@dataclass(frozen=True, slots=True)
class Step:
    """One path and what becomes of it. None means that nothing stands there. A file's content is in the store."""

    path: str
    before: State | None
    after: State | None

    @property
    def reversed(self) -> Step:
        """The step back."""
        return Step(self.path, self.after, self.before)

    @property
    def replaces_kind(self) -> bool:
        """True if the path holds nothing for a moment: one kind of thing makes way for another."""
        return self.before is not None and (self.after is None or self.after.entry != self.before.entry)


@dataclass(frozen=True, slots=True)
class Journal:
    """The steps of one apply, where it goes, and how far it came.

    `staging` is the name of a folder in the target that holds new and old contents while it runs.
    """

    target: str
    device: int
    inode: int
    staging: str
    phase: JournalPhase
    steps: tuple[Step, ...]

    def at(self, phase: JournalPhase) -> Journal:
        """Return the journal in another phase."""
        return replace(self, phase=phase)

    def write(self, path: Path) -> None:
        """Write it whole or not at all, on disk when this returns. Raises OSError."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_document(
            path,
            {
                "schema_version": SCHEMA_VERSION,
                **name_to("target", self.target),
                "device": self.device,
                "inode": self.inode,
                "staging": self.staging,
                "phase": self.phase,
                "steps": [
                    {
                        **name_to("path", step.path),
                        "before": None if step.before is None else state_to(step.before),
                        "after": None if step.after is None else state_to(step.after),
                    }
                    for step in self.steps
                ],
            },
        )


def read_journal(path: Path) -> Journal:
    """Return a journal. Raises InputError if it cannot be understood."""
    try:
        return _from_dict(read_document(path))
    except (KeyError, TypeError, ValueError) as error:
        text = f"the journal {path.name} cannot be understood ({error}); nothing was touched"
        raise InputError("journal_damaged", text, phase=Phase.APPLY) from None


def _from_dict(document: Mapping[str, Any]) -> Journal:
    steps = []
    for item in document["steps"]:
        path = name_from("path", item)
        if not is_relative(path):
            raise ValueError(f"{path!a} is no path inside a folder")
        before, after = (None if item[key] is None else state_from(item[key]) for key in ("before", "after"))
        steps.append(Step(path, before, after))
    staging = document["staging"]
    if document["phase"] not in _PHASES or not is_relative(staging) or "/" in staging:
        raise ValueError("its phase or staging folder is unknown")
    return Journal(
        target=name_from("target", document),
        device=int(document["device"]),
        inode=int(document["inode"]),
        staging=staging,
        phase=document["phase"],
        steps=tuple(steps),
    )


def journals(folder: Path) -> list[Path]:
    """Return the journals of a run, oldest first."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith("."))
    except FileNotFoundError:
        return []
    return [folder / name for name in names]


def next_journal(folder: Path) -> Path:
    """Return where the next journal of a run goes."""
    known = journals(folder)
    number = int(known[-1].stem) + 1 if known else 1
    return folder / f"{number:06d}.json"
