"""Runtimes for the processes of test_agent_process, and a host that can be killed (`python -m` runs it)."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from mindx import ActionRisk, AgentProcess, AgentRuntime, FunctionExecutor, RunConfig
from mindx.agents.process_wire import SOCKET_VARIABLE
from tests.agents.society import Mind
from tests.agents.support import act

CONFIG = RunConfig(heartbeat_s=0.0)
# A child that left its parent's session and outlived it: nothing but the keeper knows of it.
STRAY = "import os, sys, time\nif os.fork(): os._exit(0)\nos.setsid()\nprint(os.getpid(), flush=True)\ntime.sleep(600)"


def runtime_of(mind: Any, **functions: Any) -> AgentRuntime:
    risks = {"look": ActionRisk.READ_ONLY, "write": ActionRisk.WRITE}
    doing = {"look": lambda arguments, context: "seen", "write": lambda arguments, context: "written", **functions}
    return AgentRuntime(Mind(mind), FunctionExecutor(doing, risks), config=CONFIG)


def told() -> AgentRuntime:
    """Tries to look and to write, and answers with what came of it and with what it was given."""

    def mind(context: Any) -> Any:
        if context.step == 1:
            return act("look", "write")
        found = {
            "statuses": [item.status.value for item in context.observations],
            "pid": os.getpid(),
            "task": context.task,
            "folder": str(context.environment.workspace_root),
            "socket": os.environ.get(SOCKET_VARIABLE),
            "max_steps": context.config.max_steps,
        }
        return json.dumps(found)

    return runtime_of(mind)


def dies() -> AgentRuntime:
    return runtime_of(lambda context: act("look"), look=lambda arguments, context: os._exit(3))


def raises() -> AgentRuntime:
    raise RuntimeError("no runtime today")


def too_much() -> AgentRuntime:
    return runtime_of(lambda context: "x" * (17 * 1024 * 1024))


def strays() -> AgentRuntime:
    """Starts a stray process, writes both pids to the task's file, and holds its loop for good."""

    def mind(context: Any) -> Any:
        stray = subprocess.Popen([sys.executable, "-c", STRAY], stdout=subprocess.PIPE, text=True)
        Path(context.task).write_text(f"{os.getpid()} {stray.stdout.readline().strip()}\n")
        time.sleep(600)

    return runtime_of(mind)


def contained() -> AgentRuntime:
    """Opens its container, writes the pid of its process to the task's file, and holds its loop for good."""

    async def look(arguments: Any, context: Any) -> str:
        await context.open_sandbox()
        hold()
        return ""

    def hold() -> None:
        Path(place[0]).write_text(f"{os.getpid()}\n")
        time.sleep(600)

    place: list[str] = []

    def mind(context: Any) -> Any:
        place.append(context.task)
        return act("look")

    return runtime_of(mind, look=look)


def place() -> AgentRuntime:
    """Answers with the mode of the folder that the socket lies in."""
    folder = Path(os.environ[SOCKET_VARIABLE]).parent
    found = json.dumps([str(folder), stat.S_IMODE(folder.stat().st_mode)])
    return runtime_of(lambda context: found)


if __name__ == "__main__":
    asyncio.run(AgentProcess("tests.agents.worker_factories:strays").run(sys.argv[1]))
