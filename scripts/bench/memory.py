"""Memory: what an idle session takes in the engine, and its client here.

A session is its container's processes (the guest as PID 1 and its watchdog) and the shim that the engine keeps for
each container. Their pids come from the engine (State.Pid, top), the shim is PID 1's parent on the host; each counts
with its PSS, in which a page that several processes share is shared out among them.

The figure is what one more session takes: the PSS of MANY sessions less that of one, for each of the others. A first
session also pays for the pages of the programs themselves (the shim's alone are 9 MiB), which all others share; what
it takes alone is in the document as `session_pss_alone`.

The client is a fresh interpreter that holds one session open; its figure is its RSS over that of a bare SDK client.
All this needs a local engine and the right to read /proc/PID/smaps_rollup.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import docker

from scripts.bench.proc import parent_of, pss_mib
from scripts.bench.samples import Samples

MANY = 9
CLIENT_WITHIN_S = 60
ROOT = Path(__file__).resolve().parents[2]


async def measure_memory(samples: Samples, engine: docker.DockerClient) -> None:
    """Add one sample of each: one more session, one alone, the client that holds one, a bare SDK client."""
    async with _client("0") as (_, rss):
        samples.add("sdk_client_rss", rss)
    async with _client("1") as (pid, rss):
        samples.add("client_rss", rss)
        alone = sessions_pss_mib(engine, pid, 1)
    samples.add("session_pss_alone", alone)
    async with _client(str(MANY)) as (pid, _):
        samples.add("session_pss", (sessions_pss_mib(engine, pid, MANY) - alone) / (MANY - 1))


def sessions_pss_mib(engine: docker.DockerClient, owner: int, expected: int) -> float:
    """Return the PSS of all sessions of a process, in MiB. Raises OSError without the right to see it."""
    owned = engine.api.containers(filters={"label": f"mindx.pid={owner}"})
    if len(owned) != expected:
        raise RuntimeError(f"{len(owned)} sessions of process {owner} are running, not {expected}")
    pids: set[int] = set()
    for container in owned:
        first = int(engine.api.inspect_container(container["Id"])["State"]["Pid"])
        listed = engine.api.top(container["Id"], ps_args="-eo pid")
        pids |= {first, parent_of(first)} | {int(row[0]) for row in listed["Processes"]}
    return sum(pss_mib(pid) for pid in pids)


@asynccontextmanager
async def _client(sessions: str) -> AsyncIterator[tuple[int, float]]:
    """Run a client with so many sessions (0: a bare SDK client); yield its pid and its RSS in MiB."""
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "scripts.bench.client", sessions]
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), CLIENT_WITHIN_S)
        if not line:
            raise RuntimeError("the client of the memory probe ended before it was ready")
        yield process.pid, float(line)
    finally:
        process.stdin.close()
        await asyncio.wait_for(process.wait(), CLIENT_WITHIN_S)
