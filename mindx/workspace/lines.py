"""Lines: where two texts differ. Bounded in time, whatever the texts are: they come from inside.

Lines that occur once in both texts are anchors (Bram Cohen's patience diff); between anchors the shortest edit is
sought (E. Myers, "An O(ND) difference algorithm", 1986), up to a limit, beyond which a stretch counts as replaced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

MAX_EDITS = 400  # the time and memory of one search grow with its square
MAX_WORK = 1_000_000  # diagonals of all searches of one comparison: about half a second
MAX_DEPTH = 16


class Region(NamedTuple):
    """Lines `old_start` to `old_end` (exclusive, from 0) of the old text stand as these lines in the new one."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines with their line feeds; only a line feed ends a line."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def regions(old: Sequence[bytes], new: Sequence[bytes]) -> list[Region]:
    """Return the stretches that differ, in order, none touching the next."""
    kept: list[tuple[int, int, int]] = []  # old start, new start, length of what stays
    stack = [(Region(0, len(old), 0, len(new)), 0)]
    work = MAX_WORK
    while stack:
        part, depth = stack.pop()
        part, same = _trim(old, new, part)
        kept += same
        if part.old_start == part.old_end or part.new_start == part.new_end:
            continue
        anchors = _anchors(old, new, part) if depth < MAX_DEPTH else []
        if not anchors:
            found, used = _shortest(old, new, part, work)
            kept += found
            work -= used
            continue
        at_old, at_new = part.old_start, part.new_start
        for anchor_old, anchor_new in [*anchors, (part.old_end, part.new_end)]:
            if (at_old, at_new) != (anchor_old, anchor_new):
                stack.append((Region(at_old, anchor_old, at_new, anchor_new), depth + 1))
            at_old, at_new = anchor_old + 1, anchor_new + 1
        kept += [(anchor_old, anchor_new, 1) for anchor_old, anchor_new in anchors]
    return _between(sorted(kept), len(old), len(new))


def _trim(old: Sequence[bytes], new: Sequence[bytes], part: Region) -> tuple[Region, list[tuple[int, int, int]]]:
    """Return the part without what its ends have in common, and that."""
    a, a_end, b, b_end = part
    while a < a_end and b < b_end and old[a] == new[b]:
        a, b = a + 1, b + 1
    head = a - part.old_start
    while a < a_end and b < b_end and old[a_end - 1] == new[b_end - 1]:
        a_end, b_end = a_end - 1, b_end - 1
    tail = part.old_end - a_end
    same = [(part.old_start, part.new_start, head)] if head else []
    return Region(a, a_end, b, b_end), same + ([(a_end, b_end, tail)] if tail else [])


def _anchors(old: Sequence[bytes], new: Sequence[bytes], part: Region) -> list[tuple[int, int]]:
    """Return the longest rising chain of lines that occur exactly once in both parts."""
    places: dict[bytes, list[int]] = {}
    for index in range(part.old_start, part.old_end):
        places.setdefault(old[index], [0, 0, -1, -1])[0] += 1
        places[old[index]][2] = index
    for index in range(part.new_start, part.new_end):
        if old_place := places.get(new[index]):
            old_place[1] += 1
            old_place[3] = index
    pairs = sorted((place[2], place[3]) for place in places.values() if place[0] == place[1] == 1)
    tails: list[int] = []
    ends: list[int] = []
    back: list[int] = []
    for number, (_, at_new) in enumerate(pairs):
        length = bisect_left(tails, at_new)
        tails[length : length + 1] = [at_new]
        ends[length : length + 1] = [number]
        back.append(ends[length - 1] if length else -1)
    chain: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chain.append(pairs[number])
        number = back[number]
    return chain[::-1]


def _shortest(
    old: Sequence[bytes], new: Sequence[bytes], part: Region, work: int
) -> tuple[list[tuple[int, int, int]], int]:
    """Return the single lines that stay in a shortest edit, none if it takes too many edits; and the work done."""
    rows, columns = part.old_end - part.old_start, part.new_end - part.new_start
    furthest = {1: 0}
    steps: list[dict[int, int]] = []
    used = 0
    for edits in range(min(rows + columns, MAX_EDITS) + 1):
        steps.append(dict(furthest))
        used += edits + 1
        if used > work:
            break
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1])
            row = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
            column = row - diagonal
            while row < rows and column < columns and old[part.old_start + row] == new[part.new_start + column]:
                row, column = row + 1, column + 1
            furthest[diagonal] = row
            if row >= rows and column >= columns:
                return _walk_back(steps, rows, columns, part), used
    return [], used


def _walk_back(steps: list[dict[int, int]], row: int, column: int, part: Region) -> list[tuple[int, int, int]]:
    kept: list[tuple[int, int, int]] = []
    for edits in range(len(steps) - 1, -1, -1):
        furthest, diagonal = steps[edits], row - column
        down = diagonal == -edits or (diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1])
        before = diagonal + 1 if down else diagonal - 1
        start = furthest.get(before, 0)
        start_column = start - before
        while row > max(start, 0) and column > max(start_column, 0):
            row, column = row - 1, column - 1
            kept.append((part.old_start + row, part.new_start + column, 1))
        row, column = start, start_column
    return kept


def _between(kept: list[tuple[int, int, int]], old_length: int, new_length: int) -> list[Region]:
    found: list[Region] = []
    at_old = at_new = 0
    for old_start, new_start, length in [*kept, (old_length, new_length, 0)]:
        if at_old < old_start or at_new < new_start:
            found.append(Region(at_old, old_start, at_new, new_start))
        at_old, at_new = old_start + length, new_start + length
    return found
