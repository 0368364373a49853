"""What people see: step lines and prose on stderr, tables and summaries on stdout; plain when not at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import click

from mindx.cli.errors import tell
from mindx.cli.escape import escape, escape_line, shortened
from mindx.cli.prose import styled
from mindx.cli.status_line import StepLine
from mindx.core.count import counted
from mindx.core.fault import Fault
from mindx.core.observation import Observation, Status
from mindx.core.plan import Action
from mindx.core.run import ChangeRecord, FaultRecord, Outcome, RunResult

MAX_OUTPUT_LINES = 20
MAX_LABEL_CHARS = 100

_COLOURS = {
    Status.SUCCESS: "green",
    Status.FAILURE: "red",
    Status.ERROR: "red",
    Status.DENIED: "yellow",
    Status.SKIPPED: "bright_black",
    Status.CANCELLED: "yellow",
}
_OUTCOME_COLOURS = {Outcome.COMPLETED: "green", Outcome.PARTIAL: "yellow", Outcome.CANCELLED: "yellow"}
SIGNS = {"added": "+", "modified": "~", "deleted": "-"}


class StepPrinter:
    """Prints each step on stderr as it ends, with the output of its program; `line` shows it while it runs.

    `verbose` shows all of the output that was kept, not only its beginning and end.
    """

    def __init__(self, total: int, line: StepLine, *, verbose: bool = False) -> None:
        self._total = total
        self._max_lines = 10**9 if verbose else MAX_OUTPUT_LINES
        self._line = line

    def __call__(self, action: Action, observation: Observation | None) -> None:
        """Take the beginning (None) or the end of an action."""
        label = f"[{action.index + 1}/{self._total}] {action_label(action)}"
        if observation is None:
            self._line.begin(label)
            return
        self._line.end()
        status = styled(observation.status.value, _COLOURS[observation.status], sys.stderr)
        tell(f"{label}  {status}{duration(observation.duration_s)}")
        for line in detail_lines(observation, self._max_lines):
            tell(f"    {line}")


def action_label(action: Action) -> str:
    """Return one short, harmless line that says what an action does."""
    params = action.params
    if "command" not in params:
        words = [action.type, *(str(value) for value in params.values())]
    else:
        named = (params.get(key) for key in ("path", "cmdline", "venv_name", "name", "job"))
        words = [str(params["command"]), *(str(value) for value in named if value is not None)]
        argv = params.get("argv")
        if isinstance(argv, (list, tuple)):
            words.extend(str(word) for word in argv)
    line = escape_line(" ".join(words), ci=False)
    return shortened(line, MAX_LABEL_CHARS)


def duration(seconds: float) -> str:
    """Return ` (1.2 s)`, or nothing for what took no time to speak of."""
    return f" ({seconds:.1f} s)" if seconds >= 0.05 else ""


def detail_lines(observation: Observation, limit: int = MAX_OUTPUT_LINES) -> list[str]:
    """Return the harmless lines below a step: what its program printed, and why it did not succeed.

    Of each stream at most `limit` lines are shown.
    """
    lines: list[str] = []
    execution = observation.execution
    if execution is not None:
        for text in (execution.stdout_text, execution.stderr_text):
            lines.extend(capped_lines(text, limit))
    elif observation.status is Status.SUCCESS and "job" in observation.result:  # `logs` of what another step started
        for stream in ("stdout", "stderr"):
            lines.extend(capped_lines(str(observation.result.get(stream, "")), limit))
    if observation.status is not Status.SUCCESS and observation.message:
        lines.extend(escape(observation.message).splitlines())
    return lines


def capped_lines(text: str, limit: int = MAX_OUTPUT_LINES) -> list[str]:
    """Return the text's lines, harmless, the middle left out when there are too many."""
    lines = escape(text).rstrip("\n").split("\n") if text.strip("\n") else []
    if len(lines) > limit:
        half = limit // 2
        lines = [*lines[:half], f"[{counted(len(lines) - 2 * half, 'line')} more]", *lines[-half:]]
    return [line if len(line) <= 500 else f"{line[:497]}..." for line in lines]


def fault_lines(faults: Iterable[Fault | FaultRecord], source: str) -> list[str]:
    """Return one line for each fault: place, kind, what is wrong and what to write instead."""
    lines = []
    for fault in faults:
        place = (
            escape_line(source)
            + (f":{fault.line}" if fault.line else "")
            + (f":{fault.column}" if fault.column else "")
        )
        advice = f" ({escape_line(fault.suggestion)})" if fault.suggestion else ""
        kind = "error" if fault.kind == "invalid" else fault.kind
        lines.append(f"{place}: {kind}: {escape_line(fault.path)}: {escape_line(fault.message)}{advice}")
    return lines


def change_lines(changes: Sequence[ChangeRecord]) -> list[str]:
    """Return one line for each change, as plain text."""
    lines = []
    for change in changes:
        size = f"  {counted(change.size, 'byte')}" if change.entry == "file" and change.kind != "deleted" else ""
        tail = "/" if change.entry == "directory" else ""
        remark = f"  ({escape_line(change.note)})" if change.note else ""
        lines.append(f"{SIGNS.get(change.kind, '?')} {escape_line(change.path)}{tail}{size}{remark}")
    return lines


def print_summary(result: RunResult) -> None:
    """Print the changes and the outcome of a run on stdout."""
    if result.changes:
        click.echo(f"Changes ({len(result.changes)}):")
        for change, line in zip(result.changes, change_lines(result.changes), strict=True):
            colour = {"added": "green", "deleted": "red"}.get(change.kind, "yellow")
            click.echo(f"  {styled(line, colour, sys.stdout)}")
    elif result.outcome not in (Outcome.INVALID, Outcome.DENIED, Outcome.ERROR):
        click.echo("Changes: none")
    if result.accepted_gaps:
        names = ", ".join(map(escape_line, result.accepted_gaps))
        click.echo(f"Not limited: {names} (the engine cannot, and the policy accepts that)")
    counts: dict[str, int] = {}
    for step in result.steps:
        counts[step.status.value] = counts.get(step.status.value, 0) + 1
    told = ", ".join(f"{count} {status}" for status, count in counts.items())
    outcome = styled(result.outcome.value, _OUTCOME_COLOURS.get(result.outcome, "red"), sys.stdout, bold=True)
    click.echo(f"Run {result.run_id}: {outcome}{f' ({told})' if told else ''} in {result.duration_s:.1f} s")
