"""Baseline: what was copied in, by digest. Every Change is a difference from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from mindx.core.frozen import dataclass
from mindx.sandbox.base import ManifestEntry
from mindx.workspace.names import name_from, name_to
from mindx.workspace.select import Omitted


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the workspace held before the first command.

    `folder` is the real path of the folder that was copied, "" if the workspace began empty; `device` and `inode`
    tell it from a folder that takes its place later. `omitted` keeps the first 1,000 of `omitted_count`.
    """

    entries: Mapping[str, ManifestEntry] = field(default_factory=dict)
    folder: str = ""
    device: int = 0
    inode: int = 0
    omitted: tuple[Omitted, ...] = ()
    omitted_count: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; names that are not UTF-8 keep their bytes."""
        return {
            **name_to("folder", self.folder),
            "device": self.device,
            "inode": self.inode,
            "entries": [
                {
                    **name_to("path", entry.path),
                    "kind": entry.kind,
                    "mode": f"{entry.mode:04o}",
                    "size": entry.size,
                    "sha256": entry.sha256,
                    **name_to("target", entry.target),
                }
                for entry in self.entries.values()
            ],
            "omitted": [{**name_to("path", item.path), "reason": item.reason} for item in self.omitted],
            "omitted_count": self.omitted_count,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Baseline:
        """Return what `to_dict` wrote. Raises KeyError, ValueError or TypeError on anything else."""
        entries = [
            ManifestEntry(
                path=name_from("path", item),
                kind=item["kind"],
                mode=int(item["mode"], 8),
                size=int(item["size"]),
                sha256=str(item["sha256"]),
                target=name_from("target", item),
            )
            for item in document["entries"]
        ]
        return cls(
            entries={entry.path: entry for entry in entries},
            folder=name_from("folder", document),
            device=int(document["device"]),
            inode=int(document["inode"]),
            omitted=tuple(Omitted(name_from("path", item), str(item["reason"])) for item in document["omitted"]),
            omitted_count=int(document["omitted_count"]),
        )
