"""Apply: all or nothing, inside the folder only, never over the user's own work, and undone at any moment."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mindx.errors import InputError, WorkspaceError
from mindx.workspace import rename, transaction
from mindx.workspace.apply import JOURNAL_FOLDER, apply, undo
from mindx.workspace.changes import Change, State
from mindx.workspace.handle import STAGING_PREFIX
from mindx.workspace.journal import journals
from mindx.workspace.store import ChangesFolder
from tests.workspace.support import Worked, fill, listing, put, work

FILES: dict[str, str | bytes] = {
    "edit.txt": "one\n", "gone.txt": "bye\n", "d/keep": "k", "d/gone": "g", "old/x": "x", "kind/a": "a", "file": "f",
}  # fmt: skip


def plan(tree: Any) -> None:
    put(tree, "edit.txt", "two\n")
    for path in ("gone.txt", "d/gone", "old/x", "kind/a", "file"):
        tree.remove(f"/workspace/{path}")
    root = tree.look("/workspace")
    del root.children["old"]
    del root.children["kind"]
    put(tree, "kind", "now a file")
    put(tree, "file/inner", "now a folder")
    put(tree, "new/deep/f.sh", "#!/bin/sh\n", 0o777)
    put(tree, "-rf", "dash")
    put(tree, "line\nbreak", "newline")
    put(tree, os.fsdecode(b"caf\xe9"), "latin")


@pytest.fixture
def worked(tmp_path: Path) -> Worked:
    fill(tmp_path / "w", FILES)
    return work(tmp_path / "w", tmp_path / "run", plan)


def expected() -> dict[str, Any]:
    return {
        "edit.txt": (0o644, b"two\n"), "d": 0o755, "d/keep": (0o644, b"k"), "kind": (0o644, b"now a file"),
        "file": 0o755, "file/inner": (0o644, b"now a folder"), "new": 0o755, "new/deep": 0o755,
        "new/deep/f.sh": (0o755, b"#!/bin/sh\n"), "-rf": (0o644, b"dash"), "line\nbreak": (0o644, b"newline"),
        os.fsdecode(b"caf\xe9"): (0o644, b"latin"),
    }  # fmt: skip


def test_everything_applies_and_undoes(worked: Worked, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    before = listing(folder)
    report = apply(worked.changes, worked.run, folder)
    assert report.ok
    assert set(report.applied) == {change.path for change in worked.changes}
    assert listing(folder) == expected()
    again = apply(worked.changes, worked.run, folder)
    assert again.ok
    assert (again.applied, len(again.already)) == ((), len(worked.changes))
    assert undo(worked.run).ok
    assert listing(folder) == before
    with pytest.raises(InputError) as caught:
        undo(worked.run)
    assert caught.value.code == "undo_nothing"
    assert apply(worked.changes, worked.run, folder).ok
    assert listing(folder) == expected()


def test_another_folder_with_the_same_files(worked: Worked, tmp_path: Path) -> None:
    fill(tmp_path / "clone", FILES)
    (tmp_path / "clone" / "edit.txt").chmod(0o600)
    assert apply(worked.changes, worked.run, tmp_path / "clone").ok
    assert listing(tmp_path / "clone") == expected() | {"edit.txt": (0o600, b"two\n")}
    assert listing(tmp_path / "w")["edit.txt"] == (0o644, b"one\n")


@pytest.mark.parametrize(
    ("path", "text"),
    [("edit.txt", "mine\n"), ("gone.txt", "mine"), ("-rf", "mine"), ("kind/b", "mine"), ("edit.txt", None)],
)
def test_one_conflict_and_nothing_is_applied(worked: Worked, tmp_path: Path, path: str, text: str | None) -> None:
    folder = tmp_path / "w"
    if text is None:
        (folder / path).unlink()
    else:
        (folder / path).write_text(text)
    before = listing(folder)
    report = apply(worked.changes, worked.run, folder)
    assert not report.ok
    assert [conflict.path for conflict in report.conflicts] == [path.partition("/")[0]]
    assert report.applied == ()
    assert listing(folder) == before
    assert journals(worked.run.path / JOURNAL_FOLDER) == []


def test_a_mode_that_changed_on_the_host_is_a_conflict(worked: Worked, tmp_path: Path) -> None:
    (tmp_path / "w" / "edit.txt").chmod(0o755)
    assert [item.path for item in apply(worked.changes, worked.run, tmp_path / "w").conflicts] == ["edit.txt"]


def test_chosen_paths_bring_their_folders(worked: Worked, tmp_path: Path) -> None:
    report = apply(worked.changes, worked.run, tmp_path / "w", ["new/deep/f.sh", "file", "d/"])
    assert report.applied == ("d/gone", "file", "file/inner", "new", "new/deep", "new/deep/f.sh")
    assert (tmp_path / "w" / "edit.txt").read_text() == "one\n"
    with pytest.raises(InputError) as caught:
        apply(worked.changes, worked.run, tmp_path / "w", ["nothing-here"])
    assert caught.value.code == "change_unknown"


def test_a_folder_that_holds_more_on_the_host_is_kept(worked: Worked, tmp_path: Path) -> None:
    (tmp_path / "w" / "old" / "build.log").write_text("mine")
    report = apply(worked.changes, worked.run, tmp_path / "w")
    assert report.kept == ("old",)
    assert os.listdir(tmp_path / "w" / "old") == ["build.log"]
    assert undo(worked.run).ok


def test_undo_refuses_what_changed_since(worked: Worked, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    apply(worked.changes, worked.run, folder)
    (folder / "edit.txt").write_text("three\n")
    before = listing(folder)
    report = undo(worked.run)
    assert [item.path for item in report.conflicts] == ["edit.txt"]
    assert listing(folder) == before
    (folder / "edit.txt").write_text("two\n")
    assert undo(worked.run).ok


def test_applies_are_undone_one_after_the_other(worked: Worked, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    before = listing(folder)
    apply(worked.changes, worked.run, folder, ["edit.txt"])
    apply(worked.changes, worked.run, folder, ["-rf"])
    assert undo(worked.run).applied == ("-rf",)
    assert undo(worked.run).applied == ("edit.txt",)
    assert listing(folder) == before


def one(path: str, data: bytes, run: ChangesFolder, before: State | None = None, mode: int = 0o644) -> Change:
    run.path.mkdir(exist_ok=True)
    digest = run.blobs.add([data])
    return Change(path, before, State("file", mode, len(data), digest), stored=True)


def test_nothing_goes_through_a_link(tmp_path: Path) -> None:
    run, folder, outside = ChangesFolder(tmp_path / "run"), tmp_path / "w", tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("safe")
    folder.mkdir()
    (folder / "d").symlink_to(outside)
    (folder / "l").symlink_to(outside / "f")
    for path in ("d/f", "d/new", "l"):
        report = apply([one(path, b"evil", run)], run, folder)
        assert [item.path for item in report.conflicts] == [path]
    assert listing(outside) == {"f": (0o644, b"safe")}


def test_a_link_as_target_and_a_system_folder_are_refused(tmp_path: Path) -> None:
    run = ChangesFolder(tmp_path / "run")
    change = one("f", b"x", run)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for target, code in {tmp_path / "link": "workspace_link", Path("/etc"): "workspace_system"}.items():
        with pytest.raises(WorkspaceError) as caught:
            apply([change], run, target)
        assert caught.value.code == code


def test_git_is_never_written(tmp_path: Path) -> None:
    run, folder = ChangesFolder(tmp_path / "run"), tmp_path / "w"
    (folder / ".git" / "hooks").mkdir(parents=True)
    for target, path in ((folder, ".GIT/hooks/x"), (folder / ".git", "hooks/x"), (folder / ".git" / "hooks", "x")):
        with pytest.raises(WorkspaceError) as caught:
            apply([one(path, b"x", run)], run, target)  # not even if a Change says nothing against it
        assert caught.value.code == "apply_history"
    assert listing(folder) == {".git": 0o755, ".git/hooks": 0o755}


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1777, 0o6711, 0o777, 0o700])
def test_modes_are_0644_or_0755(tmp_path: Path, mode: int) -> None:
    run, folder = ChangesFolder(tmp_path / "run"), tmp_path / "w"
    folder.mkdir()
    assert apply([one("f", b"x", run, mode=mode)], run, folder).ok
    assert stat.S_IMODE((folder / "f").stat().st_mode) == 0o755


def test_links_of_the_workspace_can_be_removed_and_replaced(tmp_path: Path) -> None:
    fill(tmp_path / "w", {"a": "a", "b": "b"})
    (tmp_path / "w" / "gone").symlink_to("a")
    (tmp_path / "w" / "file").symlink_to("a")

    def plan_links(tree: Any) -> None:
        tree.remove("/workspace/gone")
        tree.remove("/workspace/file")
        put(tree, "file", "plain")

    worked = work(tmp_path / "w", tmp_path / "run", plan_links)
    before = listing(tmp_path / "w")
    assert apply(worked.changes, worked.run, tmp_path / "w").ok
    assert listing(tmp_path / "w") == {"a": (0o644, b"a"), "b": (0o644, b"b"), "file": (0o644, b"plain")}
    assert undo(worked.run).ok
    assert listing(tmp_path / "w") == before


def test_what_cannot_be_applied_is_listed(tmp_path: Path) -> None:
    def plan_odd(tree: Any) -> None:
        tree.link("/workspace/link", "/etc/passwd")
        put(tree, ".git/config", "[core]")
        put(tree, "__pycache__/a.pyc", "x")
        put(tree, "big", b"x" * 2000)
        put(tree, "ok", "fine")

    worked = work(None, tmp_path / "run", plan_odd, cap_bytes=1000)
    (tmp_path / "to").mkdir()
    report = apply(worked.changes, worked.run, tmp_path / "to")
    assert report.ok
    assert {item.path for item in report.skipped} == {".git", ".git/config", "__pycache__", "big", "link"}
    assert listing(tmp_path / "to") == {"ok": (0o644, b"fine")}


def test_an_altered_content_is_refused_before_anything_is_seen(worked: Worked, tmp_path: Path) -> None:
    before = listing(tmp_path / "w")
    worked.run.blobs.path(worked.by_path["new/deep/f.sh"].sha256).write_bytes(b"#!/bin/sh\nevil\n")
    with pytest.raises(InputError) as caught:
        apply(worked.changes, worked.run, tmp_path / "w")
    assert caught.value.code == "content_damaged"
    assert listing(tmp_path / "w") == before
    assert journals(worked.run.path / JOURNAL_FOLDER) == []


def test_a_folder_that_took_the_place_of_the_one_copied_in(worked: Worked, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    identity = (worked.baseline.device, worked.baseline.inode)
    folder.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", folder)
    with pytest.raises(WorkspaceError) as caught:
        apply(worked.changes, worked.run, folder, expected=identity)
    assert caught.value.code == "apply_moved"
    assert apply(worked.changes, worked.run, tmp_path / "moved", expected=identity).ok


def test_undo_never_touches_a_folder_that_took_the_place(worked: Worked, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    assert apply(worked.changes, worked.run, folder).ok
    folder.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", folder)
    with pytest.raises(WorkspaceError) as caught:
        undo(worked.run)
    assert caught.value.code == "apply_moved"
    assert listing(folder) == expected()


def test_undo_brings_back_the_users_own_modes(worked: Worked, tmp_path: Path) -> None:
    for name in ("gone.txt", "edit.txt"):
        (tmp_path / "w" / name).chmod(0o600)
    (tmp_path / "w" / "old").chmod(0o700)
    before = listing(tmp_path / "w")
    assert apply(worked.changes, worked.run, tmp_path / "w").ok
    assert undo(worked.run).ok
    assert listing(tmp_path / "w") == before


def test_a_file_whose_folder_is_missing_is_a_conflict(tmp_path: Path) -> None:
    fill(tmp_path / "w", {"d/keep": "k"})
    worked = work(tmp_path / "w", tmp_path / "run", lambda tree: put(tree, "d/new", "n"))
    (tmp_path / "empty").mkdir()
    report = apply(worked.changes, worked.run, tmp_path / "empty")
    assert [(item.path, item.reason) for item in report.conflicts] == [("d/new", "its folder is not there")]


def test_two_applies_at_once(worked: Worked, tmp_path: Path) -> None:
    handle = os.open(worked.run.path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)  # two readers would do no harm to each other: an apply is none
    try:
        with pytest.raises(WorkspaceError) as caught:
            apply(worked.changes, worked.run, tmp_path / "w")
        assert caught.value.code == "apply_busy"
    finally:
        os.close(handle)


def test_two_runs_do_not_write_to_one_folder_at_once(worked: Worked, tmp_path: Path) -> None:
    handle = os.open(tmp_path / "w", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)  # as another run's apply holds it
    try:
        with pytest.raises(WorkspaceError) as caught:
            apply(worked.changes, worked.run, tmp_path / "w")
        assert (caught.value.code, "this folder" in caught.value.message) == ("apply_busy", True)
    finally:
        os.close(handle)
    assert apply(worked.changes, worked.run, tmp_path / "w").ok
    handle = os.open(tmp_path / "w", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        with pytest.raises(WorkspaceError):
            undo(worked.run)
    finally:
        os.close(handle)
    assert undo(worked.run).ok


@pytest.mark.parametrize("system", ["renameat2", "link", "neither"])
def test_a_name_is_taken_only_when_it_is_free(tmp_path: Path, system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if system != "renameat2":
        monkeypatch.setattr(rename, "renameat2", None)
    if system == "neither":
        monkeypatch.setattr(os, "link", refused)
    (tmp_path / "new").write_text("new")
    (tmp_path / "there").write_text("the user's")
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(FileExistsError):
            rename.rename_new("new", handle, "there", handle)
        rename.rename_new("new", handle, "free", handle)
    finally:
        os.close(handle)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"there": "the user's", "free": "new"}


def test_a_file_that_appears_in_the_last_moment_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "w"
    fill(folder, {"a": "old\n"})
    worked = work(folder, tmp_path / "run", lambda tree: (put(tree, "a", "new\n"), put(tree, "b", "of the plan\n")))
    real = transaction.rename_new

    def late(name: str, source: int, new_name: str, target: int) -> None:
        (folder / "b").write_text("of the user\n")
        real(name, source, new_name, target)

    monkeypatch.setattr(transaction, "rename_new", late)
    report = apply(worked.changes, worked.run, folder)
    assert [item.path for item in report.conflicts] == ["b"]
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a": "old\n", "b": "of the user\n"}


def test_hard_links_of_the_user_are_broken_not_written_through(worked: Worked, tmp_path: Path) -> None:
    os.link(tmp_path / "w" / "edit.txt", tmp_path / "elsewhere")
    assert apply(worked.changes, worked.run, tmp_path / "w").ok
    assert (tmp_path / "elsewhere").read_text() == "one\n"


# A process that is killed at its n-th system call of a kind that changes the folder.
_KILLED = """
import os, signal, sys
from pathlib import Path
left = int(sys.argv[3])
def deadly(real):
    def call(*args, **kwargs):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return call
from mindx.workspace import transaction
from mindx.workspace.apply import apply, undo
from mindx.workspace.store import ChangesFolder
for name in ("rename", "mkdir", "rmdir", "link", "unlink", "fchmod", "symlink"):
    setattr(os, name, deadly(getattr(os, name)))
transaction.rename_new = deadly(transaction.rename_new)
run = ChangesFolder(Path(sys.argv[1]))
report = apply(run.read_changes(), run, Path(sys.argv[2])) if sys.argv[4] == "apply" else undo(run)
assert report.ok
"""


def killed_at(call: int, run: Path, folder: Path, what: str) -> bool:
    """Run apply or undo in a process that dies at that call; False if it came to its end before."""
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(run), str(folder), str(call), what], capture_output=True, check=False
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@pytest.mark.parametrize("what", ["apply", "undo"])
def test_killed_at_any_moment_it_is_taken_up_again(worked: Worked, tmp_path: Path, what: str) -> None:
    # Each kill costs a process of 0.2 s, so every eleventh call has to do; the offset differs between the two.
    folder, run = tmp_path / "w", worked.run.path
    before = listing(folder)
    contents = {path: {before.get(path), expected().get(path)} for path in before.keys() | expected().keys()}
    call, kills = 3 if what == "apply" else 5, 0
    while True:
        if what == "undo":
            assert apply(worked.changes, worked.run, folder).ok
        if not killed_at(call, run, folder, what):
            break
        kills += 1
        now = {path: value for path, value in listing(folder).items() if not path.startswith(STAGING_PREFIX)}
        for path, value in now.items():
            assert value in contents[path] or isinstance(value, int), path  # each file old or new, never mixed
        if call % 2:  # the way back; else a second apply alone must do
            with contextlib.suppress(InputError):  # it was killed after its last step: nothing is left to undo
                undo(worked.run)
            assert listing(folder) in (before, expected())
        assert apply(worked.changes, worked.run, folder).ok
        assert listing(folder) == expected()
        assert undo(worked.run).ok
        assert listing(folder) == before
        call += 11
    assert kills >= 4


@pytest.mark.parametrize("name", ["rename", "rename_new", "link", "fsync", "rmdir", "mkdir"])
def test_a_failure_at_any_call_is_rolled_back(
    worked: Worked, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = listing(tmp_path / "w")
    owner: Any = transaction if name == "rename_new" else os
    real, failed, fail_at = getattr(owner, name), 0, 0
    while True:
        left = fail_at

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left == -1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)
        raised: WorkspaceError | None = None
        try:
            apply(worked.changes, worked.run, tmp_path / "w")
        except WorkspaceError as error:
            raised = error
        finally:
            monkeypatch.setattr(owner, name, real)
        if raised is None and left >= 0:
            break
        if raised is not None:
            failed += 1
            assert (raised.code, raised.exit_code) == ("apply_failed", 2)
            assert "No space left" in raised.message
            assert listing(tmp_path / "w") == before
            assert journals(worked.run.path / JOURNAL_FOLDER) == []
        else:  # it failed where it does no harm: a hard link, or the clean-up at the end
            assert undo(worked.run).ok
            assert listing(tmp_path / "w") == before
            shutil.rmtree(worked.run.path / JOURNAL_FOLDER)
        fail_at += 1
    assert listing(tmp_path / "w") == expected()
    assert failed or name == "link"


def test_a_full_disk_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("a small disk can only be mounted by root")
    try:
        fill(folder, {"a": b"a" * 300_000, "b": b"b" * 300_000})

        def plan_big(tree: Any) -> None:
            put(tree, "a", b"A" * 300_000)
            put(tree, "b", b"B" * 300_000)
            put(tree, "c", b"C" * 300_000)

        worked = work(folder, tmp_path / "run", plan_big)
        before = listing(folder)
        with pytest.raises(WorkspaceError, match="No space left on device"):
            apply(worked.changes, worked.run, folder)
        assert listing(folder) == before
        assert apply(worked.changes, worked.run, folder, ["a"]).ok
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_file_that_the_user_saves_meanwhile_is_not_lost(
    worked: Worked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, real = tmp_path / "w", os.mkdir

    def saving(*args: Any, **kwargs: Any) -> None:  # the first directory is made after the check of all paths
        (folder / "edit.txt").write_text("saved by the user\n")
        real(*args, **kwargs)

    monkeypatch.setattr(os, "mkdir", saving)
    report = apply(worked.changes, worked.run, folder)
    assert [item.path for item in report.conflicts] == ["edit.txt"]
    monkeypatch.undo()
    assert {path: entry for path, entry in listing(folder).items() if path != "edit.txt"} == {
        path: entry for path, entry in _initial(tmp_path).items() if path != "edit.txt"
    }
    assert (folder / "edit.txt").read_text() == "saved by the user\n"


def _initial(tmp_path: Path) -> dict[str, Any]:
    fill(tmp_path / "again", FILES)
    return listing(tmp_path / "again")


@pytest.mark.parametrize("what", ["apply", "undo"])
def test_one_file_killed_at_every_single_call(tmp_path: Path, what: str) -> None:
    folder, old, new = tmp_path / "w", (0o644, b"old"), (0o644, b"new")
    fill(folder, {"f": "old"})
    worked = work(folder, tmp_path / "run", lambda tree: put(tree, "f", "new"))
    call = 0
    while True:
        if what == "undo":
            assert apply(worked.changes, worked.run, folder).ok
        if not killed_at(call, worked.run.path, folder, what):
            break
        assert listing(folder)["f"] in (old, new)
        with contextlib.suppress(InputError):
            undo(worked.run)
        assert listing(folder) == {"f": old}
        call += 1
    assert call >= 6
    assert listing(folder) == {"f": new if what == "apply" else old}


def test_rolling_back_needs_no_room(worked: Worked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, real_rename, real_write, full = listing(tmp_path / "w"), transaction.rename_new, os.write, False

    def rename_new(name: str, source: int, new_name: str, target: int) -> None:
        nonlocal full
        if new_name == "line\nbreak":  # nearly the last step: most is done
            full = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real_rename(name, source, new_name, target)

    def write(handle: int, data: Any) -> int:
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real_write(handle, data)

    monkeypatch.setattr(transaction, "rename_new", rename_new)
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(WorkspaceError, match="No space left"):
        apply(worked.changes, worked.run, tmp_path / "w")
    monkeypatch.undo()
    assert full
    assert listing(tmp_path / "w") == before
