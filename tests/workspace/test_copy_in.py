"""Copy in: limits before anything starts, and files that change between the look and the read."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from mindx.errors import WorkspaceError
from mindx.sandbox.fake import FakeSandbox
from mindx.workspace.baseline import Baseline
from mindx.workspace.copy_in import CopyIn, copy_in, format_bytes, plan_copy
from tests.workspace.support import LIMIT_BYTES, fill


def sent(folder: Path) -> tuple[Baseline, list[str]]:
    async def whole() -> tuple[Baseline, list[str]]:
        async with FakeSandbox() as sandbox:
            with plan_copy(folder, max_bytes=LIMIT_BYTES) as copy:
                baseline = await copy_in(sandbox, copy)
            return baseline, [entry.path for entry in await sandbox.manifest()]

    return asyncio.run(whole())


def test_what_goes_in_is_the_baseline(tmp_path: Path) -> None:
    fill(tmp_path, {"a/b.txt": "hello", "run.sh": "#!/bin/sh\n", ".git/config": "x", "empty": ""})
    (tmp_path / "run.sh").chmod(0o4755)
    (tmp_path / "link").symlink_to("a/b.txt")
    baseline, there = sent(tmp_path)
    assert there == sorted(baseline.entries)
    assert baseline.entries["a/b.txt"].sha256 == hashlib.sha256(b"hello").hexdigest()
    assert baseline.entries["run.sh"].mode == 0o755
    assert baseline.entries["link"].target == "a/b.txt"
    assert baseline.folder == str(tmp_path)
    assert [item.path for item in baseline.omitted] == [".git"]
    assert Baseline.from_dict(baseline.to_dict()) == baseline


def test_the_repositorys_gitignore_holds_in_a_folder_of_it(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            ".gitignore": "above-the-repository\n", "repo/.git/config": "",
            "repo/.gitignore": "/api/build\n.env\n*.log\n",
            "repo/api/.env": "KEY", "repo/api/build/x": "", "repo/api/src/build": "", "repo/api/a.log": "",
            "repo/api/above-the-repository": "", "repo/api/.gitignore": "!a.log\n",
        },
    )  # fmt: skip
    baseline, _ = sent(tmp_path / "repo" / "api")
    assert sorted(baseline.entries) == [".gitignore", "a.log", "above-the-repository", "src", "src/build"]
    (tmp_path / "repo" / ".git" / "config").unlink()
    (tmp_path / "repo" / ".git").rmdir()  # in no repository: what lies above is somebody else's
    assert ".env" in sent(tmp_path / "repo" / "api")[0].entries


@pytest.mark.parametrize(
    ("rules", "inner", "goes_in"),
    [("*\n", "", True), ("out/\n", "", True), ("/a/out\n", "", True), ("/out\nf\n", "", False), ("f\n", "", False),
     ("out\nf\n", "!out\n", False), ("a/*\n!a/out\nf\n", "", False), ("", "out\nf\n", True)],
)  # fmt: skip
def test_whoever_names_an_ignored_folder_means_what_is_in_it(
    tmp_path: Path, rules: str, inner: str, goes_in: bool
) -> None:
    fill(tmp_path, {".git/config": "", ".gitignore": rules, "a/.gitignore": inner, "a/out/f": "", "a/out/g": ""})
    assert ("f" in sent(tmp_path / "a" / "out")[0].entries) is goes_in


def test_too_big_is_refused_with_both_sizes(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"x" * 5000, "b": b"x"})
    with pytest.raises(WorkspaceError, match=r"holds 12\.0 KiB in 2 files, the workspace takes 8\.0 KiB") as caught:
        plan_copy(tmp_path, max_bytes=8192)
    assert caught.value.code == "workspace_too_big"
    assert caught.value.details == {"folder_bytes": 12288, "limit_bytes": 8192, "files": 2}
    plan_copy(tmp_path, max_bytes=12288).close()


def _planned(folder: Path) -> CopyIn:
    return plan_copy(folder, max_bytes=LIMIT_BYTES)


def _refused(copy: CopyIn) -> WorkspaceError:
    async def whole() -> None:
        async with FakeSandbox() as sandbox:
            await copy_in(sandbox, copy)

    with copy, pytest.raises(WorkspaceError) as caught:
        asyncio.run(whole())
    return caught.value


@pytest.mark.parametrize("content", [b"longer than before", b"short"])
def test_a_file_of_another_size_is_noticed(tmp_path: Path, content: bytes) -> None:
    fill(tmp_path, {"a": b"0123456789"})
    copy = _planned(tmp_path)
    (tmp_path / "a").write_bytes(content)
    assert _refused(copy).code == "workspace_changed"


def test_a_file_that_becomes_a_link_or_fifo_is_noticed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789")
    folder = tmp_path / "w"
    fill(folder, {"a": b"0123456789"})
    for swap in (lambda: (folder / "a").symlink_to(secret), lambda: os.mkfifo(folder / "a")):
        copy = _planned(folder)
        (folder / "a").unlink()
        swap()
        assert _refused(copy).code == "workspace_changed"
        (folder / "a").unlink()
        fill(folder, {"a": b"0123456789"})


def test_a_folder_that_becomes_a_link_is_noticed(tmp_path: Path) -> None:
    fill(tmp_path, {"outside/f": "12345", "w/d/f": "abcde"})
    copy = _planned(tmp_path / "w")
    (tmp_path / "w" / "d").rename(tmp_path / "w" / "e")
    (tmp_path / "w" / "d").symlink_to("../outside")
    assert _refused(copy).code == "workspace_changed"


def test_a_workspace_that_is_renamed_stays_the_one_that_was_planned(tmp_path: Path) -> None:
    fill(tmp_path, {"w/f": "mine", "other/f": "else"})
    copy = _planned(tmp_path / "w")
    (tmp_path / "w").rename(tmp_path / "moved")
    (tmp_path / "other").rename(tmp_path / "w")
    data = b"".join(piece for item in copy.items if item.content for piece in item.content())
    copy.close()
    assert data == b"mine"


def test_close_lets_go_of_all_handles(tmp_path: Path) -> None:
    fill(tmp_path, {"d/f": "1"})
    before = set(os.listdir("/proc/self/fd"))
    copy = _planned(tmp_path)
    for item in copy.items:
        if item.content:
            list(item.content())
    copy.close()
    copy.close()
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (1023, "1,023 bytes"), (1536, "1.5 KiB"), (1 << 31, "2.0 GiB")]
)
def test_format_bytes(count: int, text: str) -> None:
    assert format_bytes(count) == text
