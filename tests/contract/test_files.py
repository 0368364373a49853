"""The contract of the file operations: what they do, and each error that they name."""

from __future__ import annotations

import os

import pytest

from mindx.core.command import ListDir, MakeDir, ReadFile, Remove, Stat, WriteFile
from mindx.errors import FileError
from mindx.sandbox.base import PutItem

pytestmark = pytest.mark.anyio

HOSTILE_NAMES = [
    "-rf",
    "two\nlines",
    "tab\tand space ",
    os.fsdecode(b"not \xff\xfe utf-8"),
    "n" * 255,
    "é" * 127,
    "...",
    "~",
    "*?[a]",
    "$HOME;`id`|'\"\\",
    ".hidden",
    "\x1b[2Jred",
    "日本語",
]


async def make_link(sandbox, folder, name, target):
    await sandbox.put([PutItem(f"{folder.name}/{name}", "link", 0o777, target=target)])


# read and write


async def test_what_was_written_is_read(sandbox, folder):
    data = bytes(range(256)) * 17
    assert await sandbox.write_file(WriteFile(folder / "a", data)) is None
    assert await sandbox.read_file(ReadFile(folder / "a")) == data


async def test_an_empty_file_is_a_file(sandbox, folder):
    await sandbox.write_file(WriteFile(folder / "a", b""))
    assert await sandbox.read_file(ReadFile(folder / "a", max_bytes=0)) == b""
    assert (await sandbox.stat(Stat(folder / "a"))).size == 0


async def test_a_large_file_goes_there_and_back(sandbox, folder):
    data = os.urandom(1024) * (16 * 1024) + b"end"
    await sandbox.write_file(WriteFile(folder / "a", data))
    assert await sandbox.read_file(ReadFile(folder / "a")) == data


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
async def test_hostile_names_are_only_names(sandbox, folder, name):
    await sandbox.write_file(WriteFile(folder / name, b"x"))
    assert await sandbox.read_file(ReadFile(folder / name)) == b"x"
    assert (await sandbox.stat(Stat(folder / name))).path == folder / name
    assert [entry.path for entry in await sandbox.list_dir(ListDir(folder.path))] == [folder / name]
    await sandbox.remove(Remove(folder / name))
    assert await sandbox.list_dir(ListDir(folder.path)) == []


async def test_a_hostile_name_can_be_a_folder(sandbox, folder):
    for name in HOSTILE_NAMES:
        await sandbox.make_dir(MakeDir(folder / name))
        await sandbox.write_file(WriteFile(f"{folder / name}/{name}", name.encode("utf-8", "surrogateescape")))
    for name in HOSTILE_NAMES:
        found = await sandbox.read_file(ReadFile(f"{folder / name}/{name}"))
        assert found == name.encode("utf-8", "surrogateescape")


async def test_writing_replaces_the_whole_file(sandbox, folder):
    await sandbox.write_file(WriteFile(folder / "a", b"long content"))
    await sandbox.write_file(WriteFile(folder / "a", b"short"))
    assert await sandbox.read_file(ReadFile(folder / "a")) == b"short"
    assert len(await sandbox.list_dir(ListDir(folder.path))) == 1, "no temporary file stays"


async def test_mode_is_given_kept_or_664(sandbox, folder):
    async def mode() -> int:
        return (await sandbox.stat(Stat(folder / "a"))).mode

    await sandbox.write_file(WriteFile(folder / "a", b""))
    assert await mode() == 0o664
    await sandbox.write_file(WriteFile(folder / "a", b"", mode=0o750))
    assert await mode() == 0o750
    await sandbox.write_file(WriteFile(folder / "a", b"again"))
    assert await mode() == 0o750
    await sandbox.write_file(WriteFile(folder / "a", b"", mode=0o600))
    assert await mode() == 0o600


async def test_a_read_only_file_is_replaced_all_the_same(sandbox, folder):
    await sandbox.write_file(WriteFile(folder / "a", b"old", mode=0o444))
    await sandbox.write_file(WriteFile(folder / "a", b"new"))
    assert await sandbox.read_file(ReadFile(folder / "a")) == b"new"


async def test_read_refuses(sandbox, backend, folder, refusal):
    await sandbox.write_file(WriteFile(folder / "file", b"12345"))
    await sandbox.write_file(WriteFile(folder / "secret", b"", mode=0o000))
    await make_link(sandbox, folder, "link", "file")
    await make_link(sandbox, folder, "up", ".")
    await backend.make_fifo(sandbox, folder / "fifo")
    expected = {
        "missing": "ENOENT",
        "missing/a": "ENOENT",
        ".": "EISDIR",
        "link": "ELOOP",
        "up/file": "ELOOP",
        "fifo": "EINVAL",
        "file/a": "ENOTDIR",
        "secret": "EACCES",
        "n" * 256: "ENAMETOOLONG",
    }
    for name, number in expected.items():
        path = folder.path if name == "." else folder / name
        assert await refusal(sandbox.read_file(ReadFile(path))) == number, name


async def test_a_file_over_the_limit_is_an_error_and_not_a_cut(sandbox, folder, refusal):
    await sandbox.write_file(WriteFile(folder / "a", b"12345"))
    assert await refusal(sandbox.read_file(ReadFile(folder / "a", max_bytes=4))) == "EFBIG"
    assert await sandbox.read_file(ReadFile(folder / "a", max_bytes=5)) == b"12345"


async def test_write_refuses(sandbox, folder, refusal):
    await sandbox.write_file(WriteFile(folder / "file", b"untouched"))
    await make_link(sandbox, folder, "link", "file")
    await make_link(sandbox, folder, "dangling", "nowhere")
    await make_link(sandbox, folder, "up", ".")
    expected = {
        "missing/a": "ENOENT",
        "": "EISDIR",
        "link": "ELOOP",
        "dangling": "ELOOP",
        "up/a": "ELOOP",
        "file/a": "ENOTDIR",
        "n" * 256: "ENAMETOOLONG",
    }
    for name, number in expected.items():
        path = folder / name if name else folder.path
        assert await refusal(sandbox.write_file(WriteFile(path, b"evil"))) == number, name
    assert await sandbox.read_file(ReadFile(folder / "file")) == b"untouched"
    names = [entry.path for entry in await sandbox.list_dir(ListDir(folder.path))]
    assert names == [folder / "dangling", folder / "file", folder / "link", folder / "up"], "nothing is left behind"


@pytest.mark.parametrize("path", ["relative", "/workspace/../etc/passwd", "/workspace/a\0b", ""], ids=ascii)
async def test_a_path_that_is_not_plain_is_refused_by_every_operation(sandbox, path):
    calls = [
        sandbox.read_file(ReadFile(path)),
        sandbox.write_file(WriteFile(path, b"")),
        sandbox.list_dir(ListDir(path)),
        sandbox.make_dir(MakeDir(path)),
        sandbox.remove(Remove(path)),
        sandbox.stat(Stat(path)),
    ]
    for call in calls:
        with pytest.raises(FileError):
            await call


async def test_an_error_names_the_path(sandbox, folder):
    with pytest.raises(FileError, match="missing") as caught:
        await sandbox.read_file(ReadFile(folder / "missing"))
    assert caught.value.filename == folder / "missing"
    assert caught.value.details["path"] == folder / "missing"


# list


async def test_list_sorts_by_name_and_tells_kind_size_and_mode(sandbox, backend, folder):
    await sandbox.write_file(WriteFile(folder / "b", b"123", mode=0o640))
    await sandbox.make_dir(MakeDir(folder / "a"))
    await sandbox.write_file(WriteFile(folder / "a/below", b""))
    await make_link(sandbox, folder, "c", "/nowhere/at/all")
    await backend.make_fifo(sandbox, folder / "d")

    entries = await sandbox.list_dir(ListDir(folder.path))

    assert [(entry.path, entry.kind) for entry in entries] == [
        (folder / "a", "directory"),
        (folder / "b", "file"),
        (folder / "c", "link"),
        (folder / "d", "other"),
    ]
    assert (entries[1].size, entries[1].mode) == (3, 0o640)
    assert entries[1].mtime_s > 1_600_000_000
    assert entries[2].size == len("/nowhere/at/all")


async def test_a_list_of_many_names_is_whole(sandbox, folder):
    names = [f"n{number:04}" for number in range(3000)]
    await sandbox.put([PutItem(f"{folder.name}/{name}", "file", 0o644) for name in names])
    assert [entry.path for entry in await sandbox.list_dir(ListDir(folder.path))] == [folder / name for name in names]


async def test_list_refuses(sandbox, folder, refusal):
    await sandbox.write_file(WriteFile(folder / "file", b""))
    await make_link(sandbox, folder, "link", ".")
    expected = {"missing": "ENOENT", "file": "ENOTDIR", "file/a": "ENOTDIR", "link": "ELOOP", "link/link": "ELOOP"}
    for name, number in expected.items():
        assert await refusal(sandbox.list_dir(ListDir(folder / name))) == number, name


# make_dir


async def test_make_dir_makes_parents_and_leaves_what_exists(sandbox, folder):
    await sandbox.make_dir(MakeDir(folder / "a/b/c"))
    await sandbox.write_file(WriteFile(folder / "a/b/c/file", b"kept"))
    await sandbox.make_dir(MakeDir(folder / "a/b/c"))
    await sandbox.make_dir(MakeDir(folder / "a"))
    assert await sandbox.read_file(ReadFile(folder / "a/b/c/file")) == b"kept"
    assert (await sandbox.stat(Stat(folder / "a/b"))).kind == "directory"


async def test_the_workspace_itself_exists(sandbox):
    await sandbox.make_dir(MakeDir("/workspace"))
    assert (await sandbox.stat(Stat("/workspace"))).kind == "directory"


async def test_make_dir_refuses(sandbox, folder, refusal):
    await sandbox.write_file(WriteFile(folder / "file", b""))
    await make_link(sandbox, folder, "link", ".")
    await make_link(sandbox, folder, "dangling", "nowhere")
    expected = {
        "file": "EEXIST",
        "file/a": "ENOTDIR",
        "file/a/b": "ENOTDIR",
        "link": "ELOOP",
        "link/a": "ELOOP",
        "dangling": "ELOOP",
        "n" * 256: "ENAMETOOLONG",
    }
    for name, number in expected.items():
        assert await refusal(sandbox.make_dir(MakeDir(folder / name))) == number, name
    assert len(await sandbox.list_dir(ListDir(folder.path))) == 3


# remove and stat


async def test_remove_takes_a_file_or_the_link_itself(sandbox, backend, folder, refusal):
    await sandbox.write_file(WriteFile(folder / "file", b"kept"))
    await sandbox.write_file(WriteFile(folder / "gone", b"", mode=0o000))
    await make_link(sandbox, folder, "link", "file")
    await backend.make_fifo(sandbox, folder / "fifo")
    for name in ("gone", "link", "fifo"):
        await sandbox.remove(Remove(folder / name))
        assert await refusal(sandbox.stat(Stat(folder / name))) == "ENOENT"
    assert await sandbox.read_file(ReadFile(folder / "file")) == b"kept"


async def test_remove_refuses(sandbox, folder, refusal):
    await sandbox.make_dir(MakeDir(folder / "directory"))
    await sandbox.write_file(WriteFile(folder / "file", b""))
    await make_link(sandbox, folder, "up", ".")
    expected = {"missing": "ENOENT", "directory": "EISDIR", "file/a": "ENOTDIR", "up/file": "ELOOP"}
    for name, number in expected.items():
        assert await refusal(sandbox.remove(Remove(folder / name))) == number, name
    assert len(await sandbox.list_dir(ListDir(folder.path))) == 3


async def test_stat_looks_at_a_link_and_not_through_it(sandbox, folder, refusal):
    await sandbox.write_file(WriteFile(folder / "file", b"123", mode=0o604))
    await make_link(sandbox, folder, "link", "file")
    await make_link(sandbox, folder, "up", ".")
    file, link = await sandbox.stat(Stat(folder / "file")), await sandbox.stat(Stat(folder / "link"))
    assert (file.path, file.kind, file.size, file.mode) == (folder / "file", "file", 3, 0o604)
    assert file.mtime_s > 1_600_000_000
    assert (link.path, link.kind, link.size) == (folder / "link", "link", 4)
    expected = {"missing": "ENOENT", "file/a": "ENOTDIR", "up/file": "ELOOP"}
    for name, number in expected.items():
        assert await refusal(sandbox.stat(Stat(folder / name))) == number, name


@pytest.mark.parametrize("target", ["/etc", "/", "..", "../../etc", "/proc/self", "/proc/1/root"])
async def test_a_link_out_of_the_workspace_is_never_followed(sandbox, folder, refusal, target):
    await make_link(sandbox, folder, "out", target)
    calls = [
        sandbox.read_file(ReadFile(folder / "out/passwd")),
        sandbox.write_file(WriteFile(folder / "out/passwd", b"")),
        sandbox.list_dir(ListDir(folder / "out")),
        sandbox.make_dir(MakeDir(folder / "out/new")),
        sandbox.remove(Remove(folder / "out/passwd")),
        sandbox.stat(Stat(folder / "out/passwd")),
    ]
    for call in calls:
        assert await refusal(call) == "ELOOP"
