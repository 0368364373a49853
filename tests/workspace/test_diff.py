"""Diffs: correct for all texts, bounded in time, renames, and patches that git takes."""

from __future__ import annotations

import itertools
import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindx.workspace.apply import apply
from mindx.workspace.diff import TextDiff, diffs
from mindx.workspace.lines import Region, regions, split_lines
from mindx.workspace.patch import patch, quoted
from tests.workspace.support import fill, listing, put, work

_LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"\n", b"e"]), max_size=14)


def rebuilt(old: list[bytes], new: list[bytes], found: list[Region]) -> list[bytes]:
    lines: list[bytes] = []
    at = 0
    for region in found:
        lines += old[at : region.old_start] + new[region.new_start : region.new_end]
        at = region.old_end
    return lines + old[at:]


@given(_LINES, _LINES)
def test_regions_turn_the_old_text_into_the_new(old: list[bytes], new: list[bytes]) -> None:
    found = regions(old, new)
    assert rebuilt(old, new, found) == new
    for one, following in itertools.pairwise(found):
        assert one.old_end < following.old_start
        assert one.new_end < following.new_start
    assert all(region.old_start < region.old_end or region.new_start < region.new_end for region in found)


@given(st.binary(max_size=60))
def test_lines_lose_nothing(data: bytes) -> None:
    lines = split_lines(data)
    assert b"".join(lines) == data
    assert all(line.count(b"\n") <= 1 for line in lines)


def test_one_line_in_many() -> None:
    old = [b"%d\n" % number for number in range(1000)]
    new = [*old[:500], b"x\n", *old[501:]]
    assert regions(old, new) == [Region(500, 501, 500, 501)]


def test_hostile_texts_take_no_time() -> None:
    seeded = random.Random(1)
    count = 50_000
    rising = [b"%d\n" % number for number in range(count)]
    few = [[b"%d\n" % seeded.randrange(300) for _ in range(count)] for _ in range(2)]
    began_s = time.process_time()
    for old, new in [(rising, rising[::-1]), (rising, seeded.sample(rising, count)), (few[0], few[1]),
                     ([b"a\n"] * count + [b"b\n"], [b"b\n"] * count + [b"a\n"])]:  # fmt: skip
        assert rebuilt(old, new, regions(old, new)) == new
    assert time.process_time() - began_s < 20  # without bounds it takes minutes


def test_hunks_join_what_is_near_and_split_again() -> None:
    old = [b"%d\n" % number for number in range(40)]
    new = list(old)
    for index in (5, 9, 30):
        new[index] = b"new\n"
    text = TextDiff(tuple(old), tuple(new), tuple(regions(old, new)))
    first, second = text.hunks()
    assert (first.heading, second.heading) == ("@@ -3,11 +3,11 @@", "@@ -28,7 +28,7 @@")
    assert [part.heading for part in first.split()] == ["@@ -3,7 +3,7 @@", "@@ -7,7 +7,7 @@"]
    assert [sign for sign, _, _ in text.lines(first.split()[0])] == [" ", " ", " ", "-", "+", " ", " ", " "]


def plan(tree: Any) -> None:
    put(tree, "text", "one\n2\nthree\n", 0o644)
    put(tree, "no newline", "a\nb", 0o644)
    put(tree, "run", "#!/bin/sh\n", 0o755)
    tree.remove("/workspace/moved.py")
    put(tree, "new dir/moved.py", "same\n" * 9, 0o644)
    tree.remove("/workspace/gone")
    put(tree, "fresh.sh", "echo\n", 0o755)
    put(tree, 'odd "name"\t\u00e9', "x\n", 0o644)
    put(tree, "empty", "", 0o644)
    put(tree, "bin", b"\0\1", 0o644)
    tree.link("/workspace/link", "/etc/passwd")


FILES: dict[str, str | bytes] = {
    "text": "one\ntwo\nthree\n", "no newline": "a\nb\n", "run": "#!/bin/sh\n", "moved.py": "same\n" * 9, "gone": "x\n",
}  # fmt: skip


def test_a_patch_does_what_apply_does(tmp_path: Path) -> None:
    fill(tmp_path / "w", FILES)
    fill(tmp_path / "git", FILES)
    worked = work(tmp_path / "w", tmp_path / "run", plan)
    text = b"".join(patch(diffs(worked.changes, worked.run.blobs)))
    subprocess.run(["git", "apply", "--whitespace=nowarn"], cwd=tmp_path / "git", input=text, check=True)
    assert apply(worked.changes, worked.run, tmp_path / "w").ok
    expected = listing(tmp_path / "w")
    del expected["bin"]
    assert listing(tmp_path / "git") == expected


def test_what_a_patch_cannot_say_is_a_remark(tmp_path: Path) -> None:
    fill(tmp_path / "w", FILES)
    worked = work(tmp_path / "w", tmp_path / "run", plan)
    lines = b"".join(patch(diffs(worked.changes, worked.run.blobs))).split(b"\n")
    assert any(line.startswith(b"# bin: file added, binary: 2 bytes") for line in lines)
    assert any(line.startswith(b"# link: link to /etc/passwd added, not applicable") for line in lines)


def test_renames_are_found_once_each(tmp_path: Path) -> None:
    fill(tmp_path / "w", {"a": "same", "d/b": "same", "c": "other"})

    def move(tree: Any) -> None:
        for path in ("a", "d/b", "c"):
            tree.remove(f"/workspace/{path}")
        put(tree, "e/b", "same")
        put(tree, "f", "same")
        put(tree, "g", "same")

    worked = work(tmp_path / "w", tmp_path / "run", move)
    found = {d.change.path: d.source.path for d in diffs(worked.changes, worked.run.blobs) if d.source}
    assert found == {"e/b": "d/b", "f": "a"}
    words = {d.change.path: d.word for d in diffs(worked.changes, worked.run.blobs)}
    assert (words["g"], words["c"]) == ("added", "deleted")


def test_contents_that_are_not_at_hand_are_said(tmp_path: Path) -> None:
    fill(tmp_path / "w", {"a": "old"})

    def change(tree: Any) -> None:
        put(tree, "a", "new")
        put(tree, "big", b"x" * (1024 * 1024 + 1))
        (tmp_path / "w" / "a").write_text("the user's own")

    worked = work(tmp_path / "w", tmp_path / "run", change)
    told = {d.change.path: d.remark for d in diffs(worked.changes, worked.run.blobs)}
    assert told == {"a": "its old content is not at hand", "big": "too big to show"}


@pytest.mark.parametrize(
    ("name", "text"),
    [(b"a b", b"a b"), (b'"', b'"\\""'), (b"\n\t", b'"\\n\\t"'), (b"\xff", b'"\\377"'), (b"\\", b'"\\\\"'),
     ("\u00e9".encode(), "\u00e9".encode()), ("\u202e".encode(), b'"\\342\\200\\256"')],
)  # fmt: skip
def test_names_are_quoted_as_git_quotes_them(name: bytes, text: bytes) -> None:
    assert quoted(name) == text


@settings(max_examples=40, deadline=None)
@given(_LINES, _LINES)
def test_git_takes_our_hunks(old: list[bytes], new: list[bytes]) -> None:
    # Only a last line may lack its line feed.
    old_text, new_text = (b"".join(lines).replace(b"ea", b"e\na").replace(b"eb", b"e\nb") for lines in (old, new))
    if old_text == new_text or not old_text or not new_text:
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder / "w", {"f": old_text})
        worked = work(folder / "w", folder / "run", lambda tree: put(tree, "f", new_text))
        text = b"".join(patch(diffs(worked.changes, worked.run.blobs)))
        subprocess.run(["git", "apply", "--whitespace=nowarn"], cwd=folder / "w", input=text, check=True)
        assert (folder / "w" / "f").read_bytes() == new_text
