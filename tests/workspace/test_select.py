"""Which files go in: .gitignore as git reads it, the policy's patterns, and what never goes in."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindx.errors import WorkspaceError
from mindx.workspace.copy_in import plan_copy
from mindx.workspace.folder import open_folder
from mindx.workspace.select import MAX_DEPTH, Selection, leads_out, select


def selection_of(folder: Path, patterns: tuple[str, ...] = (), **limits: int) -> Selection:
    root = open_folder(folder)
    try:
        return select(root, patterns, **limits)
    finally:
        os.close(root)


def names(folder: Path, patterns: tuple[str, ...] = ()) -> list[str]:
    return [entry.path for entry in selection_of(folder, patterns).entries]


def fill(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def test_all_goes_in_parents_first(tmp_path: Path) -> None:
    fill(tmp_path, {"b/c/d.txt": "1", "a.txt": "22", "b.txt": ""})
    selection = selection_of(tmp_path)
    assert [entry.path for entry in selection.entries] == ["a.txt", "b", "b.txt", "b/c", "b/c/d.txt"]
    assert selection.content_bytes == 3
    assert selection.page_bytes == 2 * 4096


def test_nested_gitignore_files(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            ".gitignore": "*.log\n/build/\n# a comment\n\n!keep.log\n",
            "a.log": "", "keep.log": "", "build/x": "", "src/build/y": "", "src/a.log": "",
            "src/.gitignore": "!a.log\r\n*.tmp\n", "src/z.tmp": "", "z.tmp": "",
        },
    )  # fmt: skip
    assert names(tmp_path) == [
        ".gitignore", "keep.log", "src", "z.tmp", "src/.gitignore", "src/a.log", "src/build", "src/build/y",
    ]  # fmt: skip


def test_the_policy_wins_over_gitignore(tmp_path: Path) -> None:
    fill(tmp_path, {".gitignore": "data.bin\n!.env\n", "data.bin": "", ".env": "KEY=1", ".venv/bin/python": ""})
    selection = selection_of(tmp_path, (".venv/", "!data.bin", ".env"))
    assert [entry.path for entry in selection.entries] == [".gitignore", "data.bin"]
    assert [(item.path, item.reason) for item in selection.omitted] == [(".env", "policy"), (".venv", "policy")]


def test_a_secret_in_a_folder_of_any_name_stays_out(tmp_path: Path) -> None:
    fill(tmp_path, {"a\nb/.env": "KEY=1", "a\nb/x": ""})
    assert names(tmp_path, (".env",)) == ["a\nb", "a\nb/x"]


def test_many_stars_in_a_gitignore_and_a_long_name_come_to_an_end(tmp_path: Path) -> None:
    fill(tmp_path, {".gitignore": "*a" * 20 + "*b\n", "a" * 200: ""})
    assert names(tmp_path) == [".gitignore", "a" * 200]


def test_a_gitignore_of_very_many_lines_is_refused_and_not_cut(tmp_path: Path) -> None:
    (tmp_path / "above" / ".git").mkdir(parents=True)
    inner = tmp_path / "above" / "inner"
    inner.mkdir()
    for folder, read in ((inner, lambda: names(inner)), (tmp_path / "above", lambda: plan_copy(inner, max_bytes=1))):
        (folder / ".gitignore").write_text("x\n" * 20_000, "ascii")
        with pytest.raises(WorkspaceError, match="10,000 lines") as caught:
            read()
        assert caught.value.code == "workspace_ignore"
        (folder / ".gitignore").unlink()


def test_git_history_never_goes_in(tmp_path: Path) -> None:
    fill(tmp_path, {".git/config": "secret", "sub/.git": "gitdir: ../x", "a": ""})
    assert names(tmp_path, ("!.git",)) == ["a", "sub"]


def test_links(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "", "d/b": ""})
    for name, target in {"in": "a", "d/up": "../a", "out": "/etc/passwd", "d/far": "../../x", "loop": "loop"}.items():
        (tmp_path / name).symlink_to(target)
    selection = selection_of(tmp_path)
    assert {entry.path: entry.target for entry in selection.entries if entry.kind == "link"} == {
        "in": "a",
        "d/up": "../a",
        "loop": "loop",
    }
    assert {item.path for item in selection.omitted} == {"out", "d/far"}


@pytest.mark.parametrize(
    ("path", "target", "out"),
    [("a", "b", False), ("a", "..", True), ("a/b", "..", False), ("a/b", "../../c", True), ("a", "/x", True),
     ("a", "b/../../c", True), ("a/b", "./.././c", False), ("a", "", False)],
)  # fmt: skip
def test_leads_out(path: str, target: str, out: bool) -> None:
    assert leads_out(path, target) is out


def test_a_link_as_gitignore_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "rules"
    secret.write_text("a\n")
    folder = tmp_path / "w"
    fill(folder, {"a": ""})
    (folder / ".gitignore").symlink_to("../rules")
    assert "a" in names(folder)


def test_special_files_stay_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        selection = selection_of(tmp_path)
    assert not selection.entries
    assert [item.path for item in selection.omitted] == ["pipe", "s"]


def test_an_engine_socket_inside_refuses_the_folder(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "run" / "docker.sock"))
        with pytest.raises(WorkspaceError, match="socket of a container engine") as caught:
            selection_of(tmp_path)
    assert caught.value.code == "workspace_engine_socket"


def test_an_engine_socket_by_docker_host(tmp_path: Path) -> None:
    path = tmp_path / "ignored" / "any-name"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        with pytest.raises(WorkspaceError) as caught:
            open_folder(tmp_path, environ={"DOCKER_HOST": f"unix://{path}", "HOME": "/nowhere"})
    assert caught.value.code == "workspace_engine_socket"


@pytest.mark.parametrize("folder", ["/", "/etc", "/var/run", "/usr/bin", "/usr", "/proc/self", "/dev", "/tmp", "/var"])
def test_system_folders_are_refused(folder: str) -> None:
    with pytest.raises(WorkspaceError) as caught:
        open_folder(Path(folder), environ={"HOME": "/nowhere"})
    assert caught.value.code in ("workspace_system", "workspace_link", "workspace_engine_socket")


def test_home_and_what_holds_it_are_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    for folder in (home, tmp_path):
        with pytest.raises(WorkspaceError) as caught:
            open_folder(folder, environ={"HOME": str(home)})
        assert caught.value.code == "workspace_home"
    os.close(open_folder(home / "project", environ={"HOME": str(home)}))


@pytest.mark.parametrize("suffix", ["", "/"])
def test_a_link_is_no_workspace(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(WorkspaceError) as caught:
        open_folder(Path(f"{tmp_path}/link{suffix}"))
    assert caught.value.code == "workspace_link"


def test_a_missing_folder_and_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name, code in {"none": "workspace_missing", "file": "workspace_no_folder"}.items():
        with pytest.raises(WorkspaceError) as caught:
            open_folder(tmp_path / name)
        assert caught.value.code == code


def test_too_many_entries_and_too_deep(tmp_path: Path) -> None:
    fill(tmp_path, {f"{number}": "" for number in range(12)})
    with pytest.raises(WorkspaceError, match="more than 10 files") as caught:
        selection_of(tmp_path, max_entries=10)
    assert caught.value.code == "workspace_entries"
    deep = tmp_path / "deep"
    (deep / "/".join(["d"] * (MAX_DEPTH + 1))).mkdir(parents=True)
    with pytest.raises(WorkspaceError) as caught:
        selection_of(deep)
    assert caught.value.code == "workspace_depth"


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9\n-rf")).write_text("x")
    assert [os.fsencode(name) for name in names(tmp_path)] == [b"caf\xe9\n-rf"]


_SEGMENT = st.sampled_from(["a", "b", "*", "**", "?", "a*", "[ab]", "[!a]", "ab", r"\a"])
_PATTERN = st.builds(
    lambda bang, lead, parts, tail: bang + lead + "/".join(parts) + tail,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(_SEGMENT, min_size=1, max_size=3),
    st.sampled_from(["", "", "/"]),
)
_PATHS = ("a", "b", "ab", "c/a", "c/b", "c/d/a", "c/d/ab", "e/a/b", "e/b/a/b", "e/ab/c")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_PATTERN, max_size=4), st.lists(_PATTERN, max_size=2))
def test_gitignore_is_read_as_git_reads_it(root_lines: list[str], inner_lines: list[str]) -> None:
    assert shutil.which("git"), "git is needed to compare with"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, dict.fromkeys(_PATHS, ""))
        fill(folder, {".gitignore": "\n".join(root_lines), "e/.gitignore": "\n".join(inner_lines)})
        env = {"PATH": os.environ["PATH"], "HOME": name, "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", "init", "-q"], cwd=folder, env=env, check=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--others", "--exclude-standard"], cwd=folder, env=env, check=True,
            capture_output=True, text=True,
        ).stdout  # fmt: skip
        ours = {entry.path for entry in selection_of(folder).entries if entry.kind == "file"}
        assert ours == {path for path in listed.split("\0") if path}
