"""Diffs: the Changes of a run as people review them, with lines where there are lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mindx.errors import InputError
from mindx.workspace.changes import Change, State
from mindx.workspace.lines import Region, regions, split_lines
from mindx.workspace.marks import marks_of
from mindx.workspace.store import BlobStore

MAX_TEXT_BYTES = 1024 * 1024
CONTEXT_LINES = 3


@dataclass(frozen=True, slots=True)
class Hunk:
    """Regions that lie close together, to be shown with the lines around them. Line numbers count from 0."""

    regions: tuple[Region, ...]
    old_start: int
    old_end: int
    new_start: int
    new_end: int

    @property
    def heading(self) -> str:
        """`@@ -1,3 +1,4 @@`, as in a unified diff."""
        old, new = _span(self.old_start, self.old_end), _span(self.new_start, self.new_end)
        return f"@@ -{old} +{new} @@"

    def split(self) -> list[Hunk]:
        """Return a hunk for each region."""
        parts = []
        for number, region in enumerate(self.regions):
            low = self.regions[number - 1].old_end if number else self.old_start
            high = self.regions[number + 1].old_start if number + 1 < len(self.regions) else self.old_end
            before = min(CONTEXT_LINES, region.old_start - low)
            after = min(CONTEXT_LINES, high - region.old_end)
            parts.append(
                Hunk(
                    (region,),
                    region.old_start - before,
                    region.old_end + after,
                    region.new_start - before,
                    region.new_end + after,
                )
            )
        return parts


@dataclass(frozen=True, slots=True)
class TextDiff:
    """Two texts and where they differ."""

    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    regions: tuple[Region, ...]

    @property
    def added(self) -> int:
        """The number of lines that are new."""
        return sum(region.new_end - region.new_start for region in self.regions)

    @property
    def removed(self) -> int:
        """The number of lines that are gone."""
        return sum(region.old_end - region.old_start for region in self.regions)

    def hunks(self) -> list[Hunk]:
        """Return the regions in groups, with three lines around each."""
        groups: list[list[Region]] = []
        for region in self.regions:
            if groups and region.old_start - groups[-1][-1].old_end <= 2 * CONTEXT_LINES:
                groups[-1].append(region)
            else:
                groups.append([region])
        return [self._hunk(group) for group in groups]

    def _hunk(self, group: Sequence[Region]) -> Hunk:
        first, last = group[0], group[-1]
        before = min(CONTEXT_LINES, first.old_start)
        after = min(CONTEXT_LINES, len(self.old) - last.old_end)
        return Hunk(
            tuple(group), first.old_start - before, last.old_end + after, first.new_start - before, last.new_end + after
        )

    def lines(self, hunk: Hunk) -> Iterator[tuple[Literal[" ", "-", "+"], int, bytes]]:
        """Yield a hunk's lines: the sign, the line's number from 1 (in the new text for ` ` and `+`), its bytes."""
        at_old, at_new = hunk.old_start, hunk.new_start
        for region in hunk.regions:
            while at_old < region.old_start:
                yield " ", at_new + 1, self.old[at_old]
                at_old, at_new = at_old + 1, at_new + 1
            for index in range(region.old_start, region.old_end):
                yield "-", index + 1, self.old[index]
            for index in range(region.new_start, region.new_end):
                yield "+", index + 1, self.new[index]
            at_old, at_new = region.old_end, region.new_end
        while at_old < hunk.old_end:
            yield " ", at_new + 1, self.old[at_old]
            at_old, at_new = at_old + 1, at_new + 1


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One Change for review; for a renamed file, two: `source` is what was deleted.

    `text` is None where there are no lines to show, and then `remark` says why or is "". `marks` tells why the file
    runs on the user's machine later; none means that nothing is known to run it.
    """

    change: Change
    source: Change | None = None
    text: TextDiff | None = None
    remark: str = ""
    marks: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        """All Changes that it stands for."""
        return (self.change,) if self.source is None else (self.source, self.change)

    @property
    def word(self) -> str:
        """`added`, `modified`, `deleted` or `renamed`."""
        return "renamed" if self.source is not None else self.change.kind


def diffs(changes: Sequence[Change], blobs: BlobStore, known: Iterable[str] = ()) -> Iterator[FileDiff]:
    """Yield the diff of each Change, in their order; a file that only moved is one diff, at its new place.

    `known` are the paths that stand there besides, for the marks. Only the run's folder is read, never the user's.
    """
    sources = _renames(changes)
    moved = {source.path for source in sources.values()}
    marks = marks_of(changes, known)
    for change in changes:
        if change.kind == "deleted" and change.path in moved:
            continue
        source = sources.get(change.path)
        text, remark = (None, "") if source is not None else text_of(change, blobs)
        yield FileDiff(change, source, text, remark, marks.get(change.path, ()))


def text_of(change: Change, blobs: BlobStore) -> tuple[TextDiff | None, str]:
    """Return the lines of a Change, or None and why there are none to show."""
    before = change.before if change.before is not None and change.before.entry == "file" else None
    after = change.after if change.after is not None and change.after.entry == "file" else None
    if change.collapsed or (before is None and after is None):
        return None, ""
    if before is not None and after is not None and before.sha256 == after.sha256:
        return None, ""
    contents = []
    for state, which in ((before, "old"), (after, "new")):
        content, remark = _lines(state, blobs, which)
        if content is None:
            return None, remark
        contents.append(content)
    old, new = contents
    return TextDiff(tuple(old), tuple(new), tuple(regions(old, new))), ""


def _lines(state: State | None, blobs: BlobStore, which: str) -> tuple[list[bytes] | None, str]:
    if state is None:
        return [], ""
    if state.size > MAX_TEXT_BYTES:
        return None, "too big to show"
    if not state.sha256 or state.sha256 not in blobs:
        return None, f"its {which} content is not at hand"
    try:
        data = blobs.read(state.sha256)
    except (InputError, OSError) as error:
        return None, str(error)
    return (None, "binary") if b"\0" in data else (split_lines(data), "")


def _renames(changes: Sequence[Change]) -> dict[str, Change]:
    """Return, for each added file whose content was deleted elsewhere, what was deleted; each is used once."""
    gone: dict[str, list[Change]] = {}
    for change in changes:
        if change.kind == "deleted" and change.entry == "file" and change.size and not change.blocked:
            gone.setdefault(change.sha256, []).append(change)
    found: dict[str, Change] = {}
    for change in changes:
        candidates = gone.get(change.sha256, []) if change.kind == "added" and not change.blocked else []
        if candidates and change.entry == "file" and not change.collapsed:
            name = change.path.rpartition("/")[2]
            best = next((c for c in candidates if c.path.rpartition("/")[2] == name), candidates[0])
            candidates.remove(best)
            found[change.path] = best
    return found


def _span(start: int, end: int) -> str:
    """Return a range of lines as a unified diff writes it; an empty one names the line before it."""
    count = end - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"
