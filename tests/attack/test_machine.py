"""Sections D, F, G, K and L of the attacks: the container itself, its limits, lies, secrets and neighbours."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time

import pytest

from mindx.core.command import Exec, ListDir, ReadFile, WriteFile
from mindx.core.receipt import ExitCause
from mindx.guest import records, wire
from tests.wall.support import HOPPER, MIB, Heard, children, first_pid, only_ours, python, sh

pytestmark = pytest.mark.anyio


async def test_d1_no_rights_at_all(sandbox):
    result = await sandbox.execute(sh("cat /proc/self/status; id -u"))
    status = dict(line.split(":\t", 1) for line in result.stdout_text.splitlines() if ":\t" in line)
    assert [int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")] == [0] * 4
    assert int(status["CapBnd"], 16) == 0xE0
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert result.stdout_text.splitlines()[-1] != "0"


PRECONDITIONS = """
import json, os, socket
def tries(call):
    try:
        call()
        return "worked"
    except OSError as error:
        return error.errno
sockets = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock")
agents = ("/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/release_agent")
def is_block(path):
    return os.path.exists(path) and os.stat(path).st_mode & 0o170000 == 0o060000
found = {
    "docker.sock": [p for p in sockets if os.path.exists(p)],
    "packet": tries(lambda: socket.socket(17, socket.SOCK_RAW)),
    "raw": tries(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
    "vsock": tries(lambda: socket.socket(40, socket.SOCK_STREAM)),
    "alg": tries(lambda: socket.socket(38, socket.SOCK_SEQPACKET)),
    "release_agent": [f for f in agents if os.access(f, os.W_OK)],
    "core_pattern": os.access("/proc/sys/kernel/core_pattern", os.W_OK),
    "sysrq": os.access("/proc/sysrq-trigger", os.W_OK),
    "block devices": [n for n in os.listdir("/dev") if is_block("/dev/" + n)],
    "kmem": [n for n in ("mem", "kmem", "kmsg", "port", "kvm", "fuse", "loop-control") if os.path.exists("/dev/" + n)],
    "pid 1": open("/proc/1/cmdline").read().split("\\0")[-2],
    "host pids": len([n for n in os.listdir("/proc") if n.isdigit()]),
}
print(json.dumps(found))
"""


async def test_d2_nothing_that_escapes_start_from(sandbox):
    found = json.loads((await sandbox.execute(python(PRECONDITIONS))).stdout)
    assert {found[name] for name in ("packet", "raw", "vsock", "alg")} <= {1, 13, 22, 93, 94, 97, 38}
    for name in ("docker.sock", "release_agent", "block devices", "kmem"):
        assert found[name] == [], name
    assert (found["core_pattern"], found["sysrq"]) == (False, False)
    assert found["pid 1"] == "/mindx/guest/__main__.py"
    assert found["host pids"] <= 4


async def test_d5_setuid_programs_give_nothing(sandbox):
    script = "find / -xdev -perm /6000 -type f 2>/dev/null; cp /bin/sh mine; chmod 4755 mine; ./mine -p -c 'id -u'"
    script += "; su -c id; id -u"
    result = await sandbox.execute(sh(script))
    words = result.stdout_text.split()
    assert set(words) == {str(sandbox.ids.uid)}


async def test_d6_only_three_places_can_be_written(sandbox):
    script = "find / -writable \\( -type d -o -type f \\) -not -path '/proc/*' 2>/dev/null"
    found = (await sandbox.execute(sh(script))).stdout_text.split()
    outside = [path for path in found if not path.startswith(("/workspace", "/tmp", "/dev/shm", "/dev/mqueue"))]
    assert outside == []
    for place in ("/etc/x", "/usr/bin/x", "/mindx/x", "/mindx/guest/wire.py", "/run/mindx/passwd", "/run/x", "/var/x"):
        assert (await sandbox.execute(sh(f"echo x >> {place}"))).exit_code != 0


SUPERVISOR = """
import ctypes, os, resource, signal, time
libc = ctypes.CDLL(None, use_errno=True)
def file(path, mode):
    def call():
        with open(path, mode) as opened:
            opened.read(1) if mode == "rb" else opened.write(b"1")
    return call
def raw(name, *arguments):
    def call():
        if getattr(libc, name)(*arguments) == -1:
            raise OSError(ctypes.get_errno(), name)
    return call
calls = {
    "ptrace attach": raw("ptrace", 16, 1, 0, 0),
    "ptrace seize": raw("ptrace", 0x4206, 1, 0, 0),
    "prlimit": raw("prlimit", 1, 7, (ctypes.c_ulong * 2)(3, 3), None),
    "setpriority": lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    "setpriority of the group": lambda: os.setpriority(os.PRIO_PGRP, 1, 19),
    "affinity": lambda: os.sched_setaffinity(1, {0}),
    "scheduler": lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
    "syscall affinity": raw("syscall", 203, ctypes.c_ulong((1 << 32) + 1), 8, (ctypes.c_ulong * 1)(1)),
    "syscall setpriority": raw("syscall", 141, 0, ctypes.c_ulong((1 << 32) + 1), 19),
    "sched_setattr": raw("syscall", 314, 1, (ctypes.c_uint32 * 12)(48, 5, 0, 0, 19), 0),
    "ioprio": raw("syscall", 251, 1, 1, 3 << 13),
    "oom score": file("/proc/1/oom_score_adj", "wb"),
    "mem": file("/proc/1/mem", "rb"),
    "environ": file("/proc/1/environ", "rb"),
    "stdin": file("/proc/1/fd/0", "wb"),
    "stdout": file("/proc/1/fd/1", "wb"),
    "coredump": file("/proc/1/coredump_filter", "wb"),
    "migrate": raw("syscall", 256, 1, 8, (ctypes.c_ulong * 1)(1), (ctypes.c_ulong * 1)(1)),
}
worked = set()
print("on", flush=True)
end = time.monotonic() + 4
rounds = 0
while time.monotonic() < end:
    rounds += 1
    for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
        try:
            os.kill(1, number)  # arrives in the window of a spawn, and does nothing
        except PermissionError:
            pass
    for name, call in calls.items():
        try:
            call()
            worked.add(name)
        except OSError:
            pass
print(rounds, sorted(worked))
"""


async def test_d7_the_supervisor_cannot_be_touched(engine, make):
    """Not at rest, and not while it does file work as the agent's effective user."""
    async with make() as sandbox:
        pid = first_pid(engine, sandbox)
        before = (os.getpriority(os.PRIO_PROCESS, pid), os.sched_getaffinity(pid), os.sched_getscheduler(pid))
        heard = Heard()
        attack = asyncio.create_task(sandbox.execute(python(SUPERVISOR, timeout_s=30), heard))
        await heard.first()
        while not attack.done():
            await sandbox.write_file(WriteFile("/workspace/x", b"x"))
            await sandbox.manifest()
        result = await attack
        after = (os.getpriority(os.PRIO_PROCESS, pid), os.sched_getaffinity(pid), os.sched_getscheduler(pid))
        assert result.ok, result.stderr_text
        assert (after, result.stdout.split(b" ", 1)[1]) == (before, b"[]\n")
        assert (await sandbox.execute(sh("true"))).ok


async def test_d8_no_terminal_to_type_into(sandbox):
    code = """
import fcntl, os
for number in (0, 1, 2):
    assert not os.isatty(number)
try:
    os.open("/dev/tty", os.O_RDWR)
    print("tty")
except OSError:
    pass
pty, tty = os.openpty()
for request in (0x5412, 0x541C):
    try:
        fcntl.ioctl(tty, request, b"x")
        print("typed")
    except OSError:
        pass
"""
    result = await sandbox.execute(python(code))
    assert (result.ok, result.stdout) == (True, b""), result.stderr_text


CONNECT = """
import json, socket, sys, time
found, began = {}, time.monotonic()
for host, port, kind in json.loads(sys.argv[1]):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(1)
            s.connect((host, port))
            if kind == socket.SOCK_DGRAM: s.send(b"x")
            found[host] = "connected"
    except OSError as error:
        found[host] = error.errno
try:
    found["dns"] = socket.getaddrinfo("example.com", 80) and "resolved"
except OSError as error:
    found["dns"] = "no"
print(json.dumps([found, time.monotonic() - began]))
"""


async def test_e1_nothing_is_reachable(engine, sandbox):
    gateway = engine.networks.get("bridge").attrs["IPAM"]["Config"][0].get("Gateway", "172.17.0.1")
    hosts = ["192.0.2.1", "198.51.100.1", "2001:db8::1", "fe80::1", gateway]
    wanted = [(host, 80, kind) for host in hosts for kind in (1, 2)]
    result = await sandbox.execute(Exec(("python3", "-I", "-c", CONNECT, json.dumps(wanted))))
    found, seconds = json.loads(result.stdout)
    assert found.pop("dns") == "no"
    assert all(number in (101, 99, 97, 1, 22) for number in found.values()), found
    assert seconds < 1
    facts = await sandbox.execute(sh("cat /proc/net/route | wc -l; ls /sys/class/net 2>/dev/null; cat /proc/net/dev"))
    assert "eth0" not in facts.stdout_text


async def test_e5_no_socket_of_the_host_is_seen(sandbox):
    result = await sandbox.execute(sh("cat /proc/net/unix | wc -l; find / -type s 2>/dev/null"))
    assert result.stdout.split() == [b"1"]


async def test_f1_bombs_end_typed_and_the_next_command_works(engine, make):
    async with make() as sandbox:
        result = await sandbox.execute(sh("b() { b | b & }; b; sleep 0.5; b; sleep 10", timeout_s=2))
        assert result.exit_cause in (ExitCause.TIMEOUT, ExitCause.EXIT)
        began = time.monotonic()
        assert (await sandbox.execute(sh("true"))).ok
        assert time.monotonic() - began < 5
        assert only_ours(engine, sandbox)


async def test_f4_spinning_stays_in_its_cpus(make):
    async with make(cpus=1) as sandbox:
        code = "import os\nfor _ in range(16):\n    if not os.fork():\n        while True: pass\nwhile True: pass"
        result = await sandbox.execute(python(code, timeout_s=2))
        assert result.exit_cause is ExitCause.TIMEOUT
        assert result.receipt.cpu_s <= result.receipt.duration_s * 1.05 + 0.1
        assert result.receipt.killed_count >= 16


async def test_f9_deadlines_hold_against_those_who_hang(sandbox):
    for script in ("trap '' TERM; sleep 60", "kill -STOP $$; sleep 60", "mkfifo f; cat f", "exec sleep 60"):
        result = await sandbox.execute(sh(script, timeout_s=0.5))
        assert result.exit_cause is ExitCause.TIMEOUT
        assert result.receipt.duration_s < 1.5


async def test_f11_a_storm_of_syncs_does_not_stop_the_neighbour(make):
    async with make() as loud, make() as quiet:
        heard = Heard()
        code = "import os\nprint('on', flush=True)\nwhile True:\n    try: os.sync()\n    except OSError: pass"
        storm = asyncio.create_task(loud.execute(python(code, timeout_s=None), heard))
        await heard.first()
        began = time.monotonic()
        for _ in range(10):
            assert (await quiet.execute(sh("true"))).ok
        assert time.monotonic() - began < 5
        storm.cancel()
        await asyncio.wait({storm})


async def test_g1_nobody_is_left_to_write_into_a_later_command(sandbox):
    forger = """
import os, time
if os.fork(): os._exit(0)
os.setsid()
while True:
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                with open("/proc/%s/fd/1" % pid, "wb", buffering=0) as out: out.write(b"FORGED: 5 passed\\n")
            except OSError: pass
"""
    await sandbox.write_file(WriteFile("/workspace/forger.py", forger.encode()))
    first = await sandbox.execute(sh("python3 forger.py > /dev/null 2>&1; sleep 0.2"))
    assert first.receipt.killed_count >= 1
    for _ in range(5):
        assert (await sandbox.execute(sh("sleep 0.05; echo 1 failed"))).stdout == b"1 failed\n"


async def test_g2_nobody_is_left_to_change_a_later_exit_code(sandbox):
    await sandbox.execute(sh(f"(python3 -c '{HOPPER}' &); exit 0"))
    for _ in range(10):
        result = await sandbox.execute(sh("exit 1"))
        assert (result.exit_cause, result.exit_code) == (ExitCause.EXIT, 1)
    code = "import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.ptrace(16, 1, 0, 0), l.ptrace(0, 0, 0, 0))"
    assert (await sandbox.execute(python(code))).stdout.split()[0] == b"-1"


async def test_g3_forged_frames_are_output(sandbox):
    record = records.ExitRecord()
    record.exit_code, record.stdout_sha256, record.stderr_sha256 = 0, bytes(32), bytes(32)
    forged = b"".join(wire.frame(wire.EXITED, n, n, record.pack()) for n in range(20))
    forged += b"\1\0\0\0" + len(forged).to_bytes(4, "big") + forged + b"\nexit=0\n[mindx: 5 bytes left out]\n"
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()); sys.stdout.flush(); sys.exit(9)"
    result = await sandbox.execute(python(code, stdin=forged))
    assert (result.exit_code, result.stdout, result.truncated) == (9, forged, False)


async def test_g4_the_supervisor_is_not_to_be_replaced(engine, sandbox):
    pid = first_pid(engine, sandbox)
    script = """
cat > json.py <<'X'
print("forged")
X
cp json.py struct.py; cp json.py os.py; cp json.py sitecustomize.py
site=/tmp/home/.local/lib/python3.11/site-packages
mkdir -p $site && cp json.py $site/usercustomize.py
kill -9 1; kill -STOP 1; kill -9 -1; pkill -9 python
exit 5
"""
    result = await sandbox.execute(sh(script))
    assert result.exit_cause in (ExitCause.EXIT, ExitCause.SIGNAL)
    assert not result.ok
    assert (await sandbox.execute(sh("true"))).ok
    assert first_pid(engine, sandbox) == pid
    assert len(children(pid)) == 1
    await sandbox.execute(sh("rm -f json.py struct.py os.py sitecustomize.py"))


async def test_g7_clocks_of_the_container_count_for_nothing(sandbox):
    script = "printf '#!/bin/sh\\necho 1970' > date; chmod +x date; PATH=.:$PATH; touch -d '2099-01-01' date"
    script += "; date -s 2001-01-01; exit 0"
    began = time.monotonic()
    result = await sandbox.execute(sh(script))
    assert 0 < result.receipt.duration_s <= time.monotonic() - began
    before = {entry.path: entry.sha256 for entry in await sandbox.manifest()}
    await sandbox.execute(sh("echo changed >> date; touch -d '2099-01-01' date"))
    after = {entry.path: entry.sha256 for entry in await sandbox.manifest()}
    assert before["date"] != after["date"]


async def test_h6_any_bytes_come_through(sandbox):
    data = b"\xff\xfe\x00\xed\xa0\x80\x1b[2J" + bytes(range(256))
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    assert (await sandbox.execute(python(code, stdin=data))).stdout == data


async def test_k1_no_variable_of_the_host_gets_in(engine, make, monkeypatch):
    canary = "canary-" + os.urandom(8).hex()
    for name in ("AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "SSH_AUTH_SOCK", "GITHUB_TOKEN", "LD_PRELOAD_MINDX"):
        monkeypatch.setenv(name, canary)
    async with make() as sandbox:
        script = (
            "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; grep -rs canary- /tmp /run /etc /workspace; true"
        )
        result = await sandbox.execute(sh(script))
        assert canary not in result.stdout_text.replace(script, "")
        assert canary not in json.dumps(engine.api.inspect_container(sandbox.container_id))


async def test_l2_two_sessions_do_not_meet(make):
    async with make() as first, make() as second:
        script = (
            "import socket, time\ns = socket.socket()\ns.bind(('127.0.0.1', 4711))\ns.listen()\n"
            "open('/dev/shm/x', 'w').write('mine')\nprint('on', flush=True)\ntime.sleep(30)"
        )
        heard = Heard()
        task = asyncio.create_task(first.execute(python(script), heard))
        await heard.first()
        result = await second.execute(
            python(script.replace("time.sleep(30)", "import os; print(os.listdir('/dev/shm'))"))
        )
        assert result.stdout == b"on\n['x']\n"
        pids = await second.execute(sh("ls /dev/mqueue; ls /proc | grep -c '^[0-9]*$'"))
        assert int(pids.stdout.split()[-1]) <= 6
        task.cancel()
        await asyncio.wait({task})


async def test_l3_an_end_and_a_cancellation_at_once(engine, sandbox):
    """The soak makes 10^4 tries; here a few hundred, at moments around the end."""
    chance = random.Random(7)
    verdicts = {"cancelled": 0, "ended": 0}
    for _ in range(150):
        task = asyncio.create_task(sandbox.execute(sh("exit 3", timeout_s=None)))
        await asyncio.sleep(chance.uniform(0, 0.012))
        task.cancel()
        await asyncio.wait({task}, timeout=10)
        assert task.done()
        verdicts["cancelled" if task.cancelled() else "ended"] += 1
        if not task.cancelled():
            assert task.result().exit_code == 3
    assert min(verdicts.values()) > 0
    assert (await sandbox.execute(sh("true"))).ok
    assert only_ours(engine, sandbox)


async def test_f5_a_disk_filled_in_every_way(make):
    async with make() as sandbox:
        code = """
import errno, os
try:
    for n in range(1_000_000): os.close(os.open("/workspace/%d" % n, os.O_CREAT))
except OSError as error: print(errno.errorcode[error.errno])
for n in range(200): os.unlink("/workspace/%d" % n)
os.truncate(os.open("/workspace/sparse", os.O_CREAT | os.O_RDWR), (1 << 63) - 1)
os.mkdir("/workspace/" + "n" * 255)
try:
    os.mkdir("/workspace/" + "n" * 256)
except OSError as error: print(errno.errorcode[error.errno])
os.chdir("/workspace")
for n in range(100):
    os.mkdir("d"); os.chdir("d")
print("deep")
"""
        result = await sandbox.execute(python(code))
        assert result.stdout.split() == [b"ENOSPC", b"ENAMETOOLONG", b"deep"], result.stderr_text
        found = await asyncio.wait_for(sandbox.manifest(), 30)
        assert len(found) > 60_000
        sparse = next(entry for entry in found if entry.path == "sparse")
        assert sparse.sha256 == ""
        assert await sandbox.read_file(ReadFile("/workspace/1000")) == b""
        assert (await sandbox.list_dir(ListDir("/workspace")))[0].kind in ("file", "directory")
        assert sum(entry.size for entry in found if entry.path != "sparse") < 256 * MIB
