"""`mindx runs prune`: old runs go, and with them what old improvements left."""

from __future__ import annotations

import re
import shutil
import time
from datetime import datetime, timezone

import click

from mindx.cli.escape import escape_line
from mindx.cli.options import json_option
from mindx.cli.prose import print_json
from mindx.cli.store import run_store
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.folders import mind_dir
from mindx.errors import StateError
from mindx.trace.run_folder import RunFolder

_PERIODS = {"h": 3600, "d": 86_400, "w": 7 * 86_400}


@click.command(
    name="prune", epilog="\b\nExamples:\n  mindx runs prune --older-than 30d --dry-run\n  mindx runs prune --keep 20"
)
@click.option("--older-than", "older_than", metavar="AGE", help="Remove what is older than this: 12h, 30d, 4w.")
@click.option("--keep", type=click.IntRange(0), metavar="N", help="Keep the newest N runs.")
@click.option("--dry-run", is_flag=True, help="Only list what would go.")
@json_option
def prune_runs(older_than: str | None, keep: int | None, dry_run: bool, as_json: bool) -> None:
    """Remove old runs with their changes; one that is going on stays. With both options both must say so.

    With --older-than the folders of improvements of that age go too, but for those that wait for you or for work. What
    is removed cannot be undone or rolled back any more.
    """
    if older_than is None and keep is None:
        raise click.UsageError("say which runs: --older-than AGE, --keep N, or both")
    before_s = None if older_than is None else time.time() - _age_s(older_than)
    folders = list(run_store().runs())
    chosen = [
        folder
        for number, folder in enumerate(folders)
        if (keep is None or number >= keep)
        and (before_s is None or _started_s(folder) < before_s)
        and folder.state() != "running"
    ]
    for folder in chosen:
        if not dry_run:
            _remove(folder)
        if not as_json:
            click.echo(escape_line(f"{folder.run_id}: {'to be removed' if dry_run else 'removed'}"))
    improvements = [] if before_s is None else _prune_improvements(before_s, dry_run)
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "dry_run": dry_run,
            "removed": [folder.run_id for folder in chosen],
            "kept": len(folders) - len(chosen),
            "improvements": improvements,
        }
        print_json(render_json(document))
        return
    for name in improvements:
        click.echo(escape_line(f"improvement {name}: {'to be removed' if dry_run else 'removed'}"))
    if not chosen and not improvements:
        click.echo("nothing to remove")


def _prune_improvements(before_s: float, dry_run: bool) -> list[str]:
    """Remove the folders of improvements that are over, and return their names."""
    from mindx.agents.coordinator.unfinished import unfinished_interactions
    from mindx.agents.improvement.paths import IMPROVEMENT_FOLDER
    from mindx.agents.improvement.pruning import old_improvements, remove_improvement

    work_dir = mind_dir() / IMPROVEMENT_FOLDER
    if not work_dir.is_dir():
        return []
    found = old_improvements(work_dir, before_s, unfinished_interactions(mind_dir()))
    return [folder.name for folder in found if dry_run or remove_improvement(folder)]


def _age_s(text: str) -> float:
    match = re.fullmatch(r"(\d{1,5})([hdw])", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is no age; write 12h, 30d or 4w", param_hint="--older-than")
    return int(match[1]) * _PERIODS[match[2]]


def _started_s(folder: RunFolder) -> float:
    return datetime.strptime(folder.run_id[:15], "%Y%m%dT%H%M%S").replace(tzinfo=timezone.utc).timestamp()


def _remove(folder: RunFolder) -> None:
    try:
        shutil.rmtree(folder.path)
    except OSError as error:
        raise StateError("state_unwritable", f"{folder.path} cannot be removed: {error.strerror}") from error
