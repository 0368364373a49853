"""`mindx trace`: the record of a run."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import click

from mindx.cli.escape import escape_line
from mindx.cli.interrupt import run_async
from mindx.cli.prose import note, print_json
from mindx.cli.store import complete_runs, find_run
from mindx.core.count import counted
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.errors import InputError
from mindx.trace.agreement import differences
from mindx.trace.event import Event
from mindx.trace.read import Verification, read, verify
from mindx.trace.replay import Replay, ReplayedStep
from mindx.trace.run_folder import RunFolder


@click.group(name="trace", epilog="\b\nExamples:\n  mindx trace show last\n  mindx trace replay last --speed 1")
def command() -> None:
    """Show, replay or verify the record of a run."""


@command.command(name="show", epilog="\b\nExample:\n  mindx trace show last")
@click.argument("run", shell_complete=complete_runs)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def show(run: str, as_json: bool) -> None:
    """Print the events of a run. RUN is an id, the start of one, or `last`."""
    folder = find_run(run)
    events = [dataclasses.asdict(event) for event in read(folder.trace_path)]
    if as_json:
        print_json(render_json({"schema_version": SCHEMA_VERSION, "run_id": folder.run_id, "events": events}))
        return
    for event in events:
        told = " ".join(f"{key}={value!r}" for key, value in event["data"].items())
        line = escape_line(f"{event['seq']:>5} {event['time']} {event['kind']} {told}")
        click.echo(line if len(line) <= 400 else f"{line[:397]}...")


@command.command(name="verify", epilog="\b\nExample:\n  mindx trace verify last")
@click.argument("run", shell_complete=complete_runs)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def verify_run(run: str, as_json: bool) -> int:
    """Check that the record of a run is unchanged; exit 1 if it is not. RUN is an id, the start of one, or `last`.

    The trace must be whole and end where the run's document (result.json) says, and the document must tell what the
    trace tells; each difference is said. Nothing shows what somebody changed who wrote both anew.
    """
    folder = find_run(run)
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
        told = escape_line(found.problem) or "unchanged"
        click.echo(f"{folder.run_id}: {counted(found.events, 'event')}, {told}{cut}")
        for difference in found.differences:
            click.echo(escape_line(f"  {difference}"))
    return 0 if found.ok else 1


@command.command(name="replay", epilog="\b\nExamples:\n  mindx trace replay last\n  mindx trace replay last --speed 2")
@click.argument("run", shell_complete=complete_runs)
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Wait between steps as it happened, so many times as fast; 0 (the default): do not wait.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def replay(run: str, speed: float, as_json: bool) -> int:
    """Walk through a run again, step by step, from its record alone; nothing is executed.

    Exit 1 if the record was changed, or tells of what no sound run does. RUN is an id, the start of one, or `last`.
    """
    folder = find_run(run)
    found = _verified(folder)
    replayed = Replay()
    run_async(lambda: _walk(replayed, folder, 0.0 if as_json else speed, quiet=as_json))
    problems = [*([found.problem] if found.problem else []), *found.differences, *replayed.problems]
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "run_id": folder.run_id,
            "outcome": replayed.outcome or None,
            "seconds": round(replayed.seconds, 6),
            "steps": [dataclasses.asdict(step) for step in replayed.steps],
            "problems": problems,
        }
        print_json(render_json(document))
    else:
        outcome = replayed.outcome or ("no end is recorded" if folder.state() != "running" else "it goes on")
        steps = counted(len(replayed.steps), "step")
        click.echo(escape_line(f"{folder.run_id}: {outcome}, {steps} in {replayed.seconds:.3f} s"))
        for problem in problems:
            note(f"problem: {problem}")
    return 1 if problems else 0


async def _walk(replayed: Replay, folder: RunFolder, speed: float, *, quiet: bool) -> None:
    shown_s = 0.0
    for step in replayed.take(_sound(folder)):
        ended_s = replayed.seconds if step.ended_s is None else step.ended_s
        await asyncio.sleep((ended_s - shown_s) / speed if speed else 0)
        shown_s = ended_s
        if not quiet:
            click.echo(_line(step))


def _sound(folder: RunFolder) -> Iterator[Event]:
    """Yield the events up to the first line that is none; `_verified` has told of it."""
    try:
        yield from read(folder.trace_path)
    except InputError as error:
        if error.code != "trace_broken":
            raise


def _line(step: ReplayedStep) -> str:
    asked = json.dumps(dict(step.arguments), default=str) if step.arguments else ""
    took = "" if step.ended_s is None else f" {step.ended_s - step.asked_s:.3f} s"
    told = f"{step.asked_s:9.3f}  [{step.number}] {step.name} {asked[:120]}".rstrip()
    line = escape_line(f"{told}  {step.status or 'no result'}{took}  {step.message}".rstrip())
    return line if len(line) <= 400 else f"{line[:397]}..."


def _end(head: Any) -> tuple[int, str]:
    return int(head["events"]), str(head["sha256"])


def _verified(folder: RunFolder) -> Verification:
    """Check the trace, where the run's document says that it ends, and whether both tell the same.

    A run without a document has no such word. One that is there and cannot be read is a problem: whoever cuts a trace
    would spoil it too.
    """
    try:
        document = folder.read_result()
        events, digest = (None, None) if document is None else _end(document["trace_head"])
    except (InputError, KeyError, TypeError, ValueError):
        found = verify(folder.trace_path)
        lost = "the run's result cannot be read, so nothing says where the trace ends"
        return found if not found.ok else dataclasses.replace(found, problem=lost)
    found = verify(folder.trace_path, events=events, head=digest)
    if document is None or not found.ok:
        return found
    differ = differences(document, read(folder.trace_path))
    if not differ:
        return found
    problem = f"the run's document does not agree with it ({counted(len(differ), 'difference')})"
    return dataclasses.replace(found, problem=problem, differences=differ)
