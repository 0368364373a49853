"""Copy out: contents by digest, capped, checked; what does not come says why."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from mindx.errors import InputError
from mindx.sandbox.fake import FakeSandbox
from mindx.workspace.baseline import Baseline
from mindx.workspace.changes import compare
from mindx.workspace.pull import pull
from mindx.workspace.store import BlobStore, ChangesFolder
from tests.workspace.support import fill, put, work


def test_new_and_old_contents_are_kept(tmp_path: Path) -> None:
    fill(tmp_path / "w", {"a": "old a", "b": "old b", "c": "same"})

    def plan(tree: object) -> None:
        put(tree, "a", "new a")
        tree.remove("/workspace/b")  # type: ignore[attr-defined]
        put(tree, "d/e", "new e")

    worked = work(tmp_path / "w", tmp_path / "run", plan)
    contents = {path.read_bytes() for path in (tmp_path / "run" / "files").iterdir()}
    assert contents == {b"old a", b"old b", b"new a", b"new e"}
    assert {path: change.stored for path, change in worked.by_path.items()} == {
        "a": True, "b": False, "d": False, "d/e": True,
    }  # fmt: skip
    assert worked.run.read_changes() == worked.changes
    assert worked.run.read_baseline() == worked.baseline


def test_the_cap_passes_over_what_does_not_fit(tmp_path: Path) -> None:
    def plan(tree: object) -> None:
        put(tree, "a", b"a" * 600)
        put(tree, "b", b"b" * 600)
        put(tree, "c", b"c" * 300)

    worked = work(None, tmp_path / "run", plan, cap_bytes=1000)
    assert [change.stored for change in worked.changes] == [True, False, True]
    assert "more than 1,000 bytes" in worked.by_path["b"].note


def test_a_content_that_changed_since_the_manifest_does_not_come(tmp_path: Path) -> None:
    async def whole() -> None:
        async with FakeSandbox() as sandbox:
            put(sandbox.tree, "same-size", "aaaa")
            put(sandbox.tree, "grown", "aaaa")
            put(sandbox.tree, "gone", "aaab")
            changes = compare(Baseline(), await sandbox.manifest())
            put(sandbox.tree, "same-size", "bbbb")
            put(sandbox.tree, "grown", "aaaabbbb")
            sandbox.tree.remove("/workspace/gone")
            store = BlobStore(tmp_path / "files")
            pulled = await pull(sandbox, changes, store)
            assert [(change.stored, change.note[:14]) for change in pulled] == [(False, "not copied out")] * 3
            assert list(store.folder.iterdir()) == []

    asyncio.run(whole())


def test_the_old_content_is_kept_only_if_the_folder_still_holds_it(tmp_path: Path) -> None:
    fill(tmp_path / "w", {"a": "old a", "b": "old b"})

    def plan(tree: object) -> None:
        put(tree, "a", "new a")
        put(tree, "b", "new b")
        (tmp_path / "w" / "a").write_text("USER!")

    worked = work(tmp_path / "w", tmp_path / "run", plan)
    assert hashlib.sha256(b"old b").hexdigest() in worked.run.blobs
    assert hashlib.sha256(b"old a").hexdigest() not in worked.run.blobs
    assert hashlib.sha256(b"USER!").hexdigest() not in worked.run.blobs


def test_a_store_never_serves_an_altered_content(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    digest = store.add([b"abc", b"def"])
    assert store.read(digest) == b"abcdef"
    store.path(digest).write_bytes(b"abcdeX")
    with pytest.raises(InputError) as caught:
        store.read(digest)
    assert caught.value.code == "content_damaged"
    with pytest.raises(InputError) as caught:
        store.read("0" * 64)
    assert caught.value.code == "content_missing"
    with pytest.raises(ValueError, match="no sha256"):
        store.path("../../etc/passwd")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 2}', '{"schema_version": 1, "changes": [{}]}'])
def test_a_damaged_document_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "changes.json").write_text(text)
    with pytest.raises(InputError) as caught:
        ChangesFolder(tmp_path).read_changes()
    assert caught.value.code == "run_file_damaged"


def test_a_missing_document(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        ChangesFolder(tmp_path).read_changes()
    assert caught.value.code == "run_file_missing"
