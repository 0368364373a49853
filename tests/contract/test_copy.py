"""The contract of put, fetch and manifest, and of a workspace that is full."""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import aclosing

import pytest

from mindx.core.command import Exec, ListDir, MakeDir, ReadFile, Remove, Stat, WriteFile
from mindx.errors import FileError, MindxError
from mindx.sandbox.base import ManifestEntry, PutItem

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
NAMES = ["-rf", "two\nlines", os.fsdecode(b"\xff\xfe"), "n" * 255, "...", "plain", "日本", "a b", "a-b"]


def file_item(path: str, data: bytes, mode: int = 0o644) -> PutItem:
    return PutItem(path, "file", mode, len(data), lambda: [data])


async def entries_below(sandbox, folder) -> dict[str, ManifestEntry]:
    entries = await sandbox.manifest()
    prefix = folder.name + "/"
    return {entry.path.removeprefix(prefix): entry for entry in entries if entry.path.startswith(prefix)}


async def fetched(sandbox, path: str, max_bytes: int = 64 * MIB) -> bytes:
    return b"".join([piece async for piece in sandbox.fetch(path, max_bytes)])


# put and manifest


async def test_what_was_put_stands_in_the_manifest(sandbox, folder):
    items: list[PutItem] = []
    for name in NAMES:
        items.append(PutItem(f"{folder.name}/{name}", "directory", 0o755))
        items.append(file_item(f"{folder.name}/{name}/{name}", name.encode("utf-8", "surrogateescape"), 0o640))
        items.append(PutItem(f"{folder.name}/{name}/link", "link", 0o777, target=name))
    await sandbox.put(items)

    found = await entries_below(sandbox, folder)

    assert len(found) == len(items)
    for name in NAMES:
        data = name.encode("utf-8", "surrogateescape")
        assert found[name].kind == "directory"
        assert found[name].mode == 0o755
        file = found[f"{name}/{name}"]
        assert (file.kind, file.mode, file.size, file.target) == ("file", 0o640, len(data), "")
        assert file.sha256 == hashlib.sha256(data).hexdigest()
        link = found[f"{name}/link"]
        assert (link.kind, link.target, link.sha256) == ("link", name, "")
        assert await sandbox.read_file(ReadFile(f"{folder / name}/{name}")) == data


async def test_the_manifest_is_sorted_by_path_and_relative(sandbox, folder):
    for name in ("b", "a/x", "a-b", "a", "a/x/y"):
        await sandbox.make_dir(MakeDir(folder / name))
    paths = [entry.path for entry in await sandbox.manifest()]
    assert paths == sorted(paths)
    mine = [path for path in paths if path.startswith(folder.name + "/")]
    assert mine == [f"{folder.name}/{name}" for name in ("a", "a-b", "a/x", "a/x/y", "b")]
    assert folder.name in paths


async def test_the_manifest_follows_what_changes(sandbox, folder):
    await sandbox.put([file_item(f"{folder.name}/a", b"1"), file_item(f"{folder.name}/b", b"2")])
    await sandbox.write_file(WriteFile(folder / "a", b"changed"))
    await sandbox.remove(Remove(folder / "b"))
    found = await entries_below(sandbox, folder)
    assert set(found) == {"a"}
    assert found["a"].sha256 == hashlib.sha256(b"changed").hexdigest()
    assert found["a"].size == 7


async def test_a_file_that_took_its_own_right_away_is_compared_all_the_same(sandbox, backend, folder):
    # else a `chmod 0` would hide a change, or make what lies below look deleted
    await sandbox.put([file_item(f"{folder.name}/secret", b"12345", mode=0o000)])
    await backend.make_fifo(sandbox, folder / "fifo")
    found = await entries_below(sandbox, folder)
    digest = hashlib.sha256(b"12345").hexdigest()
    assert (found["secret"].sha256, found["secret"].size, found["secret"].mode) == (digest, 5, 0)
    assert (found["fifo"].kind, found["fifo"].sha256) == ("other", "")


async def test_a_manifest_over_its_limit_is_refused(sandbox, folder, refusal):
    await sandbox.put([file_item(f"{folder.name}/{name}", b"") for name in "abc"])
    assert await refusal(sandbox.manifest(max_entries=3)) == "E2BIG"
    assert len(await sandbox.manifest(max_entries=100_000)) > 3


async def test_put_of_nothing(sandbox):
    await sandbox.put([])


async def test_put_takes_content_in_pieces_and_calls_for_it_once(sandbox, folder):
    calls: list[str] = []

    def content(name: str):
        calls.append(name)
        yield from (b"", name.encode(), b"-" * 100_000, b"end")

    size = 1 + 100_000 + 3
    items = [PutItem(f"{folder.name}/{n}", "file", 0o600, size, lambda n=n: content(n)) for n in "abc"]
    await sandbox.put(iter(items))
    assert calls == ["a", "b", "c"]
    assert await sandbox.read_file(ReadFile(folder / "b")) == b"b" + b"-" * 100_000 + b"end"


async def test_put_of_a_large_file(sandbox, folder):
    piece = os.urandom(MIB)
    await sandbox.put([PutItem(f"{folder.name}/big", "file", 0o644, 24 * MIB, lambda: [piece] * 24)])
    found = await entries_below(sandbox, folder)
    assert found["big"].sha256 == hashlib.sha256(piece * 24).hexdigest()
    assert await fetched(sandbox, folder / "big") == piece * 24


async def test_put_refuses_and_names_the_path(sandbox, folder, refusal):
    await sandbox.put([PutItem(f"{folder.name}/up", "link", 0o777, target=".."), file_item(f"{folder.name}/f", b"")])
    expected = {"missing/a": "ENOENT", "up/a": "ELOOP", "f/a": "ENOTDIR"}
    for name, number in expected.items():
        with pytest.raises(FileError) as caught:
            await sandbox.put([file_item(f"{folder.name}/{name}", b"x")])
        assert str(caught.value.filename).endswith(f"{folder.name}/{name}")
        assert await refusal(sandbox.put([file_item(f"{folder.name}/{name}", b"x")])) == number
    await sandbox.put([file_item(f"{folder.name}/after", b"fine")])
    assert await sandbox.read_file(ReadFile(folder / "after")) == b"fine"


async def test_what_was_put_belongs_to_the_commands(sandbox, folder):
    await sandbox.put([file_item(f"{folder.name}/a", b"seen", 0o600)])
    assert (await sandbox.execute(Exec(("cat", folder / "a")))).stdout == b"seen"
    await sandbox.write_file(WriteFile(folder / "a", b"mine"))
    await sandbox.remove(Remove(folder / "a"))


async def test_content_that_fails_midway_does_not_break_the_sandbox(sandbox, folder):
    def content():
        yield b"12345"
        raise RuntimeError("the host's disk is gone")

    with pytest.raises(RuntimeError, match="the host's disk is gone"):
        await sandbox.put([PutItem(f"{folder.name}/a", "file", 0o644, 10, content)])
    await sandbox.put([file_item(f"{folder.name}/b", b"fine")])
    assert await sandbox.read_file(ReadFile(folder / "b")) == b"fine"


@pytest.mark.parametrize("size", [4, 6])
async def test_content_of_another_size_than_announced_is_refused(sandbox, folder, size):
    with pytest.raises(MindxError):
        await sandbox.put([PutItem(f"{folder.name}/a", "file", 0o644, size, lambda: [b"12345"])])
    await sandbox.put([file_item(f"{folder.name}/b", b"fine")])
    assert await sandbox.read_file(ReadFile(folder / "b")) == b"fine"


# fetch


async def test_fetch_yields_the_file(sandbox, folder):
    data = os.urandom(1024) * 3000
    await sandbox.write_file(WriteFile(folder / "a", data))
    await sandbox.write_file(WriteFile(folder / "empty", b""))
    assert await fetched(sandbox, folder / "a") == data
    assert await fetched(sandbox, folder / "empty") == b""
    assert await fetched(sandbox, folder / "a", max_bytes=len(data)) == data


async def test_fetch_refuses(sandbox, backend, folder, refusal):
    await sandbox.write_file(WriteFile(folder / "file", b"12345"))
    await sandbox.put([PutItem(f"{folder.name}/link", "link", 0o777, target="file")])
    await sandbox.put([PutItem(f"{folder.name}/up", "link", 0o777, target=".")])
    await backend.make_fifo(sandbox, folder / "fifo")
    expected = {"missing": "ENOENT", "link": "ELOOP", "up/file": "ELOOP", "fifo": "EINVAL", "file/a": "ENOTDIR"}
    for name, number in expected.items():
        assert await refusal(fetched(sandbox, folder / name)) == number, name
    assert await refusal(fetched(sandbox, folder.path)) == "EISDIR"
    assert await refusal(fetched(sandbox, folder / "file", max_bytes=4)) == "EFBIG"


async def test_a_fetch_that_is_given_up_leaves_the_sandbox_usable(sandbox, folder):
    data = os.urandom(1024) * (8 * 1024)
    await sandbox.write_file(WriteFile(folder / "a", data))
    async with aclosing(sandbox.fetch(folder / "a", len(data))) as pieces:
        first = await anext(pieces)
    assert data.startswith(first)
    assert (await sandbox.execute(Exec(("echo", "next")))).stdout == b"next\n"
    assert await fetched(sandbox, folder / "a") == data


# a full workspace


async def fill(sandbox, block: bytes) -> int:
    """Write blocks until one does not fit; return how many did."""
    for number in range(1000):
        try:
            await sandbox.write_file(WriteFile(f"/workspace/block{number}", block))
        except FileError as error:
            if error.errno == errno.ENOSPC:
                return number
            raise
    raise AssertionError("the workspace has no limit")


async def test_a_directory_that_took_its_own_right_away_hides_nothing(sandbox, folder):
    await sandbox.put([PutItem(f"{folder.name}/d", "directory", 0o700), file_item(f"{folder.name}/d/a", b"1")])
    await sandbox.execute(Exec(("chmod", "0", folder / "d")))
    found = await entries_below(sandbox, folder)
    assert set(found) == {"d", "d/a"}
    assert found["d"].mode == 0, "looking must not change it"
    assert found["d/a"].sha256 == hashlib.sha256(b"1").hexdigest()
    await sandbox.execute(Exec(("chmod", "700", folder / "d")))


async def test_a_full_workspace_is_an_error_and_stays_usable(backend, refusal):
    block = bytes(12 * MIB)
    async with backend.make() as sandbox:
        await sandbox.write_file(WriteFile("/workspace/first", b"kept"))
        blocks = await fill(sandbox, block)
        assert blocks > 0
        assert await refusal(sandbox.stat(Stat(f"/workspace/block{blocks}"))) == "ENOENT"

        with pytest.raises(FileError) as full:
            await sandbox.put([PutItem("by-put", "file", 0o644, len(block), lambda: [block])])
        assert full.value.errno == errno.ENOSPC
        assert str(full.value.filename).endswith("by-put")

        assert await sandbox.read_file(ReadFile("/workspace/first")) == b"kept"
        assert (await sandbox.execute(Exec(("echo", "alive")))).stdout == b"alive\n"
        names = {entry.path for entry in await sandbox.list_dir(ListDir("/workspace"))}
        expected = {"/workspace/first"} | {f"/workspace/block{number}" for number in range(blocks)}
        assert names - {"/workspace/by-put"} == expected, "a failed write leaves no part of a file"

        await sandbox.remove(Remove("/workspace/block0"))
        await sandbox.write_file(WriteFile("/workspace/after", block))
        assert await sandbox.read_file(ReadFile("/workspace/after")) == block


async def test_a_workspace_without_inodes_is_full_too(backend, refusal):
    async with backend.make(workspace_inodes=64) as sandbox:
        items = [PutItem(f"d{number}", "directory", 0o755) for number in range(64)]
        with pytest.raises(FileError) as full:
            await sandbox.put(items)
        assert full.value.errno == errno.ENOSPC
        assert str(full.value.filename).endswith("/d63")
        assert await refusal(sandbox.make_dir(MakeDir("/workspace/more"))) == "ENOSPC"
        assert await refusal(sandbox.write_file(WriteFile("/workspace/more", b""))) == "ENOSPC"
        assert (await sandbox.execute(Exec(("echo", "alive")))).stdout == b"alive\n"
        assert len(await sandbox.manifest()) == 63


async def test_a_list_of_too_many_names_is_refused(backend, refusal):
    async with backend.make(workspace_bytes=4 * MIB, workspace_inodes=110_000) as sandbox:
        await sandbox.put(PutItem(f"n{number}", "file", 0o644) for number in range(100_000))
        assert len(await sandbox.list_dir(ListDir("/workspace"))) == 100_000
        await sandbox.write_file(WriteFile("/workspace/one-more", b""))
        assert await refusal(sandbox.list_dir(ListDir("/workspace"))) == "E2BIG"
        assert len(await sandbox.manifest()) == 100_001
        assert await refusal(sandbox.manifest(max_entries=100_000)) == "E2BIG"
        assert (await sandbox.execute(Exec(("true",)))).ok
