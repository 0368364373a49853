"""`mindx trace`: the record of a run."""

from __future__ import annotations

import dataclasses

import click

from mindx.cli.escape import escape_line
from mindx.cli.prose import print_json
from mindx.cli.store import run_store
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.errors import InputError
from mindx.trace.read import Verification, read, verify
from mindx.trace.run_folder import RunFolder


@click.group(name="trace", epilog="\b\nExamples:\n  mindx trace show last\n  mindx trace verify last")
def command() -> None:
    """Show or verify the record of a run."""


@command.command(name="show", epilog="\b\nExample:\n  mindx trace show last")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def show(run: str, as_json: bool) -> None:
    """Print the events of a run. RUN is an id, the start of one, or `last`."""
    folder = run_store().find(run)
    events = [dataclasses.asdict(event) for event in read(folder.trace_path)]
    if as_json:
        print_json(render_json({"schema_version": SCHEMA_VERSION, "run_id": folder.run_id, "events": events}))
        return
    for event in events:
        told = " ".join(f"{key}={value!r}" for key, value in event["data"].items())
        line = escape_line(f"{event['seq']:>5} {event['time']} {event['kind']} {told}")
        click.echo(line if len(line) <= 400 else f"{line[:397]}...")


@command.command(name="verify", epilog="\b\nExample:\n  mindx trace verify last")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def verify_run(run: str, as_json: bool) -> int:
    """Check that the record of a run is unchanged; exit 1 if it is not. RUN is an id, the start of one, or `last`."""
    folder = run_store().find(run)
    found = _verified(folder)
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "run_id": folder.run_id,
            "ok": found.ok,
            **dataclasses.asdict(found),
        }
        print_json(render_json(document))
    else:
        cut = "; the last line is cut" if found.cut else ""
        click.echo(f"{folder.run_id}: {found.events} events, {escape_line(found.problem) or 'unchanged'}{cut}")
    return 0 if found.ok else 1


def _verified(folder: RunFolder) -> Verification:
    """Check the trace against where the run's result says that it ends; a run without a result has no such word.

    A result that is there and cannot be read is a problem: whoever cuts a trace would spoil it too.
    """
    try:
        result = folder.read_result()
        head = None if result is None else result["trace_head"]
        events, digest = (None, None) if head is None else (int(head["events"]), str(head["sha256"]))
    except (InputError, KeyError, TypeError, ValueError):
        found = verify(folder.trace_path)
        lost = "the run's result cannot be read, so nothing says where the trace ends"
        return found if not found.ok else dataclasses.replace(found, problem=lost)
    return verify(folder.trace_path, events=events, head=digest)
