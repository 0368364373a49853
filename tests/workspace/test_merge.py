"""Merge: the plan's lines and the user's, joined where they stay apart."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindx.errors import Phase
from mindx.workspace.apply import perform, undo
from mindx.workspace.folder import opened
from mindx.workspace.lines import Region
from mindx.workspace.merge import merge
from mindx.workspace.take import hold_back, look_at_mine, merged_step, merged_steps
from tests.workspace.support import Worked, fill, listing, put, work

BASE = [b"%d\n" % number for number in range(20)]


def edited(**lines: str | None) -> list[bytes]:
    """Return BASE with lines replaced (`n3="x"`), or removed (None)."""
    new = {int(key[1:]): value for key, value in lines.items()}
    replaced = [new.get(number, line) for number, line in enumerate(BASE)]
    return [line if isinstance(line, bytes) else line.encode() + b"\n" for line in replaced if line is not None]


def test_edits_that_stay_apart_are_joined() -> None:
    found = merge(BASE, edited(n3="plan", n15=None), edited(n9="mine"))
    assert found.standing == ("free", "free")
    assert found.take(found.plan_regions) == edited(n3="plan", n15=None, n9="mine")
    assert found.take(found.plan_regions[:1]) == edited(n3="plan", n9="mine")
    assert found.take([]) == edited(n9="mine")


def test_edits_of_the_same_or_neighbouring_lines_are_in_conflict() -> None:
    for mine in (edited(n3="mine"), edited(n4="mine"), edited(n2=None)):
        found = merge(BASE, edited(n3="plan", n12="other"), mine)
        assert found.standing == ("conflict", "free")
        with pytest.raises(ValueError, match="conflict"):
            found.take(found.plan_regions)
    assert found.take(found.plan_regions[1:]) == edited(n2=None, n12="other")


def test_the_same_edit_on_both_sides_is_there_already() -> None:
    found = merge(BASE, edited(n3="same", n9="plan"), edited(n3="same"))
    assert found.standing == ("already", "free")
    assert found.take(found.plan_regions) == edited(n3="same", n9="plan")


_EDIT = st.dictionaries(st.integers(0, 9), st.one_of(st.none(), st.sampled_from(["x\n", "y\n", "x\ny\n"])), max_size=3)


@settings(max_examples=100, deadline=None)
@given(_EDIT, _EDIT)
def test_a_clean_merge_is_the_one_that_git_makes(
    by_plan: dict[int, str | None], by_user: dict[int, str | None]
) -> None:
    base = [b"%d\n" % number for number in range(10)]

    def version(edit: dict[int, str | None]) -> list[bytes]:
        text = "".join(edit.get(n, line.decode()) or "" for n, line in enumerate(base))
        return [line.encode() + b"\n" for line in text.split("\n")[:-1]]

    plan, mine = version(by_plan), version(by_user)
    found = merge(base, plan, mine)
    if found.conflicts:
        return
    with tempfile.TemporaryDirectory() as name:
        fill(Path(name), {"base": b"".join(base), "plan": b"".join(plan), "mine": b"".join(mine)})
        done = subprocess.run(
            ["git", "merge-file", "-p", "mine", "base", "plan"], cwd=name, capture_output=True, check=False
        )
    assert done.returncode == 0, "git sees a conflict that we do not"
    assert b"".join(found.take(found.plan_regions)) == done.stdout


TEXT = b"".join(BASE)


def plan(tree: Any) -> None:
    put(tree, "text", b"".join(edited(n3="plan", n15="plan")), 0o644)
    put(tree, "new", "new\n")


@pytest.fixture
def worked(tmp_path: Path) -> Worked:
    fill(tmp_path / "w", {"text": TEXT})
    return work(tmp_path / "w", tmp_path / "run", plan)


def test_changes_are_merged_with_the_users_edits_and_undone(worked: Worked, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    (folder / "text").write_bytes(b"".join(edited(n9="mine")))
    (folder / "text").chmod(0o600)
    before = listing(folder)
    taken = merged_steps(worked.changes, worked.run.blobs, folder)
    assert perform(taken.steps, worked.run, folder).ok
    assert listing(folder) == {
        "text": (0o600, b"".join(edited(n3="plan", n9="mine", n15="plan"))),
        "new": (0o644, b"new\n"),
    }
    assert undo(worked.run).ok
    assert listing(folder) == before


def test_a_conflict_is_told_with_its_line(worked: Worked, tmp_path: Path) -> None:
    (tmp_path / "w" / "text").write_bytes(b"".join(edited(n15="mine")))
    taken = merged_steps(worked.changes, worked.run.blobs, tmp_path / "w")
    assert [(item.path, "at line 16" in item.reason) for item in taken.conflicts] == [("text", True)]


def test_one_hunk_alone(worked: Worked, tmp_path: Path) -> None:
    change = worked.by_path["text"]
    with opened(tmp_path / "w", Phase.APPLY) as root:
        mine = look_at_mine(change, worked.run.blobs, root)
    assert mine is not None
    assert merged_step(change, mine, [], worked.run.blobs) is None
    step = merged_step(change, mine, [Region(15, 16, 15, 16)], worked.run.blobs)
    assert step is not None
    assert perform([step], worked.run, tmp_path / "w").applied == ("text",)
    assert (tmp_path / "w" / "text").read_bytes() == b"".join(edited(n15="plan"))


def test_an_edit_after_the_look_is_a_conflict(worked: Worked, tmp_path: Path) -> None:
    taken = merged_steps(worked.changes, worked.run.blobs, tmp_path / "w")
    (tmp_path / "w" / "text").write_bytes(b"".join(edited(n9="mine")))
    report = perform(taken.steps, worked.run, tmp_path / "w")
    assert [item.path for item in report.conflicts] == ["text"]
    assert not (tmp_path / "w" / "new").exists()


def test_files_that_run_on_the_machine_are_held_back(tmp_path: Path) -> None:
    def plan_marked(tree: Any) -> None:
        put(tree, "Makefile", "all:\n")
        put(tree, ".vscode/tasks.json", "{}")
        put(tree, "src/a.py", "")

    worked = work(None, tmp_path / "run", plan_marked)
    free, held = hold_back(worked.changes)
    assert [item.path for item in held] == [".vscode/tasks.json", "Makefile"]
    assert [change.path for change in free] == ["src", "src/a.py"]  # no empty .vscode either
    assert [change.path for change in hold_back(worked.changes, [".vscode"])[0]][:2] == [
        ".vscode",
        ".vscode/tasks.json",
    ]
    assert [item.path for item in hold_back(worked.changes, ["./Makefile"])[1]] == [".vscode/tasks.json"]
    assert [item.path for item in hold_back(worked.changes, [".vscode/"])[1]] == ["Makefile"]
    assert hold_back(worked.changes, ["."])[1] == []
