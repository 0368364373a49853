"""WALL rules 17 and 18: what one session may use up, and that the next command always works."""

from __future__ import annotations

import asyncio

import pytest

from mindx.core.command import Remove, WriteFile
from mindx.core.receipt import ExitCause
from mindx.errors import FileError, SandboxLostError
from tests.wall.support import MIB, Heard, only_ours, python, sh
from tests.wall.test_files import ping

pytestmark = pytest.mark.anyio
# Small, so that filling it up is quick.
SMALL = {
    "memory": 192 * MIB,
    "workspace": 16 * MIB,
    "workspace_inodes": 4096,
    "tmp": 8 * MIB,
    "tmp_inodes": 1024,
    "shm": 8 * MIB,
}
SPIN = """
import os
wait, go = os.pipe()
for _ in range(250):
    if not os.fork():
        os.close(go)
        os.read(wait, 1)
        while True: pass
print("on", flush=True)
os.close(go)
while True: pass
"""


async def test_rule_17_no_quota_slows_the_guest(engine, sandbox):
    host = engine.api.inspect_container(sandbox.container_id)["HostConfig"]
    assert (host["CpuQuota"], host["NanoCpus"]) == (0, 0)
    assert host["CpusetCpus"]
    assert host["PidsLimit"] == 128


async def test_rule_17_the_guest_answers_beside_250_spinning_processes(make):
    async with make(pids=300) as sandbox:
        heard = Heard()
        task = asyncio.create_task(sandbox.execute(python(SPIN, timeout_s=8), heard))
        await heard.first()
        waited = sorted([await ping(sandbox) for _ in range(20)])
        assert waited[10] < 0.5  # 23 ms on an idle machine; a quota makes it 1.2 s
        result = await task
        assert result.exit_cause is ExitCause.TIMEOUT
        assert result.receipt.killed_count >= 250
        assert result.receipt.duration_s < 8 + 2


async def test_the_pids_limit_holds_and_the_next_command_works(engine, sandbox):
    code = """
import os, time
made = 0
try:
    while True:
        if not os.fork():
            time.sleep(60)
        made += 1
except BlockingIOError:
    print(made, flush=True)
"""
    result = await sandbox.execute(python(code))
    assert 100 < int(result.stdout) < 128
    assert result.receipt.killed_count == int(result.stdout)
    assert only_ours(engine, sandbox)
    assert (await sandbox.execute(sh("true"))).ok


async def test_threads_without_end_fail_typed(sandbox):
    code = """
import threading, time
made = 0
try:
    for _ in range(1000):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        made += 1
except RuntimeError:
    print(made, flush=True)
    import os; os._exit(7)
"""
    result = await sandbox.execute(python(code))
    assert result.exit_code == 7
    assert int(result.stdout) < 128
    assert (await sandbox.execute(sh("true"))).ok


async def test_zombies_of_a_living_parent_end_with_it(engine, sandbox):
    code = "import os, time\nfor _ in range(90):\n    if not os.fork(): os._exit(0)\ntime.sleep(60)"
    result = await sandbox.execute(python(code, timeout_s=1))
    assert result.exit_cause is ExitCause.TIMEOUT
    assert only_ours(engine, sandbox)


async def test_orphans_that_end_take_no_slot(sandbox):
    script = "for i in $(seq 400); do (sh -c 'exit 0' &) ; done; echo made"
    result = await sandbox.execute(sh(script))
    assert (result.ok, result.stdout, result.stderr) == (True, b"made\n", b"")


@pytest.mark.parametrize("folder", ["/workspace", "/tmp", "/dev/shm"])
async def test_rule_18_a_full_tmpfs_is_the_programs_own_trouble(make, folder):
    async with make(**SMALL) as sandbox:
        result = await sandbox.execute(sh(f"head -c 2G /dev/zero > {folder}/big"))
        assert (result.exit_cause, result.receipt.oom_kills) == (ExitCause.EXIT, 0)
        assert b"No space left" in result.stderr
        assert (await sandbox.execute(sh("true"))).ok
        if folder == "/workspace":
            with pytest.raises(FileError):
                await sandbox.write_file(WriteFile("/workspace/new", bytes(MIB)))


async def test_rule_18_all_of_them_full_at_once_and_every_inode(make):
    code = """
import errno, os
for folder in ("/workspace", "/tmp", "/dev/shm"):
    handle = os.open(folder + "/big", os.O_CREAT | os.O_WRONLY)
    try:
        for n in range(200_000):
            os.close(os.open("%s/%d" % (folder, n), os.O_CREAT | os.O_WRONLY))
    except OSError as error:
        print(folder, errno.errorcode[error.errno])
    try:
        while True:
            os.write(handle, bytes(1 << 20))
    except OSError as error:
        print(folder, errno.errorcode[error.errno])
"""
    async with make(**SMALL) as sandbox:
        result = await sandbox.execute(python(code))
        full = [f"{folder} ENOSPC" for folder in ("/workspace", "/tmp", "/dev/shm") for _ in range(2)]
        assert result.stdout_text.splitlines() == full, result
        after = await sandbox.execute(python("print(len(bytearray(60 << 20)))"))
        assert after.ok, after.receipt


async def test_rule_18_the_sizes_fit_half_of_the_memory(make):
    with pytest.raises(ValueError, match="half"):
        make(memory=256 * MIB)


EATERS = {
    "anonymous": """
a = []
while True: a.append(bytearray(16 << 20))
""",
    "shared mappings": """
import mmap
maps = []
while True:
    maps.append(mmap.mmap(-1, 16 << 20))
    for n in range(0, 16 << 20, 4096): maps[-1][n] = 1
""",
    "many processes": """
import os, time
for _ in range(30):
    if not os.fork():
        a = bytearray(16 << 20)
        time.sleep(60)
time.sleep(1)
while os.waitpid(-1, os.WNOHANG)[0] == 0: time.sleep(0.01)
""",
}


@pytest.mark.parametrize("how", EATERS)
async def test_oom_is_typed_and_the_next_command_works(engine, make, how):
    async with make(**SMALL) as sandbox:
        result = await sandbox.execute(python(EATERS[how], timeout_s=20))
        assert result.receipt.oom_kills >= 1
        assert result.exit_cause is ExitCause.OOM
        assert not result.ok
        assert only_ours(engine, sandbox)
        assert (await sandbox.execute(sh("true"))).ok


async def test_oom_is_seen_even_if_the_program_hides_it(make):
    async with make(**SMALL) as sandbox:
        await sandbox.write_file(WriteFile("/workspace/big", EATERS["anonymous"].encode()))
        for script in ("python3 big; true", "python3 big & wait; exit 0", "(python3 big || true) | cat"):
            result = await sandbox.execute(sh(script))
            assert (result.exit_cause, result.exit_code, result.ok) == (ExitCause.OOM, 0, False)
            assert result.receipt.oom_kills == 1
        after = await sandbox.execute(sh("true"))
        assert (after.ok, after.receipt.oom_kills) == (True, 0)


async def test_an_agent_that_makes_itself_the_last_to_go_may_end_the_session_typed(make):
    """It may lower itself to PID 1's own value, not below; if the kernel then takes PID 1, that is the typed end."""
    code = """
open("/proc/self/oom_score_adj", "w").write("300")
try:
    open("/proc/self/oom_score_adj", "w").write("299")
    print("below")
except OSError:
    pass
a = []
while True: a.append(bytearray(16 << 20))
"""
    async with make(**SMALL) as sandbox:
        task = asyncio.create_task(sandbox.execute(python(code)))
        await asyncio.wait({task})
        error = task.exception()
        if error is None:
            assert b"below" not in task.result().stdout
            assert task.result().exit_cause is ExitCause.OOM
        else:
            assert isinstance(error, SandboxLostError)
            assert "oom" in str(error)


async def test_a_peak_of_file_operations_is_not_the_next_commands(make):
    async with make() as sandbox:
        await sandbox.execute(sh("true"))
        await sandbox.write_file(WriteFile("/workspace/big", bytes(64 * MIB)))
        await sandbox.remove(Remove("/workspace/big"))
        after = await sandbox.execute(sh("true"))
    assert after.receipt.memory_peak_bytes == 0, "the file was there and gone before the command began"
