"""One client process for the memory probe: prints its RSS in MiB once it is ready, and ends when stdin does.

Its argument says how many sessions it holds open; with 0 it has done no more with the Docker SDK than ask for the
version. Each way imports only what it needs.
"""

from __future__ import annotations

import sys

from scripts.bench.proc import rss_mib


def hold_sessions(sessions: int) -> None:
    import asyncio
    from contextlib import AsyncExitStack

    import mindx

    async def hold() -> None:
        async with AsyncExitStack() as stack:
            for _ in range(sessions):
                session = await stack.enter_async_context(mindx.Session())
                await session.run(["true"])
            wait()

    asyncio.run(hold())


def hold_client() -> None:
    import docker

    client = docker.from_env()
    client.version()
    wait()
    client.close()


def wait() -> None:
    """Say how much this process takes, and do nothing until the parent has looked at the containers as well."""
    print(rss_mib(), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    hold_sessions(int(sys.argv[1])) if sys.argv[1] != "0" else hold_client()
