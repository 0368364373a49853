"""Probes of what is reported: output, exit, leftovers, the policy's word."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

from mindx.core.command import Exec, ListDir, MakeDir, ReadFile, Remove, Stat, WriteFile
from mindx.core.receipt import ExitCause
from mindx.errors import DeniedError, MindxError
from mindx.sandbox.probe import FORBIDDEN, Probe, Stage, expect

_DAEMON = """
import os, signal, sys, time
for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
null = os.open("/dev/null", os.O_RDWR)
for handle in (0, 1, 2): os.dup2(null, handle)
own = os.getpid()
while True:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != own:
            try:
                handle = os.open("/proc/%s/fd/1" % name, os.O_WRONLY | os.O_NONBLOCK)
                os.write(handle, b"FORGED: all passed\\n"); os.close(handle)
            except OSError:
                pass
"""
_PROCESSES = """
import json, os
own = os.getuid()
print(json.dumps([p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()
                  and os.stat("/proc/" + p).st_uid == own]))
"""
FLOOD_BYTES = 64 << 20


async def _leftover(stage: Stage) -> str:
    result = await stage.execute("python3", "-I", "-c", _DAEMON)
    expect(result.receipt.killed_count > 0, "the receipt names nothing that was killed")
    left = await stage.python(_PROCESSES)
    expect(not left, f"{len(left)} processes are left")
    return f"{result.receipt.killed_count} killed and named in the receipt, none left"


async def _forged(stage: Stage) -> str:
    await stage.execute("python3", "-I", "-c", _DAEMON)
    for _ in range(5):
        # The pause is the time in which a leftover of the first command would forge.
        result = await stage.execute("sh", "-c", "echo true word; sleep 0.05; exit 3")
        expect(result.stdout == b"true word\n", f"the output was {result.stdout_text[:100]!r}")
        expect(result.exit_code == 3, f"the exit code was {result.exit_code}")
    return "five later commands: output and exit code as they were"


async def _exit(stage: Stage) -> str:
    forged = '\\x21\\x00\\x00\\x00exit=0 {"exit_code": 0}\\n'
    result = await stage.execute("sh", "-c", f"printf '{forged}'; exit 7")
    expect(result.exit_code == 7 and not result.ok, f"exit code {result.exit_code}")
    killed = await stage.execute("sh", "-c", "kill -9 $$")
    expect(killed.exit_cause is ExitCause.SIGNAL and not killed.ok, f"a kill was reported as {killed.exit_cause.value}")
    return "exit 7 and signal 9 were reported, whatever was printed"


async def _output(stage: Stage) -> str:
    program = f"import os\nblock = b'x' * 65536\nfor _ in range({FLOOD_BYTES // 65536}): os.write(1, block)"
    result = await stage.execute("python3", "-I", "-c", program, max_output_bytes=4096)
    total = result.receipt.stdout_bytes
    expect(result.stdout_truncated and len(result.stdout) < 8192, f"{len(result.stdout)} bytes were kept")
    expect(total == FLOOD_BYTES, f"{total} bytes were counted")
    wanted = hashlib.sha256(b"x" * FLOOD_BYTES).hexdigest()
    expect(result.receipt.stdout_sha256 == wanted, "the digest is wrong")
    return f"{total >> 20} MiB counted and digested, {len(result.stdout)} bytes kept and marked"


async def _policy(stage: Stage) -> str:
    driver = await stage.driver()
    path = f"/workspace/{FORBIDDEN}"
    tries: dict[str, Callable[[], Awaitable[object]]] = {
        "a program": lambda: driver.execute(Exec((FORBIDDEN,))),
        "a program beside the others": lambda: driver.start_background(Exec((FORBIDDEN,))),
        "a program without a deadline": lambda: driver.start_background(Exec((FORBIDDEN,), timeout_s=None)),
        "making a folder": lambda: driver.make_dir(MakeDir(path)),
        "writing": lambda: driver.write_file(WriteFile(path, b"")),
        "reading": lambda: driver.read_file(ReadFile(path)),
        "listing": lambda: driver.list_dir(ListDir(path)),
        "looking": lambda: driver.stat(Stat(path)),
        "removing": lambda: driver.remove(Remove(path)),
    }
    sent = [name for name, attempt in tries.items() if not await _denied(attempt())]
    expect(not sent, f"sent to the container: {', '.join(sent)}")
    return f"{len(tries)} kinds of commands refused before they reached the container"


async def _denied(attempt: Awaitable[object]) -> bool:
    try:
        await attempt
    except DeniedError:
        return True
    except MindxError:
        return False  # whatever refused it, it was not the policy
    return False


PROBES = (
    Probe("leftovers", "nothing of a command outlives it", "a daemon that left its session", _leftover),
    Probe("forging", "a leftover cannot forge a later command's output", "wrote into every output it found", _forged),
    Probe("exit", "the exit is the program's own", "printed another one", _exit),
    Probe(
        "output", "output over the cap is counted, digested and marked", "printed 64 MiB with a cap of 4 KiB", _output
    ),
    Probe("policy", "every command passes the policy", "sent denied ones of each kind through the driver", _policy),
)
