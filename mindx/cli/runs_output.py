"""`mindx runs output`: what a step printed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from io import BytesIO
from itertools import chain, islice, repeat
from typing import Any, BinaryIO, Literal

import click

from mindx.cli.escape import escape_line, in_ci
from mindx.cli.options import json_option
from mindx.cli.prose import note, print_json
from mindx.cli.store import complete_runs, find_run
from mindx.core.count import counted
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.output import OutputEncoding, decode_output
from mindx.errors import InputError
from mindx.trace.read import read
from mindx.trace.run_folder import RunFolder
from mindx.trace.spool import Spool, SpoolName, lines_of

_Stream = Literal["stdout", "stderr"]
_BATCH_CHARS = 64 * 1024


@click.command(
    name="output",
    epilog="\b\nExamples:\n  mindx runs output last 3\n  mindx runs output last 3 --grep error --tail 20",
)
@click.argument("run", shell_complete=complete_runs)
@click.argument("step", type=click.IntRange(1))
@click.option("--stderr", "stream", flag_value="stderr", help="Only standard error.")
@click.option("--stdout", "stream", flag_value="stdout", help="Only standard output.")
@click.option("--grep", metavar="TEXT", help="Only lines that hold TEXT (no pattern: TEXT itself).")
@click.option("--tail", type=click.IntRange(1), metavar="N", help="Only the last N lines.")
@json_option
def show_output(run: str, step: int, stream: _Stream | None, grep: str | None, tail: int | None, as_json: bool) -> None:
    """Print what a step printed, as far as it was kept. STEP counts from 1, as in the output of `mindx run`.

    Control characters are written out. A line of more than 64 KiB comes in pieces.
    """
    folder = find_run(run)
    state = folder.state()
    names: tuple[_Stream, ...] = ("stdout", "stderr") if stream is None else (stream,)
    record = _record(folder, state, step)
    with ExitStack() as stack:
        kept = {name: stack.enter_context(_open(folder, step, name, record)) for name in names}
        lines = _chosen(list(kept.values()), os.fsencode(grep or ""), tail)
        if as_json:
            _print_document({"run_id": folder.run_id, "index": step - 1, "stream": stream or "both"}, state, lines)
        else:
            _print_lines(lines)
        sizes = {name: file.seek(0, os.SEEK_END) for name, file in kept.items()}
    if state != "finished":
        note(f"the run is {state}: it has no result; this is what its step {step} printed")
    elif record.get("status") == "SKIPPED":
        note(f"step {step} did not run")
    elif not any(sizes[name] or record.get(f"{name}_bytes") for name in names):
        note(f"step {step} printed nothing{'' if stream is None else f' on {stream}'}")
    if record.get("spool_left_out_bytes"):
        note("the run may keep no more output; raise limits.run_output in the policy to keep more")
    elif any(size < (record.get(f"{name}_bytes") or 0) for name, size in sizes.items()):
        note("the output was larger than what was kept; raise limits.output in the policy to keep more")


def _record(folder: RunFolder, state: str, step: int) -> dict[str, Any]:
    """Return what the result tells of a step, or the trace where there is no result; {} when only its output is there.

    Raises InputError when there is no such step.
    """
    if state == "finished":
        steps: list[Any] = (folder.read_result() or {}).get("steps") or []
        if step > len(steps):
            held = counted(len(steps), "step")
            raise InputError("step_unknown", f"the run {folder.run_id} has {held}; there is no step {step}")
        return dict(steps[step - 1])
    with suppress(InputError):  # a trace that ends in the middle of a line; what came before counts
        for event in read(folder.trace_path):
            if event.kind == "observation" and event.data.get("index") == step - 1:
                return event.data
    if not Spool(folder.path).holds(step):
        raise InputError("step_unknown", f"the run {folder.run_id} is {state}, and no step {step} of it has ended")
    return {}


def _open(folder: RunFolder, step: int, name: SpoolName, record: dict[str, Any]) -> BinaryIO:
    """Open what a step printed: in the spool, or in the record of runs that have none."""
    file = Spool(folder.path).open(step, name)
    if file is not None:
        return file
    encoding: OutputEncoding = "escaped" if record.get(f"{name}_encoding") == "escaped" else "utf-8"
    return BytesIO(decode_output(str(record.get(name) or ""), encoding))


def _chosen(files: list[BinaryIO], needle: bytes, tail: int | None) -> Iterator[str]:
    """Yield the lines that are asked for. For the last ones the files are read twice: nothing is held."""
    skipped = 0
    if tail is not None:
        skipped = max(sum(1 for file in files for _ in lines_of(file, needle)) - tail, 0)
        for file in files:
            file.seek(0)
    for line in islice(chain.from_iterable(lines_of(file, needle) for file in files), skipped, None):
        yield line.decode("utf-8", "backslashreplace")


def _print_lines(lines: Iterator[str]) -> None:
    ci = in_ci()
    for some in _batches(f"{escape_line(line, ci=ci)}\n" for line in lines):
        click.echo(some, nl=False)


def _print_document(known: dict[str, Any], state: str, lines: Iterator[str]) -> None:
    """Print the document as its lines are read."""
    document = render_json({"schema_version": SCHEMA_VERSION, **known, "state": state, "lines": []})
    head, _, end = document.rpartition("]")
    print_json(head)
    between = chain(("\n    ",), repeat(",\n    "))
    for some in _batches(before + json.dumps(line) for before, line in zip(between, lines, strict=False)):
        print_json(some)
    print_json(f"]{end}")


def _batches(pieces: Iterable[str]) -> Iterator[str]:
    """Join short texts: each write costs a call of the system."""
    waiting: list[str] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _BATCH_CHARS:
            yield "".join(waiting)
            waiting, size = [], 0
    yield "".join(waiting)
