"""Marks: which files run on the user's machine later, and which do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mindx.workspace.diff import diffs
from mindx.workspace.marks import BARE_REPOSITORY, TABLE, marks, marks_of
from mindx.workspace.take import hold_back
from tests.workspace.support import fill, put, work


@pytest.mark.parametrize(
    ("path", "label"),
    [
        (".githooks/pre-commit", "git hook"), ("x/hooks/post-checkout", "git hook"), (".husky/pre-push", "git hook"),
        (".pre-commit-config.yaml", "git hook"), (".gitattributes", "version control settings"),
        (".gitmodules", "version control settings"), (".github/workflows/ci.yml", "CI file"),
        ("sub/.GITHUB/Workflows/ci.yml", "CI file"), (".gitlab-ci.yml", "CI file"), ("Jenkinsfile", "CI file"),
        ("Makefile", "task file"), ("a/b/GNUmakefile", "task file"), ("rules.mk", "task file"),
        ("tox.ini", "task file"), ("Justfile", "task file"), ("Dockerfile", "container build"),
        (".devcontainer/devcontainer.json", "container build"), ("CMakeLists.txt", "build file"),
        ("BUILD", "build file"), ("build.gradle.kts", "build file"), ("crate/build.rs", "build file"),
        ("package.json", "package scripts"), ("web/.npmrc", "package scripts"), ("Gemfile", "package scripts"),
        ("vite.config.ts", "tool that runs code"), (".eslintrc.js", "tool that runs code"),
        ("tests/conftest.py", "test set-up"), ("pytest.ini", "test set-up"),
        ("pyproject.toml", "Python build or start-up"), ("setup.py", "Python build or start-up"),
        ("lib/evil.pth", "Python build or start-up"), ("sitecustomize.py", "Python build or start-up"),
        (".vscode/tasks.json", "editor settings"), (".idea/workspace.xml", "editor settings"),
        (".dir-locals.el", "editor settings"), ("AGENTS.md", "agent settings"), ("docs/CLAUDE.md", "agent settings"),
        (".mcp.json", "agent settings"), (".cursor/rules/a.mdc", "agent settings"),
        (".envrc", "shell start-up file"), (".bashrc", "shell start-up file"), (".env", "shell start-up file"),
        (".ssh/config", "shell start-up file"), (".config/autostart/x.desktop", "shell start-up file"),
        ("\u017f\u0065tup.py", "Python build or start-up"),  # a long s, which some file systems fold
        ("Make\u200cfile", "task file"), ("Makefile ", "task file"), (".vs\u200dcode./tasks.json", "editor settings"),
        (".flake8", "tool that runs code"), ("docs/conf.py", "tool that runs code"), ("Earthfile", "task file"),
        (".php-cs-fixer.dist.php", "tool that runs code"),
    ],
)  # fmt: skip
def test_marked(path: str, label: str) -> None:
    assert label in marks(path)


@pytest.mark.parametrize(
    "path",
    ["src/main.py", "README.md", "build/out.txt", "build", "docs/makefiles.md", "my.vscode/x", "hooks/notes.md",
     "test_conftest.py", "package.json.md", "data.env", "environment/x", "a.pth.txt", "Make file", "", "...",
     "config.py"],
)  # fmt: skip
def test_not_marked(path: str) -> None:
    assert marks(path) == ()


def test_every_word_of_the_table_marks_its_own_row() -> None:
    for label, text in TABLE.items():
        for word in text.split():
            example = word.replace("*", "x") + ("x" if word.endswith("/") else "")
            assert label in marks(example), word
            assert label in marks(f"some/folder/{example}"), word


def test_only_what_is_written_is_marked(tmp_path: Path) -> None:
    fill(tmp_path / "w", {"Makefile": "all:\n"})
    worked = work(tmp_path / "w", tmp_path / "run", lambda tree: tree.remove("/workspace/Makefile"))
    assert marks_of(worked.changes) == {}


def test_a_repository_without_a_git_folder(tmp_path: Path) -> None:
    def plan(tree: Any) -> None:
        put(tree, "data/HEAD", "ref: refs/heads/main\n")
        put(tree, "data/config", "[core]\n\tfsmonitor = touch /tmp/x\n")
        put(tree, "data/objects/x", "")
        put(tree, "other/config", "fine")

    found = marks_of(work(None, tmp_path / "run", plan).changes)
    assert found == {"data/HEAD": (BARE_REPOSITORY,), "data/config": (BARE_REPOSITORY,)}


def test_a_repository_whose_head_was_there_before(tmp_path: Path) -> None:
    fill(tmp_path / "w", {"data/HEAD": "ref: refs/heads/main\n", "data/config": "[core]\n", "other/config": "fine"})

    def plan(tree: Any) -> None:
        put(tree, "data/config", "[core]\n\tfsmonitor = touch /tmp/x\n")
        put(tree, "other/config", "better")

    worked = work(tmp_path / "w", tmp_path / "run", plan)
    known = worked.baseline.entries
    assert marks_of(worked.changes, known) == {"data/config": (BARE_REPOSITORY,)}
    assert [item.path for item in hold_back(worked.changes, known=known)[1]] == ["data/config"]
    assert [diff.change.path for diff in diffs(worked.changes, worked.run.blobs, known) if diff.marks] == [
        "data/config"
    ]
