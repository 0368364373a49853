"""The user's run folders, as the verbs that read them need them."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import click

from mindx.cli.prose import note
from mindx.core.folders import state_dir
from mindx.errors import InputError
from mindx.trace.run_folder import RunFolder, RunStore

MAX_COMPLETED = 50


def run_store() -> RunStore:
    """Return the user's run folders."""
    return RunStore(state_dir() / "runs")


def find_run(run: str) -> RunFolder:
    """Return the run that an id, the start of one, or `last` names, and tell what `last` passes over.

    Raises InputError (run_unknown, run_ambiguous).
    """
    store = run_store()
    try:
        found = store.find(run)
    except InputError as error:
        if error.code != "run_unknown" or not Path(run).is_file():
            raise
        told = f"{run!r} is a file, and no run; `mindx run {run}` makes a run of a plan"
        raise InputError("run_unknown", told) from None
    newest = next(store.runs(), found) if run == "last" else found
    if newest.run_id > found.run_id:
        note(f"the newest run {newest.run_id} was refused for what it was given; this is {found.run_id}")
    return found


def complete_runs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return what a shell may complete a run's name to: `last`, and the newest ids that begin so."""
    names = (folder.run_id for folder in run_store().runs())
    last = ["last"] if "last".startswith(incomplete) else []
    return last + list(islice((name for name in names if name.startswith(incomplete)), MAX_COMPLETED))
