"""The long form of the attacks: kills at random moments, quick commands with random deadlines, races on paths.

`make soak` runs all of it; `--scale 0.01` a hundredth. Each part prints one line, and the exit code is 1 if one fails.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import docker

from mindx.core.command import Exec, ReadFile
from mindx.core.receipt import ExitCause
from mindx.errors import FileError
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.engine import connect
from mindx.sandbox.gc import collect, find_leftovers

ROOT = Path(__file__).resolve().parents[1]
CLIENT = """
import asyncio
from mindx.core.command import Exec
from mindx.sandbox.docker import DockerSandbox
async def main():
    async with DockerSandbox() as sandbox:
        while True:
            await sandbox.execute(Exec(("sh", "-c", "head -c 5M /dev/zero; sleep 0.1")))
            await sandbox.manifest()
asyncio.run(main())
"""
# Ends by itself, by a signal or at its deadline, and leaves something behind.
QUICK = "setsid sleep 30 & [ $1 = 0 ] && kill -TERM $$; sleep $2; exit $1"
RACE = """
import ctypes, os
libc = ctypes.CDLL(None)
os.makedirs("race/real"); os.makedirs("/tmp/outside")
open("race/real/file", "w").write("inside"); open("/tmp/outside/file", "w").write("outside")
os.symlink("/tmp/outside", "race/link")
print("on", flush=True)
while True: libc.renameat2(-100, b"race/real", -100, b"race/link", 2)
"""


async def alone(engine: docker.DockerClient, sandbox: DockerSandbox) -> bool:
    """Return whether only PID 1 and its watchdog live in a container."""
    listed = await asyncio.to_thread(engine.api.top, sandbox.container_id, "-eo pid,args")
    return all("/mindx/guest" in row[-1] for row in listed["Processes"])


async def kills(engine: docker.DockerClient, chance: random.Random, count: int) -> str:
    """SIGKILL clients at random moments; nothing runs 5 s later, and nothing at all is left after gc."""
    pids: set[int] = set()

    async def one() -> None:
        client = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, cwd=ROOT)
        await asyncio.sleep(chance.uniform(0.2, 3.0))
        client.kill()
        await client.wait()
        pids.add(client.pid)

    def left(every: bool) -> int:
        found = engine.api.containers(all=every, filters={"label": "mindx.session"})
        return sum(int(container["Labels"].get("mindx.pid", "0")) in pids for container in found)

    for start in range(0, count, 5):
        await asyncio.gather(*(one() for _ in range(min(5, count - start))))
    await asyncio.sleep(5)
    running = left(every=False)
    await asyncio.to_thread(lambda: collect(engine, find_leftovers(engine)))
    if running or left(every=True):
        raise AssertionError(f"{running} still run after 5 s, {left(every=True)} are left after gc")
    return f"{count} clients killed"


async def deadlines(engine: docker.DockerClient, chance: random.Random, count: int) -> str:
    """Quick commands with random deadlines: no process is left, and every exit cause fits."""
    causes: Counter[str] = Counter()
    async with DockerSandbox() as sandbox:
        for turn in range(count):
            code, seconds, timeout_s = chance.randrange(5), chance.uniform(0, 0.02), chance.uniform(0.001, 0.03)
            command = Exec(("sh", "-c", QUICK, "sh", str(code), f"{seconds:.4f}"), timeout_s=timeout_s)
            result = await sandbox.execute(command)
            fits = {
                ExitCause.TIMEOUT: result.duration_s >= timeout_s,
                ExitCause.EXIT: result.exit_code == code and code > 0,
                ExitCause.SIGNAL: result.receipt.signal == 15 and code == 0,
            }
            if not fits.get(result.exit_cause, False):
                raise AssertionError(f"turn {turn}: {command} gave {result.receipt}")
            causes[result.exit_cause.value] += 1
            if turn % 100 == 0 and not await alone(engine, sandbox):
                raise AssertionError(f"turn {turn}: a process is left")
    return f"{count} commands: {dict(causes)}"


async def cancellations(engine: docker.DockerClient, chance: random.Random, count: int) -> str:
    """Cancel commands around their own end: exactly one verdict each, and never a hang."""
    verdicts: Counter[str] = Counter()
    async with DockerSandbox() as sandbox:
        for _ in range(count):
            task = asyncio.create_task(sandbox.execute(Exec(("sh", "-c", "exit 3"), timeout_s=None)))
            await asyncio.sleep(chance.uniform(0, 0.006))
            task.cancel()
            await asyncio.wait({task}, timeout=10)
            if not task.done() or (not task.cancelled() and task.result().exit_code != 3):
                raise AssertionError(f"not one verdict: {task}")
            verdicts["cancelled" if task.cancelled() else "ended"] += 1
        if not await alone(engine, sandbox):
            raise AssertionError("a process is left")
    return f"{count} cancellations: {dict(verdicts)}"


async def race(engine: docker.DockerClient, chance: random.Random, count: int) -> str:
    """Read through a directory that is swapped for a link all the time: never a byte from outside."""
    found: Counter[str] = Counter()
    on = asyncio.Event()
    async with DockerSandbox() as sandbox:

        async def read() -> str:
            try:
                return (await sandbox.read_file(ReadFile("/workspace/race/real/file"))).decode()
            except FileError as error:
                return f"errno {error.errno}"

        swapping = asyncio.create_task(
            sandbox.execute(Exec(("python3", "-c", RACE), timeout_s=None), lambda *_: on.set())
        )
        await asyncio.wait_for(on.wait(), 30)
        for start in range(0, count, 500):
            found.update(await asyncio.gather(*(read() for _ in range(min(500, count - start)))))
        swapping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await swapping
    if "outside" in found or not found["inside"]:
        raise AssertionError(f"{dict(found)}")
    return f"{count} reads: {dict(found)}"


Part = Callable[[docker.DockerClient, random.Random, int], Awaitable[str]]
PARTS: dict[str, tuple[Part, int]] = {
    "kills": (kills, 200),
    "deadlines": (deadlines, 10_000),
    "cancellations": (cancellations, 10_000),
    "race": (race, 1_000_000),
}


async def run(names: list[str], scale: float, seed: int) -> int:
    """Run the named parts one after the other and return the exit code."""
    engine = connect()
    failed = 0
    try:
        for name in names:
            part, count = PARTS[name]
            began = time.monotonic()
            try:
                said = await part(engine, random.Random(seed), max(1, round(count * scale)))
            except AssertionError as error:
                failed, said = 1, f"FAILED: {error}"
            print(f"{name:14}{time.monotonic() - began:8.1f} s  {said}", flush=True)
    finally:
        engine.close()
    return failed


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all when none is named")
    parser.add_argument("--scale", type=float, default=1.0, help="a fraction of the full counts")
    parser.add_argument("--seed", type=int, default=1, help="what the random moments come from")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    sys.exit(asyncio.run(run(options.parts or list(PARTS), options.scale, options.seed)))


if __name__ == "__main__":
    main()
