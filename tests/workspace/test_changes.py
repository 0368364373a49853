"""Changes: every kind of difference, collapsed folders, what cannot be applied, and names of any bytes."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from mindx.errors import SandboxLostError
from mindx.sandbox.base import ManifestEntry
from mindx.workspace.baseline import Baseline
from mindx.workspace.changes import Change, compare, is_history


def file(path: str, digest: str = "1", mode: int = 0o644, size: int = 1) -> ManifestEntry:
    return ManifestEntry(path, "file", mode, size, digest * 64 if digest else "")


def folder(path: str, mode: int = 0o755) -> ManifestEntry:
    return ManifestEntry(path, "directory", mode, 0)


def link(path: str, target: str) -> ManifestEntry:
    return ManifestEntry(path, "link", 0o777, len(target), "", target)


def base(*entries: ManifestEntry) -> Baseline:
    return Baseline({entry.path: entry for entry in entries})


def told(baseline: Baseline, *now: ManifestEntry) -> list[tuple[str, str, str]]:
    return [(change.path, change.kind, change.entry) for change in compare(baseline, now)]


def test_nothing_changed() -> None:
    entries = (folder("d"), file("d/f"), link("l", "d"))
    assert told(base(*entries), *entries) == []


def test_every_kind() -> None:
    baseline = base(folder("d"), file("d/gone"), file("d/same"), file("edit"), file("run"), folder("old"))
    now = [folder("d"), file("d/same"), file("edit", "2"), file("run", mode=0o755), file("new"), folder("made")]
    assert told(baseline, *now) == [
        ("d/gone", "deleted", "file"),
        ("edit", "modified", "file"),
        ("made", "added", "directory"),
        ("new", "added", "file"),
        ("old", "deleted", "directory"),
        ("run", "modified", "file"),
    ]


def test_a_folder_stands_before_what_it_holds() -> None:
    now = [folder("a"), file("a-b"), file("a/z"), file("a.txt")]
    assert [change.path for change in compare(base(), now)] == ["a", "a/z", "a-b", "a.txt"]


def test_one_kind_becomes_another() -> None:
    baseline = base(file("x"), folder("y"), file("y/f"))
    now = [folder("x"), file("x/f"), file("y")]
    changes = {change.path: change for change in compare(baseline, now)}
    assert changes["x"].kind == "modified"
    assert changes["x"].before is not None
    assert changes["x"].before.entry == "file"
    assert changes["x"].entry == "directory"
    assert changes["y"].entry == "file"
    assert changes["y/f"].kind == "deleted"
    assert not any(change.blocked for change in changes.values())


def test_setgid_of_folders_is_the_sandboxs_own() -> None:
    assert told(base(folder("d", 0o775)), folder("d", 0o2775)) == []
    assert [change.blocked for change in compare(base(folder("d")), [folder("d", 0o700)])] == [
        "modes of folders are not taken over"
    ]


def test_virtual_environments_and_caches_are_one_line() -> None:
    now = [
        folder("env"), file("env/pyvenv.cfg", size=10), folder("env/bin"), link("env/bin/python", "/usr/bin/python3"),
        file("env/bin/pip", size=5), folder("src"), folder("src/__pycache__"), file("src/__pycache__/a.pyc", size=7),
        file("src/a.py"), folder("__pycache__x"), file("__pycache__x/f"),
    ]  # fmt: skip
    changes = compare(base(), now)
    lines = [(c.path, c.collapsed, c.files, c.size, c.has_content) for c in changes]
    assert lines == [
        ("__pycache__x", "", 0, 0, False),
        ("__pycache__x/f", "", 0, 1, True),
        ("env", "virtual environment", 2, 15, False),
        ("src", "", 0, 0, False),
        ("src/__pycache__", "cache", 1, 7, False),
        ("src/a.py", "", 0, 1, True),
    ]
    assert all(change.blocked for change in changes if change.collapsed)


def test_a_cache_that_was_there_is_not_collapsed() -> None:
    baseline = base(folder("node_modules"), file("node_modules/a"))
    assert told(baseline, folder("node_modules"), file("node_modules/a", "2")) == [
        ("node_modules/a", "modified", "file")
    ]


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (None, link("x", "/etc/passwd"), "links are not written"),
        (file("x"), link("x", "y"), "links are not written"),
        (None, ManifestEntry("x", "other", 0o644, 0), "socket, FIFO or device"),
        (None, file("x", ""), "could not be read"),
        (file("x"), file("x", mode=0o600), "0644 and 0755"),
        (file("x"), file("x", mode=0o4644), "not 4644"),
        (None, file(".git/config"), ".git"),
        (None, file("a/.GIT/hooks/x"), ".git"),
        (None, file("/".join(["d" * 250] * 20)), "4096 bytes"),
        (file("x"), folder("/".join(["d" * 250] * 20)), "4096 bytes"),
    ],
)
def test_what_cannot_be_applied_says_why(before: ManifestEntry | None, now: ManifestEntry, words: str) -> None:
    change = next(change for change in compare(base(*([before] if before else [])), [now]) if change.path == now.path)
    assert words in change.blocked
    assert Change.from_dict(change.to_dict()) == change


def test_what_a_folder_held_stays_if_the_folder_became_a_link() -> None:
    changes = compare(base(folder("d"), file("d/f"), file("e")), [link("d", "/tmp"), file("e", "2")])
    assert [(change.path, bool(change.blocked)) for change in changes] == [("d", True), ("d/f", True), ("e", False)]


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a/../b", "a//b", "", "a/./b", "x\0y", "a" * 256, "a/", "a/" * 40_000 + "a"]
)
def test_an_impossible_name_is_a_lie(path: str) -> None:
    with pytest.raises(SandboxLostError):
        compare(base(), [file(path)])


@pytest.mark.parametrize(
    "entry",
    [
        ManifestEntry("a", "file", 0o644, 1, "../../etc/passwd"), ManifestEntry("a", "file", 0o644, 1, "A" * 64),
        ManifestEntry("a", "file", 0o644, -1, "1" * 64), ManifestEntry("a", "file", 0o10644, 1, "1" * 64),
        ManifestEntry("a", "directory", 0o755, 0, "1" * 64), ManifestEntry("a", "pipe", 0o644, 1),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_impossible_facts_are_a_lie(entry: ManifestEntry) -> None:
    with pytest.raises(SandboxLostError):
        compare(base(), [entry])


def test_a_name_told_twice_is_a_lie() -> None:
    with pytest.raises(SandboxLostError):
        compare(base(), [file("a"), file("a", "2")])


@pytest.mark.parametrize(
    "path", ["x", "caf\u00e9 \u202e", "a\nb", "-rf", os.fsdecode(b"\xff\xfe/\x80"), "\\xff", "\x1b[31m"]
)
def test_changes_travel_through_json_without_loss(path: str) -> None:
    for change in compare(base(file("m")), [file(path), link("l", path), file("m", "2", mode=0o755)]):
        text = json.dumps(change.to_dict(), ensure_ascii=False)
        text.encode("utf-8")
        assert Change.from_dict(json.loads(text)) == change


def test_the_document_of_a_change() -> None:
    (change,) = compare(base(file("a", "1")), [file("a", "2", mode=0o755, size=9)])
    assert change.to_dict() == {
        "path": "a", "kind": "modified", "entry": "file", "mode": "0755", "size": 9, "sha256": "2" * 64,
        "stored": False, "before": {"entry": "file", "mode": "0644", "size": 1, "sha256": "1" * 64},
    }  # fmt: skip
    (odd,) = compare(base(), [file(os.fsdecode(b"\xff"))])
    assert odd.to_dict()["path"] == "\\xff"
    assert odd.to_dict()["path_base64"] == "/w=="


@pytest.mark.parametrize("edit", [{"path": "../x"}, {"kind": 1, "before": 5}, {"mode": "rwx"}, {"entry": "pipe"}])
def test_a_changed_document_is_refused(edit: dict[str, Any]) -> None:
    (change,) = compare(base(), [file("a")])
    with pytest.raises((ValueError, TypeError, KeyError)):
        Change.from_dict(change.to_dict() | edit)


@pytest.mark.parametrize(
    "path",
    [".git", ".GIT", "a/.Git/x", ".git ", ".git.", "git~1", ".g\u200cit", ".git:stream", "\ufeff.git", ".git. :stream"],
)
def test_history_in_any_spelling(path: str) -> None:
    assert is_history(path)


@pytest.mark.parametrize("path", [".github/x", ".gitignore", "git", "a.git", "x/.gitmodules"])
def test_what_only_looks_like_history(path: str) -> None:
    assert not is_history(path)


def test_a_protected_path_that_a_script_changed_is_listed_and_blocked() -> None:
    entries = [ManifestEntry("keep", "directory", 0o755, 0), ManifestEntry("keep/a", "file", 0o644, 1, "a" * 64)]
    changes = compare(Baseline(), entries, lambda path: path == "keep/a")
    assert [(change.path, change.blocked) for change in changes] == [("keep", ""), ("keep/a", "the policy protects it")]
