"""Cancelled or killed at any moment, nothing is left; gc takes only what is provably ours and dead."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import docker
import docker.errors
import pytest

from mindx.core.command import ReadFile, WriteFile
from mindx.errors import MindxError, SandboxLostError
from mindx.sandbox import runtimes
from mindx.sandbox.base import PutItem
from mindx.sandbox.build_leftovers import container_name, dead_folders
from mindx.sandbox.container import ContainerSettings, labels
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.engine import connect_place
from mindx.sandbox.gc import collect, find_leftovers, is_local
from mindx.sandbox.owner import Owner, start_time
from tests.wall.support import MIB, exists, first_pid, only_ours, sh, until
from tests.wall.test_life import CLIENT, ROOT

pytestmark = pytest.mark.anyio
SEED = 20_261_130


async def a_whole_session(sandbox: DockerSandbox, *, stays: bool = False) -> None:
    """Walk through every phase; one that `stays` does not end by itself."""
    async with sandbox:
        await sandbox.put([PutItem("a", "file", 0o644, 3 * MIB, lambda: [bytes(MIB)] * 3)])
        await sandbox.execute(sh("seq 1000; sleep 0.05"))
        await sandbox.write_file(WriteFile("/workspace/b", bytes(MIB)))
        await sandbox.read_file(ReadFile("/workspace/a"))
        async for _ in sandbox.fetch("/workspace/a", 4 * MIB):
            pass
        await sandbox.manifest()
        if stays:
            await asyncio.Event().wait()


async def test_cancelled_at_any_moment_no_container_is_left(engine, make):
    chance = random.Random(SEED)
    for turn in range(40):
        sandbox = make()
        task = asyncio.create_task(a_whole_session(sandbox))
        # Early moments are where a half-made container can get lost.
        await asyncio.sleep(chance.uniform(0, 0.25 if turn % 2 else 0.9))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, 30)
        assert not exists(engine, f"mindx-{sandbox.session_id}"), turn


async def test_cancelled_twice_it_still_cleans_up(engine, make):
    for turn in range(8):
        sandbox = make()
        task = asyncio.create_task(a_whole_session(sandbox, stays=True))
        await asyncio.sleep(0.05 * turn)
        for _ in range(50):
            task.cancel()
            await asyncio.sleep(0.001)
        await asyncio.wait({task}, timeout=30)
        assert task.cancelled()
        assert not exists(engine, f"mindx-{sandbox.session_id}")


async def test_a_start_that_is_cancelled_needs_no_close(engine, make):
    chance = random.Random(SEED)
    for _ in range(10):
        sandbox = make()
        task = asyncio.create_task(sandbox.start())
        await asyncio.sleep(chance.uniform(0, 0.3))
        task.cancel()
        await asyncio.wait({task}, timeout=30)
        if task.cancelled():
            assert not exists(engine, f"mindx-{sandbox.session_id}")
        await sandbox.close()


def ours(engine, pid: int) -> list[str]:
    """Return the names of the containers that a process of this machine owns, in any state."""
    found = engine.api.containers(all=True, filters={"label": f"mindx.pid={pid}"})
    return [one["Names"][0] for one in found if one["Labels"].get("mindx.boot_id") == Owner.me().boot_id]


async def test_25_clients_killed_at_random_leave_nothing(engine, derived_image):
    chance = random.Random(SEED)

    async def one(alive_s: float) -> int:
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, cwd=ROOT, stdout=asyncio.subprocess.DEVNULL
        )
        await asyncio.sleep(alive_s)
        client.kill()
        await client.wait()
        return client.pid

    pids = []
    for _ in range(5):
        pids += await asyncio.gather(*(one(chance.uniform(0.3, 2.5)) for _ in range(5)))

    def running() -> bool:
        listed = engine.api.containers(filters={"label": "mindx.session"})
        return any(int(one["Labels"].get("mindx.pid", "0")) in pids for one in listed)

    await until(lambda: not running(), 5)
    await asyncio.to_thread(lambda: collect(engine, find_leftovers(engine)))
    assert [name for pid in pids for name in ours(engine, pid)] == []


@contextlib.contextmanager
def made_by_hand(engine, image, session_id: str, owner: Owner, *, guest: bool = True, **changes: str):
    """Create a container that says it is a session's of `owner`."""
    program = ["/usr/bin/python3", "-I", "-S", "-E", "-B", "/mindx/guest/__main__.py"] if guest else ["sleep", "600"]
    made = engine.containers.create(
        image.image_id,
        entrypoint=program,
        name=changes.pop("name", f"mindx-{session_id}"),
        labels={**labels(session_id, owner, ContainerSettings()), **changes},
        stdin_open=True,
        network_mode="none",
    )
    try:
        yield made
    finally:
        with contextlib.suppress(Exception):
            made.remove(force=True)


@contextlib.contextmanager
def mortal_owner():
    """An owner that lives until it is told to die: until then no sweep of another test takes what it left."""
    child = subprocess.Popen(["sleep", "600"])
    try:
        me = Owner.me()
        owner = Owner(me.machine_id, me.boot_id, me.pid_namespace, child.pid, start_time(child.pid))
        yield owner, lambda: (child.kill(), child.wait())
    finally:
        child.kill()
        child.wait()


def dead_owner() -> Owner:
    ended = subprocess.Popen(["true"])
    ended.wait()
    me = Owner.me()
    return Owner(me.machine_id, me.boot_id, me.pid_namespace, ended.pid, "1")


@pytest.mark.parametrize("state", ["created", "running", "paused"])
def test_gc_removes_what_is_ours_and_dead_in_every_state(engine, derived_image, state):
    session_id = os.urandom(8).hex()
    with mortal_owner() as (owner, die), made_by_hand(engine, derived_image, session_id, owner) as made:
        if state != "created":
            made.remove(force=True)
            made = engine.containers.create(
                derived_image.image_id,
                entrypoint=["sh", "-c", "exec sleep 600 # /mindx/guest/__main__.py"],
                name=f"mindx-{session_id}",
                labels=labels(session_id, owner, ContainerSettings()),
                network_mode="none",
            )
            made.start()
        if state == "paused":
            made.pause()
        assert made.id not in [one.container_id for one in find_leftovers(engine)]
        die()
        found = [one for one in find_leftovers(engine) if one.session_id == session_id]
        assert [one.state for one in found] == [state]
        assert collect(engine, found) == found
        assert not exists(engine, made.id)
        assert collect(engine, found) == found  # gone already is gone


def test_gc_knows_the_smoke_test_of_a_runtime_and_what_a_build_left(engine, derived_image):
    with mortal_owner() as (owner, die), contextlib.ExitStack() as made:
        name, session_id = container_name(owner), os.urandom(8).hex()
        request = runtimes._request("runc", derived_image, session_id)
        request["Labels"].update(owner.labels())
        smoke = engine.api.create_container_from_config(request, f"mindx-{session_id}")["Id"]
        made.callback(remove, engine, smoke)
        seal = ["python3", "-I", "-S", "/mindx/seal.py"]
        build = engine.api.create_container(derived_image.image_id, entrypoint=seal, name=name)["Id"]
        made.callback(remove, engine, build)
        look = engine.api.create_container(derived_image.image_id, entrypoint=["true"], name=container_name(owner))[
            "Id"
        ]
        made.callback(remove, engine, look)
        other = engine.api.create_container(
            derived_image.image_id, entrypoint=["sleep"], name=container_name(dead_owner())
        )["Id"]
        made.callback(remove, engine, other)
        before = {one.container_id for one in find_leftovers(engine)}
        assert not before & {smoke, build, look, other}
        die()
        found = [one for one in find_leftovers(engine) if one.container_id in (smoke, build, look, other)]
        assert {one.container_id for one in found} == {smoke, build, look}
        collect(engine, found)
        assert [exists(engine, one) for one in (smoke, build, look, other)] == [False, False, False, True]


def remove(engine, container_id: str) -> None:
    with contextlib.suppress(docker.errors.NotFound):
        engine.api.remove_container(container_id, force=True)


NEXT_START = """
import asyncio, sys
from mindx.sandbox import gc
from mindx.sandbox.docker import DockerSandbox
async def main():
    async with DockerSandbox():
        pass
    assert gc.sweep_once() is None, "once a process"
asyncio.run(main())
import threading
for thread in threading.enumerate():
    if thread.name == "mindx-sweep":
        thread.join(30)
"""


async def test_the_next_start_removes_what_a_killed_one_left(engine, derived_image):
    session_id = os.urandom(8).hex()
    with mortal_owner() as (owner, die), made_by_hand(engine, derived_image, session_id, owner) as made:
        assert engine.api.inspect_container(made.id)["State"]["Status"] == "created"
        die()
        client = await asyncio.create_subprocess_exec(sys.executable, "-c", NEXT_START, cwd=ROOT)
        assert await asyncio.wait_for(client.wait(), 60) == 0
        assert not exists(engine, made.id)


KILLED_BUILD = """
import sys
from mindx.sandbox.build_leftovers import build_folder
with build_folder() as folder:
    (folder / "root.tar").write_bytes(b"x")
    (folder / "deep").mkdir()
    (folder / "deep" / "link").symlink_to("/etc")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_the_folder_of_a_killed_build_is_found_and_removed(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    command = [sys.executable, "-c", KILLED_BUILD]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as build:
        folder = Path(build.stdout.readline().strip())
        assert folder.parent == tmp_path
        assert dead_folders() == []
        build.kill()
    foreign = tmp_path / "mindx-image-foreign"
    foreign.mkdir()
    (tmp_path / "mindx-image-link").symlink_to(folder)
    assert dead_folders() == [folder]
    (found,) = [one for one in find_leftovers(engine) if one.state == "folder"]
    assert found.name == str(folder)
    assert collect(engine, [found]) == [found]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mindx-image-foreign", "mindx-image-link"]


FOREIGN = {
    "a living owner": lambda: (Owner.me(), {}),
    "another machine": lambda: (Owner(**{**vars_of(dead_owner()), "machine_id": "f" * 32}), {}),
    "another pid namespace": lambda: (Owner(**{**vars_of(dead_owner()), "pid_namespace": "pid:[1]"}), {}),
    "no start time": lambda: (Owner(**{**vars_of(dead_owner()), "pid_start": ""}), {}),
    "a name of its own": lambda: (dead_owner(), {"name": "somebody-" + os.urandom(4).hex()}),
    "another session's label": lambda: (dead_owner(), {"mindx.session": "feed"}),
    "a pid that is none": lambda: (dead_owner(), {"mindx.pid": "-1x"}),
}


def vars_of(owner: Owner) -> dict[str, object]:
    return {name: getattr(owner, name) for name in owner.__slots__}


@pytest.mark.parametrize("how", FOREIGN)
def test_gc_leaves_alone_what_is_not_provably_ours_and_dead(engine, derived_image, how):
    owner, changes = FOREIGN[how]()
    session_id = os.urandom(8).hex()
    with made_by_hand(engine, derived_image, session_id, owner, **changes) as made:
        assert made.id not in [one.container_id for one in find_leftovers(engine)]


def test_gc_leaves_alone_a_foreign_program_under_our_labels(engine, derived_image):
    session_id = os.urandom(8).hex()
    with made_by_hand(engine, derived_image, session_id, dead_owner(), guest=False) as made:
        assert made.id not in [one.container_id for one in find_leftovers(engine)]


def test_a_pid_that_was_used_anew_is_a_dead_owner():
    me = Owner.me()
    assert not me.is_dead()
    assert Owner(me.machine_id, me.boot_id, me.pid_namespace, me.pid, "1").is_dead()
    earlier = Owner(me.machine_id, "another boot", me.pid_namespace, me.pid, me.pid_start)
    assert earlier.is_dead(local_engine=True)
    # On an engine that others reach too it may be a clone of this machine that lives.
    assert not earlier.is_dead()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:2375", "tcp://localhost:2375", "unix:///no/such/socket"])
def test_only_an_engine_that_listens_here_is_local(address):
    client = docker.DockerClient(base_url=address, version="1.41")
    assert is_local(client) is False
    client.close()


def test_a_forwarded_socket_is_not_a_local_engine(engine, tmp_path):
    """As `ssh -L` makes one: the engine behind it may be another machine's, and so may an earlier boot's sessions."""
    if connect_place()[1].socket is not None:
        assert is_local(engine) is True
    with socket.socket(socket.AF_UNIX) as forwarded:
        forwarded.bind(str(tmp_path / "s"))
        forwarded.listen()
        client = docker.DockerClient(base_url=f"unix://{tmp_path}/s", version="1.41")
        assert is_local(client) is False
        client.close()


def test_a_name_of_any_bytes_does_not_stop_gc():
    code = "import ctypes, sys; ctypes.CDLL(None).prctl(15, b'\\xff\\xfe) Z 1', 0, 0, 0); print(1, flush=True); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.read(1) == b"1"
        me = Owner.me()
        assert Owner(me.machine_id, me.boot_id, me.pid_namespace, child.pid, "1").is_dead()
        child.kill()


async def test_a_name_that_is_taken_is_refused_and_its_owner_is_left_alone(engine, make, derived_image):
    sandbox = make()
    with made_by_hand(engine, derived_image, sandbox.session_id, Owner.me()) as made:
        with pytest.raises(MindxError):
            await sandbox.start()
        await sandbox.close()
        assert exists(engine, made.id)


async def test_sessions_at_once_share_nothing_and_leave_nothing(engine, make):
    async def one(number: int) -> bytes:
        async with make(memory=192 * MIB, workspace=16 * MIB, workspace_inodes=1024, tmp=8 * MIB, tmp_inodes=512) as s:
            await s.write_file(WriteFile("/workspace/mine", b"%d" % number))
            return (await s.execute(sh("sleep 0.2; cat /workspace/*"))).stdout

    found = await asyncio.gather(*(one(number) for number in range(6)))
    assert found == [b"%d" % number for number in range(6)]
    assert ours(engine, os.getpid()) == []


async def test_pid_1_killed_while_it_copies(engine, make):
    async with make() as sandbox:
        await sandbox.execute(sh("head -c 100M /dev/zero > big"))
        reading = sandbox.fetch("/workspace/big", 128 * MIB)
        await anext(reading)
        os.kill(first_pid(engine, sandbox), signal.SIGKILL)
        with pytest.raises(SandboxLostError):
            async for _ in reading:
                pass


async def test_an_idle_session_survives_many_quick_commands(engine, sandbox):
    results = await asyncio.gather(*(sandbox.execute(sh(f"exit {n % 5}")) for n in range(100)))
    assert [result.exit_code for result in results] == [n % 5 for n in range(100)]
    assert only_ours(engine, sandbox)
