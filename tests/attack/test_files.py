"""Sections A, B and J of the attacks: files of the host, races on paths, and what a tar could do."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterator

import pytest

from mindx.core.command import ListDir, ReadFile, Remove, WriteFile
from mindx.errors import FileError, MindxError
from mindx.sandbox import docker as docker_module
from mindx.sandbox.base import PutItem
from tests.wall.support import MIB, Heard, exists, python, sh

pytestmark = pytest.mark.anyio
REFUSED = {"EPERM", "EINVAL", "ELOOP", "ENOENT", "ENAMETOOLONG", "EISDIR", "ENOTDIR", "ENXIO", "EACCES"}


async def outcome(call) -> str | bytes:
    """Return what a file operation gave, or the name of its system error."""
    try:
        return await asyncio.wait_for(call, 10)
    except FileError as error:
        return errno.errorcode[error.errno]


@pytest.mark.parametrize(
    "path", ["/workspace/../../x", "/workspace/a/../../etc/passwd", "../../x", "a/../../etc/passwd"]
)
async def test_a1_relative_traversal(sandbox, path):
    assert await outcome(sandbox.write_file(WriteFile(path, b"x"))) in REFUSED
    assert await outcome(sandbox.read_file(ReadFile(path))) in REFUSED


@pytest.mark.parametrize("path", ["/workspace-evil/x", "/workspacex", "/etc/passwd", "/tmp/home/x", "//workspace/x"])
async def test_a2_absolute_paths_and_sibling_prefixes(sandbox, path):
    assert await outcome(sandbox.read_file(ReadFile(path))) in REFUSED
    assert await outcome(sandbox.write_file(WriteFile(path, b"x"))) in REFUSED


async def test_a3_a_link_to_a_secret(sandbox):
    canary = "canary-" + os.urandom(8).hex()
    await sandbox.execute(
        sh(f"mkdir -p /tmp/home/.ssh; echo {canary} > /tmp/home/.ssh/id_rsa; ln -sf /tmp/home/.ssh/id_rsa key")
    )
    assert await outcome(sandbox.read_file(ReadFile("/workspace/key"))) == "ELOOP"
    assert [piece async for piece in swallow(sandbox.fetch("/workspace/key", MIB))] == []
    entry = next(entry for entry in await sandbox.manifest() if entry.path == "key")
    assert (entry.kind, entry.sha256, entry.target) == ("link", "", "/tmp/home/.ssh/id_rsa")


async def swallow(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for piece in pieces:
            yield piece
    except FileError:
        return


async def test_a4_writing_through_a_linked_directory(sandbox):
    await sandbox.execute(sh("rm -rf d; ln -s / d"))
    for path in ("/workspace/d/tmp/x", "/workspace/d/workspace/x"):
        assert await outcome(sandbox.write_file(WriteFile(path, b"x"))) == "ELOOP"
    put = sandbox.put([PutItem("d/tmp/x", "file", 0o644, 1, lambda: [b"x"])])
    assert await outcome(put) == "ELOOP"
    assert (await sandbox.execute(sh("test -e /tmp/x"))).exit_code == 1


@pytest.mark.parametrize(
    "place", ["/proc/self/root", "/proc/1/root", "/proc/self/cwd", "/proc/self/fd/0", "/proc/1/cwd"]
)
async def test_a6_magic_links_as_path_and_as_cwd(sandbox, place):
    assert await outcome(sandbox.read_file(ReadFile(place))) in REFUSED
    result = await sandbox.execute(sh("pwd", cwd=place))
    assert (result.exit_code, result.stdout) == (None, b"")
    await sandbox.execute(sh(f"rm -f magic; ln -s {place} magic"))
    assert await outcome(sandbox.list_dir(ListDir("/workspace/magic"))) == "ELOOP"
    result = await sandbox.execute(sh("pwd", cwd="/workspace/magic"))
    assert (result.exit_code, result.stdout) == (None, b"")


async def test_a9_no_mount_tells_of_the_host(sandbox):
    result = await sandbox.execute(sh("cat /proc/self/mountinfo /proc/mounts"))
    for word in ("/home/", "/root", os.environ.get("USER", "nobody-at-all") + "/", os.getcwd()):
        assert word not in result.stdout_text
    sources = {line.split(" - ")[0].split()[3] for line in result.stdout_text.splitlines() if " - " in line}
    assert not [source for source in sources if source.startswith("/home")]


RACE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("race/real", exist_ok=True)
open("race/real/file", "w").write("inside")
os.makedirs("/tmp/outside", exist_ok=True)
open("/tmp/outside/file", "w").write("outside")
os.path.lexists("race/link") or os.symlink("/tmp/outside", "race/link")
print("on", flush=True)
while True:
    libc.renameat2(-100, b"race/real", -100, b"race/link", 2)
"""


async def test_b1_a_directory_swapped_for_a_link_while_it_is_read(make):
    """10^5 tries here, each a walk of its own; the soak makes 10^6."""
    async with make() as sandbox:
        heard = Heard()
        race = asyncio.create_task(sandbox.execute(python(RACE, timeout_s=None), heard))
        await heard.first()
        counts: dict[str | bytes, int] = {}
        for _ in range(1000):
            batch = [outcome(sandbox.read_file(ReadFile("/workspace/race/real/file"))) for _ in range(100)]
            for found in await asyncio.gather(*batch):
                counts[found] = counts.get(found, 0) + 1
        race.cancel()
        await asyncio.wait({race})
    assert set(counts) <= {b"inside", "ELOOP", "ENOTDIR"}  # the last: a link when opened, a folder again when asked
    assert counts[b"inside"] > 50
    assert counts["ELOOP"] > 50


@pytest.mark.parametrize("kind", ["fifo", "socket", "link to /dev/zero", "link to a fifo", "directory"])
async def test_b7_what_is_no_file_where_a_file_is_expected(sandbox, kind):
    make = {
        "fifo": "mkfifo b7",
        "socket": "python3 -c \"import socket; socket.socket(1).bind('b7')\"",
        "link to /dev/zero": "ln -s /dev/zero b7",
        "link to a fifo": "mkfifo b7x; ln -s b7x b7",
        "directory": "mkdir b7",
    }[kind]
    assert (await sandbox.execute(sh(f"rm -rf b7 b7x; {make}"))).ok
    began = time.monotonic()
    assert await outcome(sandbox.read_file(ReadFile("/workspace/b7"))) in REFUSED
    assert await outcome(sandbox.write_file(WriteFile("/workspace/b7", b"x"))) in REFUSED
    assert [piece async for piece in swallow(sandbox.fetch("/workspace/b7", MIB))] == []
    if kind == "directory":
        assert await outcome(sandbox.remove(Remove("/workspace/b7"))) == "EISDIR"
    assert time.monotonic() - began < 20  # an open that waits does so for ever


def test_j5_there_is_no_tar_to_unpack():
    """Files come back by path, one request each; the engine's archive calls are not used anywhere."""
    folder = os.path.dirname(docker_module.__file__)
    for name in os.listdir(folder):
        if name in ("docker.py", "entries.py", "channel.py", "execution.py"):
            with open(os.path.join(folder, name)) as file:
                text = file.read()
            assert "tarfile" not in text
            assert "get_archive" not in text


async def test_j6_an_upload_through_a_planted_link(sandbox):
    await sandbox.execute(sh("rm -rf l; ln -s /etc l"))
    assert await outcome(sandbox.put([PutItem("l/z", "file", 0o644, 1, lambda: [b"x"])])) == "ELOOP"
    assert await outcome(sandbox.write_file(WriteFile("/workspace/l/z", b"x"))) == "ELOOP"
    assert (await sandbox.execute(sh("ls /etc/z"))).exit_code != 0


async def test_j6_the_engines_own_upload_ends_the_session(engine, make):
    async with make() as sandbox:
        await sandbox.execute(sh("ln -s /etc l"))
        with pytest.raises(Exception, match=r"read-only|Could not find"):
            engine.api.put_archive(sandbox.container_id, "/workspace/l", b"\0" * 1024)
        try:
            assert (await sandbox.execute(sh("ls /etc/z"))).exit_code != 0
        except MindxError as error:
            assert error.code == "foreign_access"  # noqa: PT017 - either end is right
    assert not exists(engine, sandbox.container_id)
