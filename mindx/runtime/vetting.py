"""Vetting a plan's text by a policy, before anything is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mindx.core.fault import Fault
from mindx.core.observation import Observation, Status
from mindx.core.plan import MAX_ACTIONS, Action, ParsedPlan, parse_plan
from mindx.core.run import Outcome, StepRecord
from mindx.core.strict_json import read_json
from mindx.policy.engine import PolicyEngine
from mindx.policy.model import Limits
from mindx.tools.registry import ToolRegistry
from mindx.tools.simple_coder import SimpleCoder
from mindx.tools.simple_coder_lower import CoderSettings
from mindx.tools.vet import VettedPlan, VettedStep, vet

UNSOUND = "it is no action"


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

    `states` is what the tools remember from before, None for a clean start. The steps are those of the whole list: one
    whose form is not sound has an empty id.
    """
    parsed = parse_plan(source)
    vetted = vet(parsed, tools, engine.judge, engine.autonomous, may_ask, states)
    unsound = [VettedStep(action.index, "", action.type) for action in unsound_actions(source, parsed)]
    steps = sorted((*vetted.steps, *unsound), key=lambda step: step.index)
    return parsed, replace(vetted, steps=tuple(steps))


def unsound_actions(source: bytes, parsed: ParsedPlan) -> list[Action]:
    """Return the actions of a plan whose form is not sound, as far as they can be read; the type of some is `?`."""
    found = None if parsed.plan is not None else read_json(source)
    items = found.value if found is not None and isinstance(found.value, list) else []
    sound = {action.index for action in parsed.actions}
    unsound = []
    for index, item in enumerate(items[:MAX_ACTIONS]):
        if index not in sound:
            known = item if isinstance(item, dict) else {}
            kind, params = known.get("type"), known.get("params")
            told = params if isinstance(params, dict) else {}
            unsound.append(Action("", kind if isinstance(kind, str) else "?", told, index))
    return unsound


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
        message, status = "not reached: the plan may not run", Status.SKIPPED
        if faults or not step.action_id:  # there may be too many faults to list them all
            denied = faults and all(fault.kind == "denied" for fault in faults)
            message = "; ".join(fault.message for fault in faults) or UNSOUND
            status = Status.DENIED if denied else Status.ERROR
        steps.append(StepRecord.of(step.index, step.type, step.command, Observation(step.action_id, status, message)))
    return tuple(steps)
