"""What an agent is to the orchestrator, and what it may do below another: never more than its parent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mindx.core.action import ActionRisk
from mindx.core.agent_result import AgentResult
from mindx.core.agent_session import SessionEnvironment, SessionPolicy
from mindx.core.protocols import EventHandler
from mindx.core.quote import quoted
from mindx.core.run_config import RunConfig
from mindx.errors import InputError
from mindx.runtime.reaping import CloseReport
from mindx.runtime.run_ids import checked_id

_LIMITS = ("total_timeout_s", "batch_timeout_s", "action_timeout_s", "step_timeout_s")
_COUNTS = ("max_steps", "max_parallel_actions")
_RIGHTS = ("parallel", "allow_write", "allow_dangerous", "interactive")


class TaskRunner(Protocol):
    """What runs an agent's tasks: an AgentRuntime of this process, or an AgentProcess."""

    config: RunConfig

    async def run(
        self,
        task: str,
        *,
        run_id: str | None = None,
        config: RunConfig | None = None,
        policy: SessionPolicy | None = None,
        environment: SessionEnvironment | None = None,
        event_handler: EventHandler | None = None,
    ) -> AgentResult:
        """Run one task to its end; a failed one is a result too."""
        ...

    def cancel(self, run_id: str) -> bool:
        """Interrupt a run; return False when there is no such run."""
        ...

    async def close(self, *, close_dependencies: bool = False) -> CloseReport:
        """Refuse new work and end what runs."""
        ...


@dataclass(frozen=True, slots=True)
class AgentWorkerSpec:
    """An agent by its name: the runtime that runs it (an AgentRuntime or an AgentProcess), and the most that it may do.

    `risk` bounds the agent, and is what its AGENT Actions count as: READ_ONLY ones may run side by side and change
    nothing. `policy`, `environment` and `config` None mean the parent's, or the runtime's own without a parent.
    `description` is what a model is told. Raises InputError (id_invalid) for a name that is no plain one.
    """

    name: str
    runtime: TaskRunner
    description: str = ""
    risk: ActionRisk = ActionRisk.WRITE
    policy: SessionPolicy | None = None
    environment: SessionEnvironment | None = None
    config: RunConfig | None = None
    require_approval: bool = False

    def __post_init__(self) -> None:
        checked_id(self.name, "agent's name")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a task runs with, and the ceiling of every task below it."""

    config: RunConfig
    policy: SessionPolicy | None = None
    environment: SessionEnvironment | None = None


def bounds_of(spec: AgentWorkerSpec, above: Bounds | None, timeout_s: float) -> Bounds:
    """Return what both the agent and its parent allow, for `timeout_s` seconds at most.

    Raises InputError (agent_workspace_outside) when the agent's folder is not the parent's or in it.
    """
    config = tightened(spec.config or spec.runtime.config, timeout_s)
    policy = spec.policy
    environment = spec.environment
    if above is not None:
        config = dataclasses.replace(
            tightened(config, above.config.total_timeout_s),
            allow_write=config.allow_write and above.config.allow_write,
            allow_dangerous=config.allow_dangerous and above.config.allow_dangerous,
            max_parallel_actions=min(config.max_parallel_actions, above.config.max_parallel_actions),
            interactive=False,  # a child has nobody to ask but its parent
        )
        policy = above.policy if policy is None else policy if above.policy is None else policy.intersect(above.policy)
        environment = _environment(environment, above.environment)
    if spec.risk is not ActionRisk.DANGEROUS:
        config = dataclasses.replace(
            config, allow_dangerous=False, allow_write=config.allow_write and spec.risk is ActionRisk.WRITE
        )
    return Bounds(config, policy, environment)


def tightened(config: RunConfig, limit_s: float) -> RunConfig:
    """Return the limits with none above `limit_s` seconds."""
    return dataclasses.replace(config, **{name: min(getattr(config, name), limit_s) for name in _LIMITS})


def least(one: RunConfig, other: RunConfig) -> RunConfig:
    """Return what both configurations allow; what is no limit is the first one's."""
    numbers = {name: min(getattr(one, name), getattr(other, name)) for name in (*_LIMITS, *_COUNTS)}
    rights = {name: getattr(one, name) and getattr(other, name) for name in _RIGHTS}
    return dataclasses.replace(one, **numbers, **rights)


def _environment(own: SessionEnvironment | None, above: SessionEnvironment | None) -> SessionEnvironment:
    """Return what both have: the parent's folder or one in it, and the parent's variables that the agent names."""
    above = above or SessionEnvironment()
    if own is None:
        return above
    return SessionEnvironment(
        _folder(own.workspace_root, above.workspace_root),
        _both(own.env_vars, above.env_vars),
        own.memory_namespace or above.memory_namespace,
    )


def _folder(own: Path | None, above: Path | None) -> Path | None:
    if own is None:
        return None
    if above is None or not own.resolve().is_relative_to(above.resolve()):
        raise InputError(
            "agent_workspace_outside", f"the agent's folder {quoted(str(own))} is not in that of its parent"
        )
    return own


def _both(own: Mapping[str, str], above: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in above.items() if own.get(name) == value}
