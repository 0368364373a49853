"""The contract of start and close, and of a sandbox that has ended."""

from __future__ import annotations

import asyncio

import pytest

from mindx.core.command import Exec, ListDir, MakeDir, ReadFile, Remove, Stat, WriteFile
from mindx.errors import SandboxError, SandboxLostError

pytestmark = pytest.mark.anyio


def every_call(sandbox):
    async def fetch() -> None:
        async for _ in sandbox.fetch("/workspace/a", 1):
            pass

    return {
        "execute": lambda: sandbox.execute(Exec(("true",))),
        "read_file": lambda: sandbox.read_file(ReadFile("/workspace/a")),
        "write_file": lambda: sandbox.write_file(WriteFile("/workspace/a", b"")),
        "list_dir": lambda: sandbox.list_dir(ListDir("/workspace")),
        "make_dir": lambda: sandbox.make_dir(MakeDir("/workspace/a")),
        "remove": lambda: sandbox.remove(Remove("/workspace/a")),
        "stat": lambda: sandbox.stat(Stat("/workspace")),
        "put": lambda: sandbox.put([]),
        "fetch": fetch,
        "manifest": sandbox.manifest,
    }


async def test_close_twice_and_at_once(backend):
    sandbox = backend.make()
    await sandbox.start()
    await asyncio.gather(sandbox.close(), sandbox.close())
    await sandbox.close()


async def test_close_without_a_start(backend):
    sandbox = backend.make()
    await sandbox.close()
    await sandbox.close()


async def test_every_call_after_the_end_says_that_it_is_gone(backend):
    async with backend.make() as sandbox:
        assert (await sandbox.execute(Exec(("true",)))).ok
    for name, call in every_call(sandbox).items():
        with pytest.raises(SandboxLostError) as caught:
            await asyncio.wait_for(call(), 10)
        assert caught.value.code, name
        assert str(caught.value), name


async def test_every_call_before_the_start_says_so(backend):
    sandbox = backend.make()
    for name, call in every_call(sandbox).items():
        with pytest.raises(SandboxError) as caught:
            await asyncio.wait_for(call(), 10)
        assert caught.value.code, name
    await sandbox.close()


async def test_a_second_start_is_refused_and_does_no_harm(backend):
    async with backend.make() as sandbox:
        with pytest.raises(SandboxError):
            await sandbox.start()
        assert (await sandbox.execute(Exec(("true",)))).ok


async def test_closing_ends_the_running_and_the_queued_command(backend):
    heard = asyncio.Event()
    sandbox = backend.make()
    await sandbox.start()
    running = asyncio.create_task(sandbox.execute(Exec(("yes",), timeout_s=None), lambda *_: heard.set()))
    await asyncio.wait_for(heard.wait(), 10)
    queued = asyncio.create_task(sandbox.execute(Exec(("true",))))
    await asyncio.sleep(0)
    await asyncio.wait_for(sandbox.close(), 10)
    for task in (running, queued):
        with pytest.raises(SandboxLostError):
            await asyncio.wait_for(task, 10)


async def test_two_sandboxes_share_nothing(backend):
    async with backend.make() as first, backend.make() as second:
        await first.write_file(WriteFile("/workspace/a", b"first"))
        assert await second.list_dir(ListDir("/workspace")) == []


async def test_a_new_workspace_is_empty_and_writable(backend):
    async with backend.make() as sandbox:
        assert await sandbox.manifest() == []
        assert (await sandbox.stat(Stat("/workspace"))).kind == "directory"
        await sandbox.write_file(WriteFile("/workspace/a", b""))
        assert [entry.path for entry in await sandbox.manifest()] == ["a"]
