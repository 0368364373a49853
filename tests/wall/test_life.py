"""WALL rules 2 and 9 to 13: the ends of life of a container, and who else may touch it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from mindx.core.command import WriteFile
from mindx.core.receipt import ExitCause
from mindx.errors import SandboxError, SandboxLostError
from mindx.sandbox.owner import Owner
from tests.wall.support import MIB, Heard, children, exists, first_pid, only_ours, python, sh, until

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[2]
LATER = sh("sleep 60", timeout_s=None)

# A PID 1 that says "a spawn began", or "a deadline is due", or whose host has gone, and then waits for a child that
# never ends: only the watchdog can free it. What runs is the guest's own watchdog, in a container of the derived image.
WEDGED = """
import os, sys, time
sys.path.insert(0, "/mindx")
from guest import watchdog
watch = watchdog.Watch()
host, switch = os.pipe()
os.dup2(host, 0)
dog = watchdog.start(watch)
child = os.fork()
if child == 0:
    os.close(switch)
    time.sleep(30)
    os._exit(0)
began = time.monotonic()
if sys.argv[1] == "spawn":
    watch.spawn_begins()
elif sys.argv[1] == "hangup":
    os.close(switch)
elif sys.argv[1] == "deadline":
    watch.next_deadline(time.monotonic_ns())
elif sys.argv[1] == "heartbeat":
    watch.next_deadline(watchdog.NEVER)
pid, status = os.waitpid(child, 0 if sys.argv[1] != "heartbeat" else os.WNOHANG)
if sys.argv[1] == "heartbeat":
    time.sleep(1)
    pid, status = os.waitpid(child, os.WNOHANG)
print(pid == child, os.WTERMSIG(status), time.monotonic() - began, os.waitpid(dog, os.WNOHANG)[0])
"""

# A client that starts a session, says its name, and waits to be killed.
CLIENT = """
import asyncio, sys
from mindx.core.command import Exec
from mindx.sandbox.docker import DockerSandbox
async def main():
    sandbox = DockerSandbox()
    await sandbox.start()
    print(sandbox.session_id, flush=True)
    await sandbox.execute(Exec(("sleep", "60"), timeout_s=None))
asyncio.run(main())
"""


def run_wedged(engine, image, how: str) -> list[str]:
    container = engine.containers.create(
        image.image_id,
        entrypoint=[image.python, "-I", "-S", "-B", "-c", WEDGED],
        command=[how],
        stdin_open=True,
        network_mode="none",
    )
    try:
        container.start()
        container.wait(timeout=30)
        return container.logs().decode().split()
    finally:
        container.remove(force=True)


@pytest.mark.parametrize("how", ["spawn", "deadline", "hangup"])
async def test_rule_2_the_watchdog_frees_what_is_overdue(engine, derived_image, how):
    freed, number, seconds, dog = await asyncio.to_thread(run_wedged, engine, derived_image, how)
    assert (freed, number, dog) == ("True", "9", "0")
    assert (1 if how == "spawn" else 0.25) <= float(seconds) < 5


async def test_rule_2_without_anything_overdue_the_watchdog_does_nothing(engine, derived_image):
    freed, *_, dog = await asyncio.to_thread(run_wedged, engine, derived_image, "heartbeat")
    assert (freed, dog) == ("False", "0")


async def test_rule_9_a_stalled_reader_loses_no_byte(make):
    async with make(output=64 * MIB) as sandbox:
        code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * (24 << 12))"
        task = asyncio.create_task(sandbox.execute(python(code, max_output_bytes=64 * MIB)))
        await asyncio.sleep(0.1)
        time.sleep(3)  # noqa: ASYNC251 - this host reads nothing for a while
        result = await task
        assert result.stdout == bytes(range(256)) * (24 << 12)


async def test_rule_9_the_guest_waits_with_its_end_until_the_host_has_all(make):
    async with make() as sandbox:
        heard = Heard()
        running = asyncio.create_task(sandbox.execute(sh("yes", timeout_s=None), heard))
        await heard.first()
        sandbox._channel._transport.pause_reading()
        closing = asyncio.create_task(sandbox.close())
        await asyncio.sleep(1)
        sandbox._channel._transport.resume_reading()
        await closing
        assert not sandbox._channel.error or sandbox._channel.error.code != "protocol_broken"
        with pytest.raises(SandboxLostError):
            await running


async def start_client(code: str = CLIENT) -> tuple[asyncio.subprocess.Process, str]:
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    line = (await asyncio.wait_for(client.stdout.readline(), 60)).decode().strip()
    assert line, (await client.stderr.read()).decode()
    return client, f"mindx-{line}"


async def test_rule_10_the_container_is_gone_when_its_host_is_killed(engine, derived_image):
    client, name = await start_client()
    assert exists(engine, name)
    client.kill()
    await client.communicate()
    assert await until(lambda: not exists(engine, name)) < 5


async def test_rule_10_a_container_that_nobody_greets_ends(engine, make):
    sandbox = make()
    sandbox._greet = lambda: asyncio.sleep(3600)
    starting = asyncio.create_task(sandbox.start())
    await until(lambda: bool(sandbox.container_id) and len(sandbox.container_id) == 64, 30)
    assert 5 < await until(lambda: not exists(engine, sandbox.container_id), 30) < 20
    starting.cancel()
    await asyncio.wait({starting})


async def test_rule_10_a_silent_host_loses_its_lease(engine, make, monkeypatch):
    monkeypatch.setattr("mindx.sandbox.docker.LEASE_S", 2.0)
    sandbox = make()
    sandbox._beat = lambda: None
    await sandbox.start()
    try:
        with pytest.raises(SandboxLostError) as caught:
            await asyncio.wait_for(sandbox.execute(LATER), 10)
        assert "host" in str(caught.value)
        await until(lambda: not exists(engine, sandbox.container_id))
    finally:
        await sandbox.close()


async def test_rule_10_the_heartbeat_keeps_the_lease(make, monkeypatch):
    monkeypatch.setattr("mindx.sandbox.docker.LEASE_S", 1.0)
    async with make() as sandbox:
        assert (await sandbox.execute(sh("sleep 2.5"))).ok


async def test_rule_11_a_pause_moves_the_deadlines(engine, make):
    async with make() as sandbox:
        heard = Heard()
        # It counts its own turns, so that the pause is none of its time.
        code = "import time; print('on', flush=True)\nfor _ in range(8): time.sleep(0.1)"
        task = asyncio.create_task(sandbox.execute(python(code, timeout_s=2.5), heard))
        await heard.first()
        engine.api.pause(sandbox.container_id)
        await asyncio.sleep(4)
        engine.api.unpause(sandbox.container_id)
        result = await task
        assert result.ok, result.receipt
        late = await sandbox.execute(sh("sleep 30", timeout_s=0.3))
        assert late.exit_cause is ExitCause.TIMEOUT


async def test_rule_11_a_paused_container_can_be_closed(engine, make):
    sandbox = make()
    await sandbox.start()
    engine.api.pause(sandbox.container_id)
    task = asyncio.create_task(sandbox.write_file(WriteFile("/workspace/big", bytes(32 * MIB))))
    await asyncio.sleep(0.2)
    await asyncio.wait_for(sandbox.close(), 30)
    assert not exists(engine, sandbox.container_id)
    with pytest.raises(SandboxLostError):
        await task


@pytest.mark.parametrize("touch", ["exec", "attach"])
async def test_rule_12_a_foreign_hand_ends_the_session(engine, make, touch):
    async with make() as sandbox:
        running = asyncio.create_task(sandbox.execute(LATER))
        await asyncio.sleep(0.1)
        if touch == "exec":
            engine.api.exec_create(sandbox.container_id, ["true"])
        else:
            stream = engine.api.attach_socket(sandbox.container_id, params={"stdout": 1, "stream": 1})
            stream._sock.close()
            stream.close()
        with pytest.raises(SandboxLostError) as caught:
            await asyncio.wait_for(running, 10)
        assert caught.value.code == "foreign_access"
    assert not exists(engine, sandbox.container_id)


async def test_rule_12_a_session_beside_is_not_meant(engine, make):
    async with make() as first, make() as second:
        engine.api.exec_create(first.container_id, ["true"])
        await asyncio.wait_for(first._channel.ended.wait(), 10)
        assert (await second.execute(sh("true"))).ok


async def test_rule_13_the_error_says_that_pid_1_was_killed(engine, make):
    async with make() as sandbox:
        running = asyncio.create_task(sandbox.execute(LATER))
        await asyncio.sleep(0.1)
        os.kill(first_pid(engine, sandbox), signal.SIGKILL)
        with pytest.raises(SandboxLostError) as caught:
            await asyncio.wait_for(running, 10)
        assert (caught.value.code, "137" in str(caught.value)) == ("container_gone", True)
        with pytest.raises(SandboxLostError):
            await sandbox.execute(sh("true"))


async def test_rule_13_a_container_that_is_removed_under_us(engine, make):
    async with make() as sandbox:
        running = asyncio.create_task(sandbox.execute(LATER))
        await asyncio.sleep(0.1)
        engine.api.remove_container(sandbox.container_id, force=True)
        with pytest.raises(SandboxLostError) as caught:
            await asyncio.wait_for(running, 10)
        assert "137" in str(caught.value)


async def test_rule_2_the_deadline_frees_even_a_stopped_pid_1(engine, make):
    """Somebody stops PID 1 from outside: the host's own clock gives it up, and the container goes."""
    sandbox = make()
    await sandbox.start()
    pid = first_pid(engine, sandbox)
    heard = Heard()
    task = asyncio.create_task(sandbox.execute(sh("echo on; sleep 60", timeout_s=1), heard))
    await heard.first()
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(SandboxLostError) as caught:
        await asyncio.wait_for(task, 20)
    assert caught.value.code == "guest_late"
    await asyncio.wait_for(sandbox.close(), 20)
    assert not exists(engine, sandbox.container_id)


async def test_nothing_but_ours_lives_in_an_idle_container(engine, sandbox):
    assert only_ours(engine, sandbox)
    assert len(children(first_pid(engine, sandbox))) == 1


async def test_labels_name_this_process(engine, sandbox):
    labels = engine.api.inspect_container(sandbox.container_id)["Config"]["Labels"]
    assert Owner.from_labels(labels) == Owner.me()
    assert labels["mindx.session"] == sandbox.session_id
    assert json.dumps(labels)
    assert socket.gethostname() not in json.dumps(labels)


async def test_a_start_that_fails_leaves_nothing(engine, make, monkeypatch):
    def refuse(*_: object) -> None:
        raise SandboxError("refused", "for a test")

    sandbox = make()
    monkeypatch.setattr(sandbox, "_beat", refuse)
    with pytest.raises(SandboxError):
        await sandbox.start()
    assert sandbox.container_id
    assert not exists(engine, sandbox.container_id)
