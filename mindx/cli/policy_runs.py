"""`mindx policy suggest` and `replay`: policies against what runs did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from mindx.cli.escape import escape, escape_line
from mindx.cli.options import autonomous_option, json_option, policy_option
from mindx.cli.prose import note, print_json
from mindx.cli.store import complete_runs, find_run
from mindx.core.command import Command, Exec, ListDir, MakeDir, ReadFile, Remove, Stat, WriteFile
from mindx.core.count import counted
from mindx.core.plan import parse_plan
from mindx.core.verdict import Verdict
from mindx.policy.approval import argv_of
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import load_policy
from mindx.policy.model import Limits
from mindx.policy.rules import STRICTNESS
from mindx.policy.words import shown
from mindx.runtime.vetting import tools_for
from mindx.settings import effective_policy
from mindx.tools.vet import vet
from mindx.trace.event import Event
from mindx.trace.read import read
from mindx.trace.redact import is_whole
from mindx.trace.run_folder import RunFolder

_FILE_KINDS: dict[str, Any] = {
    "read_file": ReadFile,
    "list_dir": ListDir,
    "make_dir": MakeDir,
    "remove": Remove,
    "stat": Stat,
}
_SCHEMA_VERSION = 1
UNKNOWN = "unknown"


@click.command(
    name="suggest", epilog="\b\nExamples:\n  mindx policy suggest last\n  mindx policy suggest --policy p.yaml 2026"
)
@policy_option
@json_option
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=complete_runs)
def suggest_rules(policy: str | None, as_json: bool, runs: tuple[str, ...]) -> None:
    """Print the smallest rules that would have allowed what RUNs did or tried, each with its evidence.

    A shell or an interpreter is suggested only with the very arguments that it was given. Read the rules before you
    add them to a policy: a plan that nobody vetted asked for them. What the policy in force already allows needs no
    rule; that is --policy, else MINDX_POLICY, else what your own settings name.
    """
    from mindx.policy.suggest import as_yaml, suggest

    loaded = effective_policy(policy)
    limits = loaded.policy.limits
    past = [(folder.run_id, *action) for folder in _folders(runs) for action in commands_of(folder)]
    commands = [(run, fitted(command, limits)) for run, command, _, gap in past if not gap]
    if len(commands) < len(past):
        note(f"left out: {counted(len(past) - len(commands), 'action')} whose record does not hold all that decides.")
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
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=complete_runs)
def replay_runs(policy: str, autonomous: bool, as_json: bool, runs: tuple[str, ...]) -> int:
    """Print which actions of past RUNs would have another verdict under the policy NEW.

    An action whose record does not hold all that decides (it had input, or very long arguments) is unknown. Exit code
    1 if any would be looser than what happened, or is unknown, else 0.
    """
    loaded = load_policy(policy)
    engine = PolicyEngine(loaded.policy, autonomous=autonomous)
    rows: list[dict[str, Any]] = []
    count = 0
    for folder in _folders(runs):
        for action, before, gap in commands_of(folder):
            count += 1
            if gap:
                rows.append(_row(folder.run_id, action, before, None, gap))
                continue
            after = engine.judge(fitted(action, loaded.policy.limits))
            if after.decision != before:
                rows.append(_row(folder.run_id, action, before, after))
    looser = sum(row["looser"] for row in rows)
    unknown = sum(row["after"] == UNKNOWN for row in rows)
    failed = 1 if looser or unknown else 0
    if as_json:
        _print(actions=count, changed=rows, looser=looser, unknown=unknown)
        return failed
    for row in rows:
        word = UNKNOWN if row["after"] == UNKNOWN else "LOOSER" if row["looser"] else "stricter"
        text = f"{word:8} {row['run']}: {row['before']} -> {row['after']}: {shown(tuple(row['argv']), 120)}"
        why = f"{row['rule']}: {row['reason']}" if row["rule"] else row["reason"]
        click.echo(escape_line(f"{text} ({why})"))
    more = f" {unknown} cannot be told." if unknown else ""
    click.echo(f"{counted(count, 'action')}, {len(rows) - unknown} would change, {looser} of them looser.{more}")
    return failed


def _row(run: str, action: Command, before: str, after: Verdict | None, gap: str = "") -> dict[str, Any]:
    """Return what is told of one action; `after` None when it cannot be judged, for the reason `gap`."""
    looser = after is not None and STRICTNESS[after.decision] < STRICTNESS[before]  # type: ignore[index]
    return {
        "run": run,
        "argv": list(argv_of(action)),
        "before": before,
        "after": UNKNOWN if after is None else after.decision,
        "looser": looser,
        "rule": "" if after is None else after.rule,
        "reason": gap if after is None else after.reason,
    }


def _folders(runs: tuple[str, ...]) -> Iterator[RunFolder]:
    return map(find_run, runs)


def commands_of(folder: RunFolder) -> Iterator[tuple[Command, str, str]]:
    """Yield each Command of a run, the verdict that it had, and why it is not the whole one ("" when it is).

    They come from the trace, which keeps no input and cuts long texts, or from a plan that was refused.
    """
    result = folder.read_result() or {}
    if result.get("outcome") in ("denied", "invalid"):
        yield from _refused(folder, result)
        return
    for event in read(folder.trace_path):
        command = _command(event)
        if command is not None:
            error = event.data.get("error")
            code = error.get("code", "") if isinstance(error, dict) else ""
            yield command, "deny" if code == "denied_by_policy" else "allow", _gap(event)


def _gap(event: Event) -> str:
    """Return what of a Command its event does not hold, or "": unknown is never allowed."""
    data = event.data
    if data.get("stdin_bytes"):
        return "it had input, which the trace does not keep"
    decides = {name: data.get(name) for name in ("argv", "cwd", "env", "executable", "path")}
    return "" if is_whole(decides) else "the trace holds it cut or redacted"


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


def _refused(folder: RunFolder, result: dict[str, Any]) -> Iterator[tuple[Command, str, str]]:
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
            yield command, "deny" if step.index in stopped else "allow", ""


def fitted(command: Command, limits: Limits) -> Command:
    """Return the command with this policy's own deadline and output: a record does not hold what it was given."""
    if not isinstance(command, Exec):
        return command
    return Exec(
        command.argv,
        cwd=command.cwd,
        env=command.env,
        stdin=command.stdin,
        timeout_s=limits.command_timeout_s,
        max_output_bytes=limits.output_bytes,
        executable=command.executable,
    )


def _print(**values: Any) -> None:
    print_json(json.dumps({"schema_version": _SCHEMA_VERSION, **values}, indent=2) + "\n")
