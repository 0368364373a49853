"""Probes of the limits: memory, processes, files, space and time; each is spent, then the next command must work."""

from __future__ import annotations

import time

from mindx.core.count import counted
from mindx.core.receipt import ExecResult, ExitCause
from mindx.sandbox.probe import Broken, Probe, Stage, expect

NEXT_WITHIN_S = 1.0

# Where a limit is missing, a probe must not do to the host what the limit is there to prevent: each stops by itself.
_HOG = """
import sys
blocks = []
while len(blocks) < int(sys.argv[1]):
    blocks.append(bytearray(1 << 20))
"""
_BOMB = """
import os, time
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        time.sleep(0.01)
"""
_COUNT = """
import json, os, sys, time
pids = []
try:
    while len(pids) < int(sys.argv[1]):
        pid = os.fork()
        if pid == 0:
            time.sleep(60); os._exit(0)
        pids.append(pid)
except OSError:
    pass
print(json.dumps(len(pids)))
"""
_FILL = """
import errno, json, os, sys
folder, limit, inodes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
block, written, files, why = b"\\0" * (1 << 20), 0, 0, ""
try:
    with open(folder + "/.mindx-fill", "wb", buffering=0) as file:
        while written < limit * 2 + (1 << 24):
            written += file.write(block)
except OSError as error:
    why = errno.errorcode[error.errno]
finally:
    os.unlink(folder + "/.mindx-fill")
made = []
try:
    while inodes and files < inodes * 2 + 1000:
        os.close(os.open(folder + "/.mindx-%d" % files, os.O_CREAT | os.O_WRONLY)); files += 1
except OSError as error:
    why += " " + errno.errorcode[error.errno]
for number in range(files):
    os.unlink(folder + "/.mindx-%d" % number)
print(json.dumps([written, files, why]))
"""
_OPEN = """
import json, os
count = 3
try:
    while count < 2000000:
        os.dup(0); count += 1
except OSError:
    pass
print(json.dumps(count))
"""
_CORE = """
import json, os, resource
os.chdir("/workspace")
pid = os.fork()
if pid == 0:
    os.abort()
os.waitpid(pid, 0)
left = [name for name in os.listdir(".") if name.startswith("core")]
print(json.dumps([left, resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_MEMLOCK)]))
"""
_SEGMENT = """
import ctypes, json, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
make = sys.argv[1] == "make"
segment = libc.shmget(0x6d696e64, 4096, 0o1600 if make else 0o600)
found = segment >= 0 or ctypes.get_errno()
if make and segment >= 0:
    libc.shmat(segment, None, 0)
print(json.dumps(found))
"""
_CPUS = """
import json, os
try:
    os.sched_setaffinity(0, range(1024))
except OSError:
    pass
print(json.dumps(sorted(os.sched_getaffinity(0))))
"""


async def _next_works(stage: Stage) -> str:
    began = time.monotonic()
    result = await stage.execute("true")
    took = time.monotonic() - began
    expect(result.ok, f"afterwards `true` ended by {result.exit_cause.value}")
    expect(took < NEXT_WITHIN_S, f"afterwards `true` took {took:.1f} s")
    return f"the next command worked after {took * 1000:.0f} ms"


def _killed_for_memory(result: ExecResult) -> None:
    expect(result.exit_cause is ExitCause.OOM, f"it ended by {result.exit_cause.value}")
    expect(result.receipt.oom_kills > 0 and not result.ok, "the kill was not counted")


def _twice_the_memory(stage: Stage) -> str:
    return str(2 * stage.settings.limits.memory_bytes >> 20)


async def _memory(stage: Stage) -> str:
    result = await stage.execute("python3", "-I", "-c", _HOG, _twice_the_memory(stage))
    _killed_for_memory(result)
    return f"killed for memory and reported so; {await _next_works(stage)}"


async def _hidden_oom(stage: Stage) -> str:
    result = await stage.execute(
        "sh", "-c", 'python3 -I -c "$0" "$1" 2>/dev/null; exit 0', _HOG, _twice_the_memory(stage)
    )
    _killed_for_memory(result)
    return f"exit code {result.exit_code}, reported as {result.exit_cause.value}, not a success"


async def _swap(stage: Stage) -> str:
    sandbox = await stage.sandbox()
    facts = sandbox.facts
    limit = facts.get("memory_swap_limit", "")
    wanted = "0" if facts.get("cgroup_version") == "2" else str(sandbox.settings.limits.memory_bytes)
    gaps = sandbox.attestation.gaps if sandbox.attestation else ()
    expect(limit == wanted or "swap" in gaps, f"the limit of memory and swap is {limit or 'not known'}")
    return "the policy accepts that swap is not limited" if "swap" in gaps else "no byte of swap beside the memory"


async def _processes(stage: Stage) -> str:
    limit = stage.settings.limits.pids
    count = await stage.python(_COUNT, str(limit * 2))
    expect(count < limit, f"{count} processes started; the limit is {limit}")
    return f"{count} children started, then no more; {await _next_works(stage)}"


async def _bomb(stage: Stage) -> str:
    attestation = (await stage.sandbox()).attestation
    missing = attestation is None or any(
        one.control == "pids" for one in attestation.differences + attestation.accepted
    )
    expect(not missing, "not tried: without a limit of processes it would be a bomb on the host")
    result = await stage.execute("python3", "-I", "-c", _BOMB, timeout_s=1.0)
    expect(result.exit_cause is ExitCause.TIMEOUT, f"it ended by {result.exit_cause.value}")
    return f"{counted(result.receipt.killed_count, 'process')} killed; {await _next_works(stage)}"


async def _fill(stage: Stage, folder: str, size: int, inodes: int) -> str:
    written, files, why = await stage.python(_FILL, folder, str(size), str(inodes))
    expect(written <= size, f"{written} bytes fit into {folder}; the limit is {size}")
    expect(files <= inodes, f"{files} files fit into {folder}; the limit is {inodes}")
    return f"{written >> 20} MiB and {counted(files, 'file')} fit ({why}); {await _next_works(stage)}"


async def _workspace(stage: Stage) -> str:
    limits = stage.settings.limits
    return await _fill(stage, "/workspace", limits.workspace_bytes, limits.workspace_inodes)


async def _tmp(stage: Stage) -> str:
    limits = stage.settings.limits
    return await _fill(stage, "/tmp", limits.tmp_bytes, limits.tmp_inodes)


async def _shm(stage: Stage) -> str:
    limits = stage.settings.limits
    return await _fill(stage, "/dev/shm", limits.shm_bytes, limits.shm_inodes)


async def _open_files(stage: Stage) -> str:
    limit = stage.settings.limits.nofile
    count = await stage.python(_OPEN)
    expect(count <= limit, f"{count} open files; the limit is {limit}")
    return f"{count} open files, then no more"


async def _core(stage: Stage) -> str:
    left, core, memlock = await stage.python(_CORE)
    expect(not left, f"left behind: {', '.join(left)}")
    expect(core == [0, 0] and 0 <= memlock[1] <= 65536, f"limits: core {core}, locked memory {memlock}")
    return "no core file; at most 64 KiB of locked memory"


async def _segment(stage: Stage) -> str:
    made = await stage.python(_SEGMENT, "make")
    expect(made is True, f"no segment could be made: error {made}")
    found = await stage.python(_SEGMENT, "find")
    expect(found is not True, "the next command found it")
    return "made, used and left; the next command did not find it"


async def _cpus(stage: Stage) -> str:
    cpus = await stage.python(_CPUS)
    expect(len(cpus) <= stage.settings.limits.cpus, f"{len(cpus)} CPUs; the limit is {stage.settings.limits.cpus}")
    return f"asked for all CPUs, got {len(cpus)}"


async def _deadline(stage: Stage) -> str:
    program = (
        "import os, signal, sys, time\n"
        "for number in (1, 2, 3, 10, 12, 15): signal.signal(number, signal.SIG_IGN)\n"
        "print('so far', flush=True)\n"
        "if os.fork() == 0: os.setsid(); os.kill(os.getpid(), signal.SIGSTOP)\n"
        "time.sleep(600)"
    )
    began = time.monotonic()
    result = await stage.execute("python3", "-I", "-c", program, timeout_s=0.5)
    took = time.monotonic() - began
    expect(result.exit_cause is ExitCause.TIMEOUT, f"it ended by {result.exit_cause.value}")
    expect(took < 1.5, f"it took {took:.2f} s")
    if b"so far" not in result.stdout:
        raise Broken("its output until then is lost")
    return f"gone {took:.2f} s after its start, with its output; {await _next_works(stage)}"


PROBES = (
    Probe("memory", "memory is limited, and a kill for memory is reported", "took memory without end", _memory),
    Probe("memory-hidden", "a kill for memory cannot be hidden", "hid it behind `; exit 0`", _hidden_oom),
    Probe("swap", "swap is no way past the memory limit", "asked the kernel for the limit", _swap),
    Probe("processes", "the number of processes is limited", "forked until it failed", _processes),
    Probe("fork-bomb", "a fork bomb ends with its command", "a bomb whose processes leave their session", _bomb),
    Probe("workspace-size", "the workspace has a size", "filled it with bytes, then with files", _workspace),
    Probe("tmp-size", "/tmp has a size", "filled it with bytes, then with files", _tmp),
    Probe("shm-size", "/dev/shm has a size", "filled it with bytes, then with files", _shm),
    Probe("open-files", "the number of open files is limited", "opened files until it failed", _open_files),
    Probe("core", "a crash leaves no core file, no memory is locked", "crashed", _core),
    Probe("segments", "shared memory goes with its last user", "left a segment of System V behind", _segment),
    Probe("cpus", "a session has its CPUs only", "asked for all of them", _cpus),
    Probe("deadline", "a deadline ends everything", "ignored all signals, stopped itself, slept on", _deadline),
)
