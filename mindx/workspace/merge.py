"""Merge: what a plan did to a text, taken over region by region into the user's own version of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from mindx.workspace.lines import Region, regions

Standing = Literal["free", "already", "conflict"]


@dataclass(frozen=True, slots=True)
class Merge:
    """Three versions of a text as lines: what was copied in, what the plan made of it, and what the user has now.

    `standing` tells for each of the plan's regions: `free` to be taken, `already` there, or in `conflict` with an
    edit of the user at or next to the same lines.
    """

    base: Sequence[bytes]
    plan: Sequence[bytes]
    mine: Sequence[bytes]
    plan_regions: tuple[Region, ...]
    mine_regions: tuple[Region, ...]
    standing: tuple[Standing, ...]

    @property
    def conflicts(self) -> list[Region]:
        """The plan's regions that cannot be taken."""
        return [region for region, how in zip(self.plan_regions, self.standing, strict=True) if how == "conflict"]

    def take(self, chosen: Collection[Region]) -> list[bytes]:
        """Return the user's text with the chosen regions of the plan. Raises ValueError for one in conflict."""
        if set(chosen) & set(self.conflicts):
            raise ValueError("a region in conflict cannot be taken")
        wanted = [
            (region, self.plan)
            for region, how in zip(self.plan_regions, self.standing, strict=True)
            if how == "free" and region in chosen
        ]
        edits = sorted([*wanted, *((region, self.mine) for region in self.mine_regions)], key=lambda edit: edit[0][:2])
        lines: list[bytes] = []
        at = 0
        for region, source in edits:
            lines += self.base[at : region.old_start]
            lines += source[region.new_start : region.new_end]
            at = region.old_end
        return [*lines, *self.base[at:]]


def merge(base: Sequence[bytes], plan: Sequence[bytes], mine: Sequence[bytes]) -> Merge:
    """Compare three versions of a text."""
    by_plan, by_user = regions(base, plan), regions(base, mine)
    standing: list[Standing] = []
    for region in by_plan:
        near = [other for other in by_user if _touch(region, other)]
        if not near:
            standing.append("free")
        elif len(near) == 1 and _same(region, plan, near[0], mine):
            standing.append("already")
        else:
            standing.append("conflict")
    return Merge(base, plan, mine, tuple(by_plan), tuple(by_user), tuple(standing))


def _touch(one: Region, other: Region) -> bool:
    return one.old_start <= other.old_end and other.old_start <= one.old_end


def _same(one: Region, plan: Sequence[bytes], other: Region, mine: Sequence[bytes]) -> bool:
    return one[:2] == other[:2] and plan[one.new_start : one.new_end] == mine[other.new_start : other.new_end]
