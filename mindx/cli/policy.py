"""`mindx policy`: what a policy says, what is wrong with it, and what it would say of a command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from mindx.cli.escape import escape, escape_line
from mindx.cli.options import autonomous_option, complete_policy, json_option, policy_option
from mindx.cli.policy_runs import replay_runs, suggest_rules
from mindx.cli.prose import note, print_json, styled
from mindx.core.command import Exec
from mindx.core.count import counted
from mindx.core.verdict import Verdict
from mindx.policy.engine import Explanation, PolicyEngine
from mindx.policy.layers import Merged
from mindx.policy.load import load_policy
from mindx.policy.paths import resolve
from mindx.policy.words import shown
from mindx.settings import policy_in_force, read_settings

_SCHEMA_VERSION = 1
_COLOURS = {"allow": "green", "ask": "yellow", "deny": "red"}
project_option = click.option(
    "--workspace",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of a run: its .mindx/policy.yaml is a layer too.",
)


@click.group(
    name="policy",
    epilog="\b\nExamples:\n  mindx policy show --origin\n  mindx policy explain -- git push origin\n"
    "  mindx policy check my-policy.yaml\n  mindx policy suggest last",
)
def command() -> None:
    """Check and explain policies: what a plan may do."""


@command.command(name="schema", epilog="\b\nExample:\n  mindx policy schema > policy.schema.json")
def show_schema() -> None:
    """Print the JSON Schema of policy files."""
    from mindx.policy.text import json_schema

    print_json(json.dumps(json_schema(), indent=2) + "\n")


@command.command(name="show", epilog="\b\nExample:\n  mindx policy show --policy read-only --workspace . --origin")
@policy_option
@project_option
@click.option("--origin", is_flag=True, help="Say of each key which layers decided it.")
@json_option
def show_policy(policy: str | None, workspace: Path | None, origin: bool, as_json: bool) -> None:
    """Print the policy in force: all layers merged, with every default, and its digest."""
    from mindx.policy.text import as_document, as_yaml

    merged = policy_in_force(read_settings(policy, workspace=workspace), workspace)
    loaded = merged.loaded
    if as_json:
        _print_document(
            policy=as_document(loaded.policy),
            sha256=loaded.sha256,
            origin=merged.origin,
            layers=[_layer(one) for one in merged.layers],
        )
        return
    click.echo(f"# sha256: {loaded.sha256}")
    for layer in merged.layers:
        word = "" if layer.trusted else ", not trusted: it can only tighten"
        source = layer.loaded.source.removeprefix(f"{layer.name}:")
        click.echo(escape_line(f"# {layer.name}: {source}{word}"))
    click.echo(escape(as_yaml(loaded.policy, merged.origin if origin else None)), nl=False)


@command.command(
    name="check", epilog="\b\nExamples:\n  mindx policy check my-policy.yaml\n  mindx policy check default"
)
@click.argument("file", metavar="FILE|PRESET", shell_complete=complete_policy)
@click.option("--strict", is_flag=True, help="Exit 1 if there is a warning.")
@json_option
def check_policy(file: str, strict: bool, as_json: bool) -> int:
    """Check FILE: every fault with line and column, and rules that never decide, or allow more than they look.

    Exit code 0 if it can be used, 2 if not; warnings alone do not change that, but with --strict they are 1.
    """
    from mindx.policy.review import review

    loaded = load_policy(Path(file) if Path(file).is_file() else file)
    findings = review(loaded.policy)
    if as_json:
        warnings = [{"path": f"$.commands[{f.index}]", "kind": f.kind, "message": f.message} for f in findings]
        _print_document(ok=True, name=loaded.name, sha256=loaded.sha256, source=loaded.source, warnings=warnings)
    else:
        for finding in findings:
            line = f"{loaded.source}: commands[{finding.index}]: {finding.kind}: {finding.message}"
            click.echo(escape_line(line), err=True)
        word = counted(len(findings), "warning") if findings else "no warnings"
        click.echo(escape_line(f"{loaded.source}: {counted(len(loaded.policy.commands), 'command rule')}, {word}."))
    return 1 if strict and findings else 0


@command.command(
    name="explain",
    context_settings={"ignore_unknown_options": True},
    epilog="\b\nExamples:\n  mindx policy explain -- tar -I ./x -xf a.tar\n"
    "  mindx policy explain --policy read-only --line 'git log | head'",
)
@policy_option
@project_option
@autonomous_option
@click.option("--line", metavar="LINE", help="A line for bash, instead of ARGV: taken apart, leaf by leaf.")
@click.option("--cwd", metavar="DIR", default=".", help="The directory in the container, under /workspace.")
@json_option
@click.argument("argv", nargs=-1, metavar="[-- ARGV...]")
def explain_command(
    policy: str | None,
    workspace: Path | None,
    autonomous: bool,
    line: str | None,
    cwd: str,
    as_json: bool,
    argv: tuple[str, ...],
) -> int:
    """Say what the policy makes of a command: verdict, rule, reason, layer, risk, and every command inside it.

    Exit code 0 for allow and ask, 3 for deny.
    """
    if (line is None) == (not argv):
        raise click.UsageError("give a command after --, or a line with --line")
    merged = policy_in_force(read_settings(policy, workspace=workspace), workspace)
    engine = PolicyEngine(merged.loaded.policy, autonomous=autonomous)
    limits = merged.loaded.policy.limits
    words = argv if line is None else ("bash", "-o", "pipefail", "-c", line)
    asked = Exec(
        words,
        cwd=resolve(cwd),
        timeout_s=limits.command_timeout_s,
        max_output_bytes=limits.output_bytes,
    )
    explanation = engine.explain(asked)
    if as_json:
        _print_document(**_explained(explanation, merged))
    else:
        _print_explanation(explanation, merged)
        if len(argv) == 1 and argv[0].endswith(".json") and Path(argv[0]).is_file():
            note(f"this explains a command; a plan is explained by: mindx check {argv[0]}")
    return 3 if explanation.verdict.decision == "deny" else 0


@command.command(name="test", epilog="\b\nExample:\n  mindx policy test my-policy.yaml")
@click.argument("file", metavar="FILE|PRESET", shell_complete=complete_policy)
@json_option
def test_policy(file: str, as_json: bool) -> int:
    """Run the examples (match, not_match) of FILE against the whole policy, not only their own rule.

    Exit code 0 if each `match` of an allow rule is allowed (of ask: asked, of deny: denied), else 1.
    """
    import shlex

    loaded = load_policy(Path(file) if Path(file).is_file() else file)
    engine = PolicyEngine(loaded.policy, autonomous=True)
    limits = loaded.policy.limits
    rows: list[dict[str, Any]] = []
    for index, rule in enumerate(loaded.policy.commands):
        for example in rule.match:
            words = tuple(shlex.split(example))
            verdict = engine.judge(
                Exec(words, timeout_s=limits.command_timeout_s, max_output_bytes=limits.output_bytes)
            )
            ok = verdict.decision == rule.decision
            rows.append({"rule": f"commands[{index}]", "example": example, "expected": rule.decision, "ok": ok})
            rows[-1] |= {"verdict": verdict.decision, "decided_by": verdict.rule, "reason": verdict.reason}
    failed = [row for row in rows if not row["ok"]]
    if as_json:
        _print_document(ok=not failed, examples=rows)
        return 1 if failed else 0
    for row in failed:
        text = (
            f"{row['rule']}: {row['example']}: expected {row['expected']}, got {row['verdict']} by {row['decided_by']}"
        )
        click.echo(escape_line(f"{text}: {row['reason']}"), err=True)
    click.echo(f"as expected: {len(rows) - len(failed)} of {counted(len(rows), 'example')}.")
    return 1 if failed else 0


command.add_command(suggest_rules)
command.add_command(replay_runs)


def _print_document(**values: Any) -> None:
    print_json(json.dumps({"schema_version": _SCHEMA_VERSION, **values}, indent=2) + "\n")


def _layer(layer: Any) -> dict[str, Any]:
    return {"name": layer.name, "source": layer.loaded.source, "trusted": layer.trusted, "sha256": layer.loaded.sha256}


def _explained(explanation: Explanation, merged: Merged) -> dict[str, Any]:
    steps = [
        {"argv": list(step.argv), "via": step.via, "risk": step.risk.word, **_verdict(step.verdict, merged)}
        for step in explanation.steps
        if step.argv or step.verdict.decision == "deny"
    ]
    return {**_verdict(explanation.verdict, merged), "risk": explanation.risk.word, "steps": steps}


def _verdict(verdict: Verdict, merged: Merged) -> dict[str, Any]:
    return {
        "verdict": verdict.decision,
        "rule": verdict.rule,
        "layer": _layer_name(verdict.rule, merged),
        "reason": verdict.reason,
    }


def _layer_name(rule: str, merged: Merged) -> str:
    """Return the layer that a rule's name points to; what no rule says is built in."""
    head, colon, _ = rule.partition(":")
    if colon:
        return head
    return merged.layers[0].name if rule.startswith(("commands[", "default")) else "built-in"


def _print_explanation(explanation: Explanation, merged: Merged) -> None:
    verdict = explanation.verdict
    head = styled(verdict.decision, _COLOURS[verdict.decision], sys.stdout, bold=True)
    layer = _layer_name(verdict.rule, merged)
    click.echo(f"{head}: {escape_line(verdict.reason)}")
    click.echo(
        escape_line(f"rule: {verdict.rule} ({layer}), risk: {explanation.risk.word}, policy: {merged.loaded.source}")
    )
    steps = [step for step in explanation.steps if step.argv]
    if len(steps) > 1:
        for step in steps:
            word = styled(f"{step.verdict.decision:5}", _COLOURS[step.verdict.decision], sys.stdout)
            where = f"  ({step.via})" if step.via else ""
            click.echo(f"  {word} {step.risk.word:9}  {escape_line(shown(step.argv, 120) + where)}")
