"""WALL rules 6, 14 to 16: the workspace, paths by handle, work in slices, and readers that are slow."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import time

import pytest

from mindx.core.command import ListDir, MakeDir, ReadFile, Remove, Stat, WriteFile
from mindx.errors import FileError
from mindx.guest import wire
from mindx.sandbox.base import PutItem
from mindx.sandbox.channel import Answer
from tests.wall.support import MIB, Heard, python, sh

pytestmark = pytest.mark.anyio


async def ping(sandbox) -> float:
    """Return how long the guest takes to answer, in seconds."""
    answer = Answer(sandbox._channel, "", final=wire.PONG)
    began = time.monotonic()
    sandbox._channel.send(wire.PING, answer.request_id)
    await asyncio.wait_for(answer.result(), 30)
    return time.monotonic() - began


async def refused(call) -> str:
    with pytest.raises(FileError) as caught:
        await asyncio.wait_for(call, 10)
    return errno.errorcode[caught.value.errno]


async def test_rule_6_files_are_made_for_the_group(sandbox):
    result = await sandbox.execute(sh("umask; touch six; stat -c '%a %u %g' six; stat -c %a /workspace"))
    umask, made, _ = result.stdout_text.splitlines()
    assert (umask, made) == ("0002", f"664 {sandbox.ids.uid} {sandbox.ids.gid}")


async def test_rule_14_the_workspace_is_a_tmpfs_with_limits_and_runs_programs(sandbox):
    script = "grep ' /workspace ' /proc/self/mountinfo; printf '#!/bin/sh\\necho ran' > x; chmod +x x; ./x"
    result = await sandbox.execute(sh(script))
    mount, ran = result.stdout_text.splitlines()
    assert ran == "ran"
    assert "noexec" not in mount
    assert all(word in mount for word in ("tmpfs", "nosuid", "nodev", "size=", "nr_inodes=65536"))


@pytest.mark.parametrize(
    "path",
    [
        "/workspace/../etc/passwd",
        "/workspace/a/../../etc/passwd",
        "/etc/passwd",
        "/workspace-evil/x",
        "/workspace/",
        "/workspace//a",
        "/workspace/./a",
        "workspace/a",
        "",
        "/",
        "/proc/self/maps",
        "/workspace/a\0b",
        "/workspace/\udfff\ud800",
        "/workspace/" + "x" * 70_000,
        "/workspace/" + "/".join(["d" * 255] * 20),
    ],
)
async def test_rule_15_a_path_that_is_none_of_the_workspace_is_refused(sandbox, path):
    for call in (
        sandbox.read_file(ReadFile(path)),
        sandbox.write_file(WriteFile(path, b"x")),
        sandbox.list_dir(ListDir(path)),
        sandbox.stat(Stat(path)),
        sandbox.remove(Remove(path)),
    ):
        assert await refused(call) in {"EPERM", "EINVAL", "ENAMETOOLONG", "ENOENT"}
    if len(path) < 60_000 and "d" * 255 not in path:
        assert await refused(sandbox.make_dir(MakeDir(path))) in {"EPERM", "EINVAL"}


@pytest.mark.parametrize(
    "target",
    ["/proc/self/maps", "/proc/1/environ", "/etc/passwd", "/proc/self/fd/0", "/dev/zero", "/proc/self/mem"],
)
async def test_rule_15_a_planted_link_makes_no_deputy(sandbox, target):
    await sandbox.execute(sh(f"rm -rf fifteen; ln -s {target} fifteen"))
    assert await refused(sandbox.read_file(ReadFile("/workspace/fifteen"))) == "ELOOP"
    assert await refused(sandbox.write_file(WriteFile("/workspace/fifteen", b"x"))) == "ELOOP"
    link = next(entry for entry in await sandbox.manifest() if entry.path == "fifteen")
    assert (link.kind, link.target, link.sha256) == ("link", target, "")


async def test_rule_15_a_link_in_the_middle_is_not_walked(sandbox):
    await sandbox.execute(sh("rm -rf middle; ln -s /tmp middle; echo x > /tmp/seen"))
    for call in (
        sandbox.read_file(ReadFile("/workspace/middle/seen")),
        sandbox.write_file(WriteFile("/workspace/middle/new", b"x")),
        sandbox.make_dir(MakeDir("/workspace/middle/new")),
        sandbox.remove(Remove("/workspace/middle/seen")),
        sandbox.list_dir(ListDir("/workspace/middle")),
        sandbox.put([PutItem("middle/new", "file", 0o644, 1, lambda: [b"x"])]),
    ):
        assert await refused(call) == "ELOOP"
    assert (await sandbox.execute(sh("ls /tmp/new"))).exit_code != 0


async def test_rule_15_what_is_no_file_is_refused_at_once(sandbox):
    await sandbox.execute(
        sh("rm -f pipe sock; mkfifo pipe; python3 -c \"import socket; socket.socket(1).bind('sock')\"")
    )
    for name in ("pipe", "sock"):
        began = time.monotonic()
        assert await refused(sandbox.read_file(ReadFile(f"/workspace/{name}"))) in {"EINVAL", "ENXIO"}
        assert await refused(sandbox.write_file(WriteFile(f"/workspace/{name}", b"x"))) == "EINVAL"
        assert time.monotonic() - began < 20  # an open that waits does so for ever
    kinds = {entry.path: (entry.kind, entry.sha256) for entry in await sandbox.manifest()}
    assert (kinds["pipe"], kinds["sock"]) == (("other", ""), ("other", ""))


async def test_rule_15_the_guest_reads_as_the_files_owner(sandbox):
    await sandbox.write_file(WriteFile("/workspace/shut", b"x", mode=0))
    assert await refused(sandbox.read_file(ReadFile("/workspace/shut"))) == "EACCES"
    shut = next(entry for entry in await sandbox.manifest() if entry.path == "shut")
    assert (shut.mode, shut.sha256) == (0, hashlib.sha256(b"x").hexdigest())
    assert (await sandbox.stat(Stat("/workspace/shut"))).mode == 0


async def test_rule_16_the_guest_answers_while_it_lists(make):
    async with make(workspace_inodes=150_000, memory=2 << 30) as sandbox:
        code = "import os\nos.mkdir('many')\nfor n in range(100_001): os.close(os.open('many/%d' % n, os.O_CREAT))"
        assert (await sandbox.execute(python(code, timeout_s=60))).ok
        assert await refused(sandbox.list_dir(ListDir("/workspace/many"))) == "E2BIG"
        walking = asyncio.create_task(sandbox.manifest())
        answered = 0
        while not walking.done():
            await ping(sandbox)
            answered += 1
        assert len(await walking) == 100_002
        assert answered > 5  # beside a walk in one piece, whose length is the agent's choice, it is one or two
        assert await refused(sandbox.manifest(max_entries=1000)) == "E2BIG"


async def test_rule_16_names_are_bytes(sandbox):
    await sandbox.execute(
        python("import os; os.mkdir(b'n'); open(b'n/\\xff\\x1b[31m\\n', 'w'); open(b'n/\\xed\\xa0\\x80', 'w')")
    )
    listed = [entry.path for entry in await sandbox.list_dir(ListDir("/workspace/n"))]
    assert sorted(name.encode("utf-8", "surrogateescape") for name in listed) == [
        b"/workspace/n/\xed\xa0\x80",
        b"/workspace/n/\xff\x1b[31m\n",
    ]
    for path in listed:
        assert await sandbox.read_file(ReadFile(path)) == b""


async def test_deep_folders_of_long_names_are_refused_and_fill_nobodys_memory(make):
    async with make() as sandbox:
        code = """
import os
for _ in range(190):
    os.mkdir("d" * 255)
    os.chdir("d" * 255)
for n in range(3000):
    os.close(os.open("%d" % n, os.O_CREAT))
"""
        assert (await sandbox.execute(python(code))).ok
        assert await refused(sandbox.manifest()) == "E2BIG"
        assert (await sandbox.execute(sh("true"))).ok


async def test_a_folder_too_deep_to_enter_is_not_silently_empty(make):
    async with make() as sandbox:
        code = "import os\nfor _ in range(10_000):\n    os.mkdir('d')\n    os.chdir('d')"
        assert (await sandbox.execute(python(code))).ok
        found = await sandbox.manifest()
        assert {entry.kind for entry in found} == {"directory", "other"}
        assert max(found, key=lambda entry: len(entry.path)).kind == "other"


async def test_with_few_handles_the_manifest_fails_rather_than_lies(make):
    async with make(nofile=64) as sandbox:
        code = "import os\nfor _ in range(100):\n    os.mkdir('d')\n    os.chdir('d')\nopen('file', 'w')"
        assert (await sandbox.execute(python(code))).ok
        assert await refused(sandbox.manifest()) == "EMFILE"
        assert (await sandbox.execute(sh("true"))).ok


async def test_files_of_holes_keep_nobody_busy(make):
    async with make() as sandbox:
        code = """
import os
for name, size in [("exa", (1 << 63) - 1), ("tera", 1 << 40)] + [("m%d" % n, 200 << 20) for n in range(50)]:
    os.truncate(os.open(name, os.O_CREAT | os.O_RDWR), size)
"""
        assert (await sandbox.execute(python(code))).ok
        found = {entry.path: entry for entry in await asyncio.wait_for(sandbox.manifest(), 30)}
        assert (found["exa"].size, found["exa"].sha256) == ((1 << 63) - 1, "")
        assert await refused(sandbox.read_file(ReadFile("/workspace/exa", max_bytes=MIB))) == "EFBIG"


async def test_a_slow_consumer_stops_its_own_file_only(sandbox):
    await sandbox.execute(sh("head -c 64M /dev/zero > big"))
    reading = sandbox.fetch("/workspace/big", 64 * MIB)
    first = await anext(reading)
    for _ in range(3):
        assert (await asyncio.wait_for(sandbox.execute(sh("head -c 9M /dev/zero", timeout_s=2)), 10)).ok
    total = len(first)
    async for piece in reading:
        total += len(piece)
    assert total == 64 * MIB


async def test_a_consumer_that_leaves_leaves_nothing_running(sandbox):
    await sandbox.execute(sh("head -c 64M /dev/zero > big"))
    for _ in range(20):
        reading = sandbox.fetch("/workspace/big", 64 * MIB)
        await anext(reading)
        await reading.aclose()
    assert await ping(sandbox) < 5
    await asyncio.sleep(0.1)
    assert not sandbox._channel._requests


async def test_a_cancelled_write_leaves_no_part(sandbox):
    before = {entry.path for entry in await sandbox.list_dir(ListDir("/workspace"))}
    for turns in range(12):
        task = asyncio.create_task(sandbox.write_file(WriteFile("/workspace/cancelled", bytes(40 * MIB))))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await ping(sandbox)
    after = {entry.path for entry in await sandbox.list_dir(ListDir("/workspace"))}
    assert after - before <= {"/workspace/cancelled"}


async def test_a_copy_that_is_broken_off_is_given_up(sandbox):
    def broken():
        yield bytes(MIB)
        raise KeyError("the caller's own")

    with pytest.raises(KeyError):
        await sandbox.put([PutItem("half", "file", 0o644, 5 * MIB, broken)])
    await ping(sandbox)
    await asyncio.sleep(0.1)
    assert not sandbox._channel._requests
    assert (await sandbox.execute(sh("true"))).ok


async def test_file_work_while_a_program_runs(sandbox):
    heard = Heard()
    running = asyncio.create_task(sandbox.execute(sh("echo on; sleep 1"), heard))
    await heard.first()
    await sandbox.write_file(WriteFile("/workspace/beside", b"x"))
    assert await sandbox.read_file(ReadFile("/workspace/beside")) == b"x"
    assert not running.done()
    assert (await running).ok
