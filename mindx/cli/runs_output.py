"""`mindx runs output`: what a step printed; `mindx runs prune`: old runs go."""

from __future__ import annotations

import re
import shutil
from collections import deque
from datetime import datetime, timedelta, timezone
from typing import Any

import click

from mindx.cli.escape import escape_line
from mindx.cli.options import json_option
from mindx.cli.render import note, print_json
from mindx.cli.store import run_store
from mindx.core.run import SCHEMA_VERSION, render_json
from mindx.errors import InputError, StateError
from mindx.trace.run_folder import RunFolder

_PERIODS = {"h": 3600, "d": 86_400, "w": 7 * 86_400}


@click.command(
    name="output",
    epilog="\b\nExamples:\n  mindx runs output last 3\n  mindx runs output last 3 --grep error --tail 20",
)
@click.argument("run")
@click.argument("step", type=click.IntRange(1))
@click.option("--stderr", "stream", flag_value="stderr", help="Only standard error.")
@click.option("--stdout", "stream", flag_value="stdout", help="Only standard output.")
@click.option("--grep", metavar="TEXT", help="Only lines that hold TEXT (no pattern: TEXT itself).")
@click.option("--tail", type=click.IntRange(1), metavar="N", help="Only the last N lines.")
@json_option
def show_output(run: str, step: int, stream: str | None, grep: str | None, tail: int | None, as_json: bool) -> None:
    """Print what a step printed, as far as it was kept. STEP counts from 1, as in the output of `mindx run`."""
    folder = run_store().find(run)
    document = folder.read_result()
    steps: list[Any] = (document or {}).get("steps") or []
    if step > len(steps):
        raise InputError("step_unknown", f"the run {folder.run_id} has {len(steps)} steps; there is no step {step}")
    record = steps[step - 1]
    names = ("stdout", "stderr") if stream is None else (stream,)
    kept: deque[str] = deque(maxlen=tail)
    for name in names:
        for line in str(record.get(name) or "").splitlines():
            if grep is None or grep in line:
                kept.append(line)
    if as_json:
        lines = list(kept)
        print_json(
            render_json(
                {
                    "schema_version": SCHEMA_VERSION,
                    "run_id": folder.run_id,
                    "index": step - 1,
                    "stream": stream or "both",
                    "lines": lines,
                }
            )
        )
        return
    for line in kept:
        click.echo(escape_line(line))
    if record.get("truncated"):
        note("the output was larger than what was kept; raise limits.output in the policy to keep more")


@click.command(
    name="prune", epilog="\b\nExamples:\n  mindx runs prune --older-than 30d --dry-run\n  mindx runs prune --keep 20"
)
@click.option("--older-than", "older_than", metavar="AGE", help="Remove runs older than this: 12h, 30d, 4w.")
@click.option("--keep", type=click.IntRange(0), metavar="N", help="Keep the newest N.")
@click.option("--dry-run", is_flag=True, help="Only list what would go.")
@json_option
def prune_runs(older_than: str | None, keep: int | None, dry_run: bool, as_json: bool) -> None:
    """Remove old runs with their changes; one that is going on stays. With both options both must say so."""
    if older_than is None and keep is None:
        raise click.UsageError("say which runs: --older-than AGE, --keep N, or both")
    before = None if older_than is None else datetime.now(timezone.utc) - _age(older_than)
    folders = list(run_store().runs())
    chosen = [
        folder
        for number, folder in enumerate(folders)
        if (keep is None or number >= keep)
        and (before is None or _started(folder) < before)
        and folder.state() != "running"
    ]
    for folder in chosen:
        if not dry_run:
            _remove(folder)
        if not as_json:
            click.echo(escape_line(f"{folder.run_id}: {'to be removed' if dry_run else 'removed'}"))
    if as_json:
        removed = [folder.run_id for folder in chosen]
        document = {
            "schema_version": SCHEMA_VERSION,
            "dry_run": dry_run,
            "removed": removed,
            "kept": len(folders) - len(chosen),
        }
        print_json(render_json(document))
    elif not chosen:
        click.echo("nothing to remove")


def _age(text: str) -> timedelta:
    match = re.fullmatch(r"(\d{1,5})([hdw])", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is no age; write 12h, 30d or 4w", param_hint="--older-than")
    return timedelta(seconds=int(match[1]) * _PERIODS[match[2]])


def _started(folder: RunFolder) -> datetime:
    return datetime.strptime(folder.run_id[:15], "%Y%m%dT%H%M%S").replace(tzinfo=timezone.utc)


def _remove(folder: RunFolder) -> None:
    try:
        shutil.rmtree(folder.path)
    except OSError as error:
        raise StateError("state_unwritable", f"{folder.path} cannot be removed: {error.strerror}") from error
