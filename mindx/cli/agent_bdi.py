"""The mind `bdi` of `mindx agent`: its goal and criteria, its state in the run's folder, and how one is resumed."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mindx.core.folders import mind_dir
from mindx.errors import InputError
from mindx.policy.load import LoadedPolicy
from mindx.providers.base import BaseProvider
from mindx.trace.read import read
from mindx.trace.run_folder import RunFolder, RunStore

if TYPE_CHECKING:
    from mindx.agents.bdi import BDIAgent, BDIResult

F = TypeVar("F", bound=Callable[..., Any])
STATE_FILE = "agent.sqlite3"


def criteria_options(function: F) -> F:
    """Give a command the options that say when a goal counts as achieved."""
    for option in (
        click.option("--accept-that", metavar="TEXT", multiple=True, help="The model must find this proven."),
        click.option("--accept-file", metavar="PATH[=TEXT]", multiple=True, help="This file must hold this text."),
        click.option("--accept", metavar="CMD", multiple=True, help="This command must succeed in the container."),
    ):
        function = option(function)
    return function


def criteria_from(accept: Sequence[str], files: Sequence[str], statements: Sequence[str]) -> list[Any]:
    """Return the criteria that the options name. Raises InputError (criterion_invalid)."""
    found: list[Any] = []
    for line in accept:
        try:
            found.append({"command": shlex.split(line)})
        except ValueError as error:
            raise InputError("criterion_invalid", f"--accept {line!a}: {error}") from None
    for item in files:
        path, equals, text = item.partition("=")
        found.append({"file": path, **({"contains": text} if equals else {})})
    return [*found, *statements]


def bdi_agent(
    provider: BaseProvider,
    policy: LoadedPolicy,
    model: str,
    max_cycles: int,
    workspace: Path | None,
    state: Path | None = None,
) -> BDIAgent:
    """Return an agent with the tools of a plan and two that reckon, which believes what the system believes.

    `state` is the file of an agent that is taken up again; it is read and not written. Raises StateError.
    """
    from mindx.agents.bdi import BDIAgent, Budget
    from mindx.agents.beliefs.system import BELIEFS_FILE, BeliefSystem
    from mindx.agents.constitution import Constitution
    from mindx.runtime.vetting import tools_for
    from mindx.tools.builtin.calculator import CalculatorTool
    from mindx.tools.builtin.time_now import TimeNowTool

    limits = policy.policy.limits
    return BDIAgent(
        provider,
        tools_for(limits).with_tools(TimeNowTool(), CalculatorTool()),
        beliefs=BeliefSystem(mind_dir() / BELIEFS_FILE),
        state_path=state,
        budget=Budget(cycles=max_cycles, seconds=float(limits.session_timeout_s)),
        domain=domain_of(workspace),
        constitution=Constitution.of(mind_dir()),
        model=model,
        reports=True,
    )


def domain_of(workspace: Path | None) -> str:
    """Return whose beliefs an agent has: those of its folder alone, so that one project plants none in another."""
    if workspace is None:
        return "agent"
    path = workspace.resolve()
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.name)[:40] or "root"
    return f"agent.{name}-{digest}"


def state_of(store: RunStore, run: str) -> tuple[Path, Path | None]:
    """Return the state of the agent of a run, and the folder that it worked on. Raises InputError."""
    folder = store.find(run)
    path = folder.path / STATE_FILE
    if not path.is_file():
        raise InputError("agent_state_missing", f"the run {folder.run_id} is of no agent with goals; name another")
    if folder.state() == "running":
        raise InputError("agent_running", f"the agent of the run {folder.run_id} is still at work")
    return path, _workspace(folder)


def check_open(agent: BDIAgent) -> None:
    """Raise InputError (agent_done) when an agent that is taken up again has no goal left to pursue."""
    if any(goal.open for goal in agent.goals):
        return
    goal = agent.goal
    ended = "achieved its goal" if goal is not None and goal.status.done else "given its goal up"
    raise InputError("agent_done", f"that agent has {ended}; give a new GOAL to one of its own")


def result_lines(result: BDIResult) -> dict[str, Any]:
    """Return what the document of `mindx agent --json` tells of an agent with goals."""
    return {
        "mind": "bdi",
        "status": result.status.value,
        "goal_id": result.goal_id,
        "plan_ids": list(result.plan_ids),
        "cycles": result.cycles,
    }


def _workspace(folder: RunFolder) -> Path | None:
    """Return the folder that a run copied in, as its record says."""
    for event in read(folder.trace_path):
        named = event.data.get("workspace") if event.kind == "run_started" else None
        return Path(named) if isinstance(named, str) else None
    return None
