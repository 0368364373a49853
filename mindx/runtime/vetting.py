"""Vetting a plan's text by a policy, before anything is started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindx.core.fault import Fault
from mindx.core.observation import Observation, Status
from mindx.core.plan import ParsedPlan, parse_plan
from mindx.core.run import Outcome, StepRecord
from mindx.policy.engine import PolicyEngine
from mindx.policy.model import Limits
from mindx.tools.registry import ToolRegistry
from mindx.tools.simple_coder import SimpleCoder
from mindx.tools.simple_coder_lower import CoderSettings
from mindx.tools.vet import VettedPlan, vet


def tools_for(limits: Limits, *, operator: bool = False, no_grant: str = "") -> ToolRegistry:
    """Return the tools, with the limits of the policy that they keep to.

    `operator` True where lines are typed, not a plan's; `no_grant` says why they cannot switch autonomous mode.
    """
    settings = CoderSettings(limits.command_timeout_s, limits.output_bytes, operator, limits.background, no_grant)
    return ToolRegistry([SimpleCoder(settings)])


def vet_source(
    source: bytes,
    engine: PolicyEngine,
    tools: ToolRegistry,
    *,
    may_ask: bool,
    states: Mapping[str, Any] | None = None,
) -> tuple[ParsedPlan, VettedPlan]:
    """Read a plan and judge all of it; `may_ask` True when somebody can answer. Never raises for what it holds.

    `states` is what the tools remember from before, None for a clean start.
    """
    parsed = parse_plan(source)
    return parsed, vet(parsed, tools, engine.judge, engine.autonomous, may_ask, states)


def refusal_of(vetted: VettedPlan) -> Outcome | None:
    """Return the outcome of a plan that may not run (invalid before denied), or None."""
    if vetted.invalid:
        return Outcome.INVALID
    return Outcome.DENIED if vetted.denied else None


def step_faults(vetted: VettedPlan, index: int) -> list[Fault]:
    """Return what stands against one step, without warnings."""
    own = f"$[{index}]"
    return [f for f in vetted.faults if f.kind != "warning" and (f.path == own or f.path.startswith(own + "."))]


def refused_steps(vetted: VettedPlan) -> tuple[StepRecord, ...]:
    """Return the steps of a plan that may not run: ERROR or DENIED where there is a fault, the others SKIPPED."""
    steps = []
    for step in vetted.steps:
        faults = step_faults(vetted, step.index)
        message = "; ".join(fault.message for fault in faults) or "not reached: the plan may not run"
        status = Status.SKIPPED
        if faults:
            status = Status.ERROR if any(fault.kind == "invalid" for fault in faults) else Status.DENIED
        steps.append(StepRecord.of(step.index, step.type, step.command, Observation(step.action_id, status, message)))
    return tuple(steps)
