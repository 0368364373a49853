"""`mindx runs`: what ran before."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

import click

from mindx.cli.columns import print_columns
from mindx.cli.escape import escape, escape_line
from mindx.cli.prose import note, print_json
from mindx.cli.render import SIGNS, action_label
from mindx.cli.runs_output import show_output
from mindx.cli.runs_prune import prune_runs
from mindx.cli.store import complete_runs, find_run, run_store
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.plan import Action, parse_plan
from mindx.errors import InputError
from mindx.trace.read import read
from mindx.trace.run_folder import RunFolder

_COLUMNS = {
    "run": "run_id",
    "started": "started_at",
    "outcome": "outcome",
    "policy": "policy",
    "steps": "steps",
    "changes": "changes",
    "seconds": "duration_s",
}
# A narrow terminal goes without these: an id that is cut is no use, and it tells the time as well.
_LEFT_OUT_FIRST = ("started", "seconds", "policy", "steps", "changes", "outcome")


@click.group(
    name="runs",
    epilog="\b\nExamples:\n  mindx runs list\n  mindx runs show last\n  mindx runs list --json | jq '.runs[0]'",
)
def command() -> None:
    """List, show and remove past runs."""


@command.command(name="list", epilog="\b\nExample:\n  mindx runs list --limit 5")
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="Show at most so many, newest first."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def list_runs(limit: int, as_json: bool) -> None:
    """List past runs, the newest first."""
    rows: list[dict[str, Any]] = []
    for folder in run_store().runs():
        if len(rows) == limit:
            break
        rows.append(_row(folder))
    if as_json:
        print_json(render_json({"schema_version": SCHEMA_VERSION, "runs": rows}))
    elif not rows:
        note("no run yet; `mindx run PLAN` makes one")
    else:
        _print_table(rows)


@command.command(name="show", epilog="\b\nExample:\n  mindx runs show last")
@click.argument("run", shell_complete=complete_runs)
@click.option("--json", "as_json", is_flag=True, help="Print the run's document as it was.")
def show_run(run: str, as_json: bool) -> None:
    """Show one past run. RUN is an id, the start of one, or `last`."""
    folder = find_run(run)
    document = folder.read_result()
    if document is None:
        state = folder.state()
        raise InputError(
            "run_unfinished", f"the run {folder.run_id} has no result: it is {state}; see {folder.trace_path}"
        )
    if as_json:
        print_json(render_json(document))
    else:
        _print_run(document, _labels(folder))


command.add_command(show_output)
command.add_command(prune_runs)


def _row(folder: RunFolder) -> dict[str, Any]:
    """Return what the list says of a run; a result that cannot be read is said, not hidden."""
    state = folder.state()
    row: dict[str, Any] = {
        "run_id": folder.run_id,
        "started_at": _started(folder.run_id),
        "outcome": state if state != "finished" else "unreadable",
        "policy": "",
        "steps": 0,
        "changes": 0,
        "duration_s": None,
        "folder": str(folder.path),
    }
    try:
        document = folder.read_result()
        if document is not None:
            row["outcome"] = str(document["outcome"])
            row["policy"] = str(document["policy"]["name"])
            row["steps"], row["changes"] = len(document["steps"]), len(document["changes"])
            row["duration_s"] = float(document["duration_s"])
    except (InputError, KeyError, TypeError, ValueError):
        row["outcome"] = "unreadable"
    return row


def _started(run_id: str) -> str:
    moment = datetime.strptime(run_id[:15], "%Y%m%dT%H%M%S").replace(tzinfo=timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}Z"


def _print_table(rows: list[dict[str, Any]]) -> None:
    shown = [row | {"duration_s": "" if row["duration_s"] is None else f"{row['duration_s']:.1f}"} for row in rows]
    lines = [{name: escape_line(str(row[key])) for name, key in _COLUMNS.items()} for row in shown]
    print_columns(lines, gives_way=_LEFT_OUT_FIRST, right=("steps", "changes", "seconds"), header=True)


def _labels(folder: RunFolder) -> dict[str, str]:
    """Return what each Action does, by its id, in the words of the live display; from the trace, else the plan."""
    found: dict[str, str] = {}
    with suppress(InputError):
        for event in read(folder.trace_path):
            params = event.data.get("params")
            if event.kind == "action_started" and isinstance(params, dict):
                action = Action(str(event.data.get("action_id")), str(event.data.get("type")), params, 0)
                found[action.action_id] = action_label(action)
    with suppress(OSError):
        for action in parse_plan(folder.plan_path.read_bytes()).actions:
            found.setdefault(action.action_id, action_label(action))
    return found


def _print_run(document: dict[str, Any], labels: dict[str, str]) -> None:
    policy = document.get("policy") or {}
    click.echo(escape_line(f"Run {document.get('run_id')}: {document.get('outcome')}, policy {policy.get('name')}"))
    for fault in document.get("faults") or ():
        click.echo(escape_line(f"  {fault.get('kind')}: {fault.get('path')}: {fault.get('message')}"))
    for step in document.get("steps") or ():
        name = labels.get(str(step.get("action_id"))) or step.get("command") or step.get("type")
        click.echo(
            escape_line(f"  [{step.get('index', 0) + 1}] {name}  {step.get('status')}  {step.get('message', '')}")
        )
    for change in document.get("changes") or ():
        tail = "/" if change.get("entry") == "directory" else ""
        click.echo(escape_line(f"  {SIGNS.get(str(change.get('kind')), '?')} {change.get('path')}{tail}"))
    if document.get("error"):
        click.echo(escape(f"  {document['error'].get('message')}"))
    click.echo(escape_line(f"  trace: {document.get('trace')}"))
    if document.get("steps"):
        note(f"`mindx runs output {document.get('run_id')} STEP` prints what a step printed")
