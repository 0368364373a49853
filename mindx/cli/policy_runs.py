"""`mindx policy suggest` and `replay`: policies against what runs did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from mindx.cli.escape import escape, escape_line
from mindx.cli.options import autonomous_option, json_option, policy_option
from mindx.cli.render import note, print_json
from mindx.cli.store import run_store
from mindx.core.command import Command, Exec, ListDir, MakeDir, ReadFile, Remove, Stat, WriteFile
from mindx.core.plan import parse_plan
from mindx.core.verdict import Verdict
from mindx.policy.approval import argv_of
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import load_policy
from mindx.policy.model import Limits
from mindx.policy.rules import STRICTNESS
from mindx.policy.words import shown
from mindx.runtime.vetting import tools_for
from mindx.tools.vet import vet
from mindx.trace.event import Event
from mindx.trace.read import read
from mindx.trace.run_folder import RunFolder

_FILE_KINDS: dict[str, Any] = {
    "read_file": ReadFile,
    "list_dir": ListDir,
    "make_dir": MakeDir,
    "remove": Remove,
    "stat": Stat,
}
_SCHEMA_VERSION = 1


@click.command(
    name="suggest", epilog="\b\nExamples:\n  mindx policy suggest last\n  mindx policy suggest --policy p.yaml 2026"
)
@policy_option
@json_option
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
def suggest_rules(policy: str | None, as_json: bool, runs: tuple[str, ...]) -> None:
    """Print the smallest rules that would have allowed what RUNs did or tried, each with its evidence.

    A shell or an interpreter is suggested only with the very arguments that it was given. Read the rules before you
    add them to a policy: a plan that nobody vetted asked for them.
    """
    from mindx.policy.suggest import as_yaml, suggest

    loaded = load_policy(policy)
    limits = loaded.policy.limits
    commands = [(folder.run_id, fitted(c, limits)) for folder in _folders(runs) for c, _ in commands_of(folder)]
    found = suggest(PolicyEngine(loaded.policy, autonomous=True), commands)
    if as_json:
        rules = [
            {"allow": rule.pattern, "at_most": rule.at_most, "count": rule.count, "evidence": rule.evidence}
            for rule in found.rules
        ]
        impossible = [{"command": command, "reason": reason} for command, reason in found.impossible]
        _print(rules=rules, impossible=impossible)
        return
    if not found.rules:
        note(f"{loaded.source} already allows all that a rule could allow.")
    click.echo(escape(as_yaml(found)), nl=False)


@click.command(name="replay", epilog="\b\nExample:\n  mindx policy replay --policy new.yaml last")
@click.option("--policy", metavar="NEW", required=True, help="The policy to try: a preset or a file.")
@autonomous_option
@json_option
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
def replay_runs(policy: str, autonomous: bool, as_json: bool, runs: tuple[str, ...]) -> int:
    """Print which actions of past RUNs would have another verdict under the policy NEW.

    Exit code 1 if any would be looser than what happened, else 0.
    """
    loaded = load_policy(policy)
    engine = PolicyEngine(loaded.policy, autonomous=autonomous)
    rows: list[dict[str, Any]] = []
    count = 0
    for folder in _folders(runs):
        for action, before in commands_of(folder):
            count += 1
            after = engine.judge(fitted(action, loaded.policy.limits))
            if after.decision != before:
                rows.append(_row(folder.run_id, action, before, after))
    looser = [row for row in rows if row["looser"]]
    if as_json:
        _print(actions=count, changed=rows, looser=len(looser))
        return 1 if looser else 0
    for row in rows:
        word = "LOOSER" if row["looser"] else "stricter"
        text = f"{word:8} {row['run']}: {row['before']} -> {row['after']}: {shown(tuple(row['argv']), 120)}"
        click.echo(escape_line(f"{text} ({row['rule']}: {row['reason']})"))
    click.echo(f"{count} actions, {len(rows)} would change, {len(looser)} of them looser.")
    return 1 if looser else 0


def _row(run: str, action: Command, before: str, after: Verdict) -> dict[str, Any]:
    looser = STRICTNESS[after.decision] < STRICTNESS[before]  # type: ignore[index]
    return {
        "run": run,
        "argv": list(argv_of(action)),
        "before": before,
        "after": after.decision,
        "looser": looser,
        "rule": after.rule,
        "reason": after.reason,
    }


def _folders(runs: tuple[str, ...]) -> Iterator[RunFolder]:
    store = run_store()
    return (store.find(run) for run in runs)


def commands_of(folder: RunFolder) -> Iterator[tuple[Command, str]]:
    """Yield each Command of a run with the verdict that it had: from the trace, or from a plan that was refused."""
    result = folder.read_result() or {}
    if result.get("outcome") in ("denied", "invalid"):
        yield from _refused(folder, result)
        return
    for event in read(folder.trace_path):
        command = _command(event)
        if command is not None:
            error = event.data.get("error")
            code = error.get("code", "") if isinstance(error, dict) else ""
            yield command, "deny" if code == "denied_by_policy" else "allow"


def _command(event: Event) -> Command | None:
    """Return the Command of an event, or None; what is malformed is passed over."""
    data = event.data
    if event.kind in ("exec", "background_started") and isinstance(data.get("argv"), list):
        env = data.get("env") or {}
        return Exec(tuple(map(str, data["argv"])), cwd=str(data.get("cwd", "")), env=dict(env),
                    executable=data.get("executable"))  # fmt: skip
    if event.kind == "write_file" and "path" in data:
        return WriteFile(str(data["path"]), b"")
    kind = _FILE_KINDS.get(event.kind)
    return kind(str(data["path"])) if kind is not None and "path" in data else None


def _refused(folder: RunFolder, result: dict[str, Any]) -> Iterator[tuple[Command, str]]:
    """Yield what the steps of a plan that never ran would have done, with the verdict that its result tells."""
    try:
        source = folder.plan_path.read_bytes()
    except OSError:
        return
    vetted = vet(parse_plan(source), tools_for(Limits()), lambda command: Verdict("allow", "", ""), True)
    steps = [step for step in result.get("steps") or () if isinstance(step, dict)]
    stopped = {step.get("index") for step in steps if step.get("status") in ("DENIED", "ERROR")}
    for step in vetted.steps:
        for command in step.commands:
            yield command, "deny" if step.index in stopped else "allow"


def fitted(command: Command, limits: Limits) -> Command:
    """Return the command with this policy's own deadline and output: a record does not hold what it was given."""
    if not isinstance(command, Exec):
        return command
    return Exec(
        command.argv,
        cwd=command.cwd,
        env=command.env,
        timeout_s=limits.command_timeout_s,
        max_output_bytes=limits.output_bytes,
        executable=command.executable,
    )


def _print(**values: Any) -> None:
    print_json(json.dumps({"schema_version": _SCHEMA_VERSION, **values}, indent=2) + "\n")
