"""The risk of one Command, as the scheduler and the approval see it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from mindx.core.action import ActionRisk, ActionTraits
from mindx.core.agent_context import AgentContext
from mindx.core.command import Command, Exec, ListDir, ReadFile, Stat
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import load_policy
from mindx.policy.risk import Risk
from mindx.tools.context import ToolContext

# Programs that a person is asked about whatever the operator's rules say (seed S4's own list).
ALWAYS_DANGEROUS = frozenset({"chmod", "chown", "dd", "kill", "mkfs", "mount", "rm", "shutdown", "sudo"})
_RISKS = {
    Risk.READ_ONLY: ActionRisk.READ_ONLY,
    Risk.WRITE: ActionRisk.WRITE,
    Risk.DANGEROUS: ActionRisk.DANGEROUS,
}


@lru_cache(maxsize=1)
def ordinary_engine() -> PolicyEngine:
    """Return the engine of the preset `default`, for where the operator named no policy."""
    return PolicyEngine(load_policy().policy, autonomous=False)


def session_engine(context: AgentContext | ToolContext, own: PolicyEngine | None = None) -> PolicyEngine:
    """Return the engine that the session's Driver judges by: then a tool and the Driver cannot be of two minds.

    Where no session is, it is `own`, or else the preset `default`'s. Raises InputError for a policy that is none.
    """
    if context.operator_engine is not None:
        engine: PolicyEngine = context.operator_engine()
        return engine
    return own or ordinary_engine()


def command_traits(commands: Iterable[Command], engine: PolicyEngine, key: str | None = None) -> ActionTraits:
    """Return the worst risk of the Commands and what the policy says: a denial, or that a person must be asked.

    `key` is the concurrency key.
    """
    risk, asks, rule = ActionRisk.READ_ONLY, False, ""
    for command in commands:
        risk = max(risk, command_risk(command, engine), key=lambda item: item.rank)
        verdict = engine.judge(command)
        if verdict.decision == "deny":
            return ActionTraits(risk, False, key, denial=verdict.reason, rule=verdict.rule)
        if verdict.decision == "ask" and not asks:
            asks, rule = True, verdict.rule
    return ActionTraits(risk, asks, key, rule=rule)


def command_risk(command: Command, engine: PolicyEngine | None = None) -> ActionRisk:
    """Return what a Command may do; `engine` None takes the preset `default`.

    A program that runs code (python3, pytest, make) is dangerous by its nature. Where a rule of the operator's policy
    allows this very command it counts as WRITE, for the operator has decided and the container is the boundary (see
    docs/decisions/0003). What no rule allows stays dangerous, and so do the programs of ALWAYS_DANGEROUS.
    """
    if not isinstance(command, Exec):
        return ActionRisk.READ_ONLY if isinstance(command, (ReadFile, ListDir, Stat)) else ActionRisk.WRITE
    found = (engine or ordinary_engine()).explain(command)
    if any(_always(step.argv) for step in found.steps):
        return ActionRisk.DANGEROUS
    risk = _RISKS[found.risk]
    return ActionRisk.WRITE if risk is ActionRisk.DANGEROUS and found.verdict.allowed else risk


def _always(argv: Sequence[str]) -> bool:
    program = argv[0].rsplit("/", 1)[-1] if argv else ""
    return program in ALWAYS_DANGEROUS or program.startswith("mkfs.")
