"""WALL rule 6: background commands have a user of their own, and neither side can harm the other."""

from __future__ import annotations

import asyncio

import pytest

from mindx.core.command import ReadFile, WriteFile
from mindx.core.receipt import ExitCause
from mindx.errors import SandboxError
from tests.wall.support import STORM, Heard, only_ours, python, sh, top, until

pytestmark = pytest.mark.anyio


async def first_output(sandbox, name: str) -> bytes:
    for _ in range(1000):
        state = await sandbox.poll_background(name)
        if state.stdout or not state.running:
            return state.stdout
        await asyncio.sleep(0.01)
    raise AssertionError("it said nothing")


async def test_rule_6_a_user_and_a_home_of_its_own_and_the_sessions_group(make):
    async with make(background=2) as sandbox:
        script = "id -u; id -g; whoami; umask; echo $HOME; stat -c '%a %U' $HOME; echo x > /workspace/made; sleep 100"
        name = await sandbox.start_background(sh(script, timeout_s=None))
        await until_lines(sandbox, name, 6)
        lines = (await sandbox.poll_background(name)).stdout.decode().splitlines()
        uid, gid = sandbox.ids.uid, sandbox.ids.gid
        assert lines == [str(uid + 1), str(gid), "agent1", "0002", "/tmp/home-1", "700 agent1"]
        await asyncio.sleep(0.05)
        assert await sandbox.read_file(ReadFile("/workspace/made")) == b"x\n"
        assert (await sandbox.execute(sh("echo y >> made && rm made"))).ok


async def until_lines(sandbox, name: str, count: int) -> None:
    for _ in range(1000):
        if (await sandbox.poll_background(name)).stdout.count(b"\n") >= count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not say enough")


async def test_rule_6_a_sweep_hits_nobody_else(engine, make):
    async with make(background=3) as sandbox:
        two = sh("echo on; sleep 1000 & sleep 1000", timeout_s=None)
        names = [await sandbox.start_background(two) for _ in range(3)]
        for name in names:
            await first_output(sandbox, name)
        result = await sandbox.execute(sh("kill -9 -1; sleep 1", timeout_s=2))
        assert result.exit_cause is ExitCause.EXIT  # it spares the one who sends it, and reaches no other user
        stopped = await sandbox.stop_background(names[1])
        assert stopped.result.receipt.killed_count >= 2
        assert [(await sandbox.poll_background(name)).running for name in names] == [True, False, True]
        for name in names:
            await sandbox.stop_background(name)
        assert only_ours(engine, sandbox), top(engine, sandbox)


async def test_rule_1_a_storm_of_another_user_does_not_stop_a_spawn(make):
    async with make(background=1) as sandbox:
        name = await sandbox.start_background(python(STORM, timeout_s=None))
        await first_output(sandbox, name)
        for _ in range(100):
            assert (await asyncio.wait_for(sandbox.execute(sh("true")), 5)).ok
        state = await sandbox.stop_background(name)
        assert state.result.exit_cause is ExitCause.CANCELLED, state.result.receipt


async def test_nobody_can_write_into_anothers_output(make):
    async with make(background=1) as sandbox:
        forger = """
import os
print("on", flush=True)
while True:
    for pid in os.listdir("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            try:
                with open("/proc/%s/fd/1" % pid, "wb", buffering=0) as out: out.write(b"FORGED\\n")
            except OSError: pass
"""
        name = await sandbox.start_background(python(forger, timeout_s=None))
        await first_output(sandbox, name)
        for _ in range(10):
            assert (await sandbox.execute(sh("sleep 0.05; echo true"))).stdout == b"true\n"


async def test_a_pipe_that_was_given_away_holds_nobody_up(make):
    """A foreground command hands its stdout to a background one, which floods it for ever."""
    receive = """
import array, os, socket
s = socket.socket(socket.AF_UNIX)
s.bind("/workspace/s")
os.chmod("/workspace/s", 0o777)
s.listen()
print("on", flush=True)
while True:
    c, _ = s.accept()
    _, extra, _, _ = c.recvmsg(1, 100)
    handle = array.array("i", extra[0][2])[0]
    os.set_blocking(handle, False)
    while True:
        try: os.write(handle, b"x" * 65536)
        except BlockingIOError: pass
        except OSError: break
"""
    give = """
import array, socket, time
s = socket.socket(socket.AF_UNIX)
s.connect("/workspace/s")
s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
time.sleep(0.3)
"""
    async with make(background=1) as sandbox:
        name = await sandbox.start_background(python(receive, timeout_s=None))
        await first_output(sandbox, name)
        result = await asyncio.wait_for(sandbox.execute(python(give, max_output_bytes=1000)), 10)
        assert result.exit_cause is ExitCause.EXIT
        assert (await sandbox.execute(sh("true"))).ok
        assert (await sandbox.stop_background(name)).result.exit_cause is ExitCause.CANCELLED


async def test_a_bomb_in_the_background_leaves_the_foreground_a_typed_error(engine, make):
    async with make(background=1) as sandbox:
        bomb = """
import os, time
while True:
    try:
        os.fork() or os.setsid()
    except OSError:
        print("full", flush=True)
        time.sleep(0.01)
"""
        name = await sandbox.start_background(python(bomb, timeout_s=None))
        await first_output(sandbox, name)
        task = asyncio.create_task(sandbox.execute(sh("true", timeout_s=5)))
        await asyncio.wait({task}, timeout=15)
        error = task.exception()
        assert error is None or (isinstance(error, SandboxError) and error.code == "spawn_failed")
        assert (await sandbox.stop_background(name)).result.receipt.killed_count > 50
        assert (await sandbox.execute(sh("true"))).ok
        assert only_ours(engine, sandbox)


async def test_the_foreground_flood_and_the_background_share_the_stream(make):
    async with make(background=1) as sandbox:
        name = await sandbox.start_background(sh("while :; do echo tick; sleep 0.05; done", timeout_s=None))
        heard = Heard()
        result = await sandbox.execute(sh("head -c 50M /dev/zero; sleep 0.3", max_output_bytes=1000), heard)
        assert result.receipt.stdout_bytes == 50 << 20
        await sandbox.write_file(WriteFile("/workspace/x", b"x"))
        assert (await sandbox.poll_background(name)).stdout.count(b"tick") >= 3


async def test_at_the_end_nothing_is_left(engine, make):
    sandbox = make(background=15)
    await sandbox.start()
    for _ in range(15):
        await sandbox.start_background(sh("sleep 1000", timeout_s=None))
    await sandbox.close()
    await until(lambda: not engine.api.containers(all=True, filters={"label": f"mindx.session={sandbox.session_id}"}))
