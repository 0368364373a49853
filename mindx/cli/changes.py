"""`mindx changes`: see what a run did to the files, take what you want of it, and take it back."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from mindx.cli.changes_review import Review, show_patch
from mindx.cli.changes_show import change_document, print_patch, print_stat
from mindx.cli.confirm import can_ask, confirmed, yes_option, yes_or_no
from mindx.cli.escape import escape_line
from mindx.cli.prose import note, print_json, styled
from mindx.cli.store import complete_runs, run_store
from mindx.core.count import counted
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.output import plain_text
from mindx.errors import InputError
from mindx.trace.run_folder import RunFolder as RunRecord
from mindx.workspace.apply import ApplyReport, Skipped, apply, choose, next_undo, perform, undo
from mindx.workspace.baseline import Baseline
from mindx.workspace.changes import Change
from mindx.workspace.diff import diffs
from mindx.workspace.store import ChangesFolder
from mindx.workspace.take import hold_back, merged_steps


@click.group(
    name="changes",
    epilog="\b\nExamples:\n  mindx changes show last --patch\n  mindx changes apply last -p\n  mindx changes undo last",
)
def command() -> None:
    """Show, apply and undo what a run did to the files. RUN is an id, the start of one, or `last`."""


@command.command(
    name="show", epilog="\b\nExamples:\n  mindx changes show last\n  mindx changes show last --html r.html"
)
@click.argument("run", shell_complete=complete_runs)
@click.argument("paths", nargs=-1)
@click.option("--stat", "form", flag_value="stat", default=True, help="One line for each change (the default).")
@click.option("--patch", "form", flag_value="patch", help="Unified diffs; controls are written out as \\xNN.")
@click.option("--raw", "form", flag_value="raw", help="Unified diffs, exact to the byte, for `git apply`.")
@click.option("--json", "form", flag_value="json", help="One JSON document.")
@click.option("--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write one page to a file.")
def show(run: str, paths: tuple[str, ...], form: str, page: Path | None) -> None:
    """Show the changes of RUN, all or those at PATHS."""
    folder, baseline, changes = _read(run)
    chosen = choose(changes, paths) if paths else list(changes)
    found = list(diffs(chosen, folder.blobs, _known(baseline, changes)))
    if page is not None:
        from mindx.cli.changes_html import write_page

        write_page(page, folder.path.name, baseline, found)
        note(f"wrote {page}")
    elif form == "json":
        print_json(render_json(_document(folder, baseline, [d for diff in found for d in change_document(diff)])))
    elif form in ("patch", "raw"):
        print_patch(found, raw=form == "raw")
    else:
        print_stat(found)
        _hint(folder, found != [])


@command.command(
    name="apply",
    epilog="\b\nExamples:\n  mindx changes apply last\n  mindx changes apply last src/ -p\n"
    "  mindx changes apply last Makefile --accept Makefile\n  mindx changes apply last --to ../clone --merge",
)
@click.argument("run", shell_complete=complete_runs)
@click.argument("paths", nargs=-1)
@click.option("-p", "--interactive", is_flag=True, help="Ask about each change and each hunk, as `git add -p`.")
@click.option("--to", "to", type=click.Path(path_type=Path), help="Write to this folder, not the one copied in.")
@yes_option
@click.option(
    "--accept", multiple=True, metavar="PATH", help="Also take this file that runs on your machine later; repeatable."
)
@click.option("--merge", is_flag=True, help="Join the changes with your own edits, where they do not meet.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document; nothing is asked without -p, so --yes is needed."
)
def apply_changes(
    run: str,
    paths: tuple[str, ...],
    interactive: bool,
    to: Path | None,
    yes: bool,
    accept: tuple[str, ...],
    merge: bool,
    as_json: bool,
) -> int:
    """Write changes of RUN to the folder that was copied in: all of them or those at PATHS, all or none.

    A file that differs from what was copied in is a conflict, and then nothing is written. Files that run on your
    machine later (hooks, CI and task files, editor settings ...) need a yes of their own: at the question, or by
    --accept. `mindx changes undo RUN` takes it back.
    """
    folder, baseline, changes = _read(run)
    target, expected = _target(baseline, to)
    chosen = choose(changes, paths) if paths else list(changes)
    if interactive:
        return _review(folder, chosen, _known(baseline, changes), target, expected, as_json)
    known = _known(baseline, changes)
    free, held = hold_back(chosen, accept, known)
    asks = can_ask(as_json)
    if asks and held:
        free, held = _ask_about_held(folder, chosen, held, accept, known)
    count = counted(sum(not change.blocked for change in free), "change")
    question = f"Apply {count} to {_shown(target)}?"
    look = f"mindx changes show {folder.path.name}"
    if free and not confirmed(question, yes=yes, asks=asks, verb="apply", target=str(target), look=look):
        return 0
    if merge:
        taken = merged_steps(free, folder.blobs, target)
        report = ApplyReport(str(target), conflicts=tuple(taken.conflicts), skipped=tuple(taken.skipped))
        if not taken.conflicts:
            report = perform(taken.steps, folder, target, skipped=taken.skipped, expected=expected)
    else:
        report = apply(free, folder, target, expected=expected)
    return _tell(folder, report, held, as_json, answered=asks)


@command.command(name="undo", epilog="\b\nExample:\n  mindx changes undo last")
@click.argument("run", shell_complete=complete_runs)
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; nothing is asked, so --yes is needed.")
def undo_changes(run: str, yes: bool, as_json: bool) -> int:
    """Take back the last apply of RUN; again for the one before. A file that you changed since is a conflict."""
    folder = ChangesFolder(_find(run).path)
    journal = next_undo(folder)
    question = f"Take back {counted(len(journal.steps), 'change')} in {_shown(journal.target)}?"
    look, asks = f"mindx changes show {folder.path.name}", can_ask(as_json)
    if not confirmed(question, yes=yes, asks=asks, verb="undo", target=journal.target, look=look):
        return 0
    report = undo(folder)
    if as_json:
        print_json(render_json(_report_document(folder, report, [])))
    else:
        _print_report(report, "took back")
    return 0 if report.ok else 1


def review(run_path: Path, target: Path | None = None) -> int:
    """Go through the changes of a run at the terminal and apply what is taken; return the exit code.

    `target` None means the folder that was copied in. Raises MindxError, click.Abort.
    """
    folder = ChangesFolder(run_path)
    changes = folder.read_changes()
    baseline = folder.read_baseline()
    where, expected = _target(baseline, target)
    return _review(folder, list(changes), _known(baseline, changes), where, expected, as_json=False)


def apply_after_run(run_path: Path, target: Path) -> int:
    """Apply what `mindx run --apply` may apply: all but what needs a yes of its own; return the exit code.

    Nothing is printed on stdout: the run's document may stand there. Raises MindxError.
    """
    folder = ChangesFolder(run_path)
    baseline = folder.read_baseline()
    free, held = hold_back(folder.read_changes(), known=baseline.entries)
    report = apply(free, folder, target, expected=(baseline.device, baseline.inode))
    _print_report(report, "applied", with_paths=False)
    _print_held(folder, held)
    return 0 if report.ok and not held else 1


def _review(
    folder: ChangesFolder,
    changes: list[Change],
    known: Sequence[str],
    target: Path,
    expected: tuple[int, int] | None,
    as_json: bool,
) -> int:
    asked = Review(folder, target, known)
    asked.ask(changes)
    report = perform(asked.taken.steps, folder, target, skipped=asked.taken.skipped, expected=expected)
    return _tell(folder, report, asked.held, as_json, answered=True)


def _read(run: str) -> tuple[ChangesFolder, Baseline, tuple[Change, ...]]:
    found = _find(run)
    folder = ChangesFolder(found.path)
    try:
        return folder, folder.read_baseline(), folder.read_changes()
    except InputError as error:
        if error.code != "run_file_missing":
            raise
        text = f"the run {found.run_id} has no changes to show, as it came to no comparison: {_why_none(found)}"
        raise InputError("run_without_changes", text) from None


def _find(run: str) -> RunRecord:
    """Return the run; `last` is the newest that came to a comparison, or the newest when none did."""
    store = run_store()
    found = store.find(run)
    newest = next(store.runs(), found) if run == "last" else found
    older = found if _is_compared(newest) else next(filter(_is_compared, store.runs()), None)
    if run != "last" or older is None or older.run_id == newest.run_id:
        return found
    note(f"the newest run {newest.run_id} has no changes ({_why_none(newest)}); this is {older.run_id}")
    return older


def _is_compared(run: RunRecord) -> bool:
    return (run.path / "changes.json").is_file()


def _why_none(run: RunRecord) -> str:
    """Return why a run has no changes, on one harmless line."""
    document = run.read_result()
    if document is None:
        return f"it is {run.state()}"
    outcome = str(document.get("outcome"))
    cause: Any = document.get("error") or next(iter(document.get("faults") or ()), None)
    reason = str(cause.get("message", "")) if isinstance(cause, dict) else ""
    told = "it failed" if outcome == "error" else f"it is {outcome}"
    return escape_line(f"{told}: {reason}" if reason else told)


def _known(baseline: Baseline, changes: Iterable[Change]) -> tuple[str, ...]:
    """Return all paths of the workspace, for marks that depend on a file beside."""
    return (*baseline.entries, *(change.path for change in changes))


def _target(baseline: Baseline, to: Path | None) -> tuple[Path, tuple[int, int] | None]:
    if to is not None:
        return to, None
    if not baseline.folder:
        raise InputError("apply_where", "the run had no workspace folder; name a folder with --to DIR")
    return Path(baseline.folder), (baseline.device, baseline.inode)


def _ask_about_held(
    folder: ChangesFolder, chosen: list[Change], held: list[Skipped], accept: tuple[str, ...], known: Sequence[str]
) -> tuple[list[Change], list[Skipped]]:
    accepted = list(accept)
    shown = {diff.change.path: diff for diff in diffs(chosen, folder.blobs, known)}
    for item in held:
        if item.path in shown:
            show_patch(shown[item.path])
        what = styled(escape_line(item.path), None, sys.stderr, bold=True)
        if yes_or_no(f"{what} {item.reason}. Apply it?", default=False):
            accepted.append(item.path)
    return hold_back(chosen, accepted, known)


def _shown(target: Path | str) -> str:
    return escape_line(plain_text(str(target)))


def _tell(folder: ChangesFolder, report: ApplyReport, held: list[Skipped], as_json: bool, *, answered: bool) -> int:
    if as_json:
        print_json(render_json(_report_document(folder, report, held)))
    else:
        _print_report(report, "applied")
        if answered:
            for item in held:
                note(f"left out: {escape_line(item.path)}: {item.reason}")
        else:
            _print_held(folder, held)
        if report.applied:
            note(f"`mindx changes undo {folder.path.name}` takes it back")
    if not report.ok:
        return 1
    return 1 if held and not answered else 0


def _print_held(folder: ChangesFolder, held: list[Skipped]) -> None:
    for item in held:
        note(f"left out: {escape_line(item.path)}: {item.reason}")
    if held:
        path = escape_line(held[0].path)
        note(f"look at them, then take one with `mindx changes apply {folder.path.name} {path} --accept {path}`")


def _print_report(report: ApplyReport, done: str, *, with_paths: bool = True) -> None:
    for conflict in report.conflicts:
        note(f"conflict: {escape_line(conflict.path)}: {escape_line(conflict.reason)}")
    for item in report.skipped:
        note(f"not applied: {escape_line(item.path)}: {escape_line(item.reason)}")
    for path in report.kept:
        note(f"kept: {escape_line(path)}: the folder holds files that were not copied in")
    for path in report.applied if with_paths else ():
        click.echo(escape_line(path))
    if report.conflicts:
        note(f"nothing was done: {len(report.conflicts)} in conflict")
        if done == "applied":
            note("see `mindx changes apply --help`: --merge joins edits that do not meet; PATHS takes only some")
    else:
        count = len(report.applied)
        already = f" ({len(report.already)} were so already)" if report.already else ""
        note(f"{done} {counted(count, 'change')} in {_shown(report.target)}{already}")


def _report_document(folder: ChangesFolder, report: ApplyReport, held: list[Skipped]) -> dict[str, Any]:
    left_out = report.to_dict() | {"left_out": [{"path": plain_text(h.path), "reason": h.reason} for h in held]}
    return {"schema_version": SCHEMA_VERSION, "run_id": folder.path.name, **left_out}


def _document(folder: ChangesFolder, baseline: Baseline, changes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": folder.path.name,
        "folder": plain_text(baseline.folder),
        "changes": changes,
        "omitted": [{"path": plain_text(item.path), "reason": item.reason} for item in baseline.omitted],
        "omitted_count": baseline.omitted_count,
    }


def _hint(folder: ChangesFolder, some: bool) -> None:
    if some and sys.stderr.isatty():
        name = folder.path.name
        note(f"`mindx changes show {name} --patch` shows the lines, `mindx changes apply {name} -p` takes them")
