"""`mindx check`: what is wrong with a plan, and what it would do, without a container."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mindx.cli.escape import escape_line
from mindx.cli.options import autonomous_option, complete_file, json_option, policy_option, read_plan
from mindx.cli.prose import print_json, styled
from mindx.cli.render import action_label, fault_lines
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.run import Outcome
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import LoadedPolicy
from mindx.runtime.vetting import UNSOUND, refusal_of, step_faults, tools_for, unsound_actions, vet_source
from mindx.settings import effective_policy
from mindx.tools.vet import VettedPlan, VettedStep

_COLOURS = {"ok": "green", "asks": "cyan", "invalid": "red", "denied": "yellow"}


@click.command(
    name="check", epilog="\b\nExamples:\n  mindx check plan.json\n  mindx check plan.json --policy read-only --json"
)
@click.argument("plan", metavar="PLAN|-", shell_complete=complete_file)
@policy_option
@click.option(
    "--workspace",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The folder that the plan will run on: its mindx.yaml and .mindx/policy.yaml count.",
)
@autonomous_option
@json_option
def command(plan: str, policy: str | None, workspace: Path | None, autonomous: bool, as_json: bool) -> int:
    """Check PLAN (a JSON file, `-` for standard input): its form, and every step against the policy.

    Exit code 0 if it may run, 2 if it is invalid, 3 if it is only denied. A step that `asks` may run when a person, or
    `mindx run --approve-from`, says yes.
    """
    source = read_plan(plan)
    loaded = effective_policy(policy, workspace=workspace)
    engine = PolicyEngine(loaded.policy, autonomous=autonomous)
    parsed, vetted = vet_source(source, engine, tools_for(loaded.policy.limits), may_ask=True)
    actions = (*parsed.actions, *unsound_actions(source, parsed))
    labels = {action.index: action_label(action) for action in actions}
    refusal = refusal_of(vetted)
    if as_json:
        print_json(render_json(_document(vetted, loaded, refusal)))
    else:
        _print(labels, vetted, "<stdin>" if plan == "-" else plan, refusal)
    return 0 if refusal is None else refusal.exit_code


def _verdict(vetted: VettedPlan, step: VettedStep) -> tuple[str, str]:
    """Return `ok`, `asks`, `invalid` or `denied`, and why."""
    faults = step_faults(vetted, step.index)
    if step.asks and step.verdict is not None:
        return "asks", step.verdict.reason
    if not faults:
        # Without an id its form is not sound, also where there are too many faults to list them all.
        return ("ok", "") if step.action_id else ("invalid", UNSOUND)
    kind = "invalid" if any(fault.kind == "invalid" for fault in faults) else "denied"
    return kind, "; ".join(fault.message for fault in faults)


def _document(vetted: VettedPlan, loaded: LoadedPolicy, refusal: Outcome | None) -> dict[str, Any]:
    steps = []
    for step in vetted.steps:
        verdict, reason = _verdict(vetted, step)
        steps.append(
            {
                "index": step.index,
                "action_id": step.action_id,
                "type": step.type,
                "command": step.command,
                "verdict": verdict,
                "reason": reason,
                "rule": None if step.verdict is None else step.verdict.rule,
            }
        )
    return {
        "schema_version": SCHEMA_VERSION,
        "ok": refusal is None,
        "outcome": None if refusal is None else refusal.value,
        "plan_sha256": None if vetted.plan is None else vetted.plan.sha256,
        "policy": {"name": loaded.name, "sha256": loaded.sha256},
        "steps": steps,
        "faults": [fault.to_dict() for fault in vetted.faults],
    }


def _print(labels: dict[int, str], vetted: VettedPlan, name: str, refusal: Outcome | None) -> None:
    for step in vetted.steps:
        verdict, reason = _verdict(vetted, step)
        told = f": {escape_line(reason)}" if reason else ""
        shown = styled(verdict, _COLOURS[verdict], sys.stdout)
        click.echo(f"[{step.index + 1}/{len(vetted.steps)}] {labels[step.index]}  {shown}{told}")
    for line in fault_lines(vetted.faults, name):
        click.echo(line, err=True)
    asks = f", if a person says yes to what asks ({vetted.asks})" if vetted.asks else ""
    click.echo(f"The plan may run{asks}." if refusal is None else f"The plan may not run: it is {refusal.value}.")
