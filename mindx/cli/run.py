"""`mindx run`: a plan in a container, its steps and what it changed."""

from __future__ import annotations

from pathlib import Path

import click

from mindx.cli.approve import BesideLine, approver_for
from mindx.cli.errors import INTERRUPTED, say, tell, write_report
from mindx.cli.interrupt import run_async
from mindx.cli.options import (
    approve_option,
    autonomous_option,
    complete_file,
    image_option,
    json_option,
    policy_option,
    read_plan,
    workspace_option,
)
from mindx.cli.prose import note, print_json
from mindx.cli.render import StepPrinter, fault_lines, print_summary
from mindx.cli.status_line import StepLine
from mindx.cli.store import run_store
from mindx.cli.verbosity import StartLine, quiet, remark, verbose, verbosity_options
from mindx.core.observation import Observation
from mindx.core.plan import Action
from mindx.core.run import Outcome, RunResult
from mindx.errors import MindxError
from mindx.runtime.plan_run import PlanRun
from mindx.settings import effective_policy
from mindx.tools.vet import VettedPlan

EPILOG = """\b
Examples:
  mindx run plan.json
  mindx run plan.json --workspace . --review
  mindx run plan.json --workspace . --apply
  mindx run --workspace . --dry-copy
  generate-plan | mindx run - --json

Nothing is written to --workspace unless --review or --apply is given; see `mindx changes show last`.
Files that run on your machine later (hooks, CI and task files ...) are never taken by --apply alone.
"""


@click.command(name="run", epilog=EPILOG)
@click.argument("plan", metavar="PLAN|-", required=False, shell_complete=complete_file)
@policy_option
@workspace_option
@autonomous_option
@image_option
@approve_option
@click.option("--keep-going", is_flag=True, help="Go on after a step that did not succeed.")
@click.option("--apply", "apply_", is_flag=True, help="Write the changes to --workspace if the plan completed.")
@click.option("--dry-copy", is_flag=True, help="Only show what of --workspace would go in, and why not the rest.")
@click.option("--review", is_flag=True, help="Go through the changes afterwards and choose what to take.")
@verbosity_options
@json_option
def command(
    plan: str | None,
    policy: str | None,
    workspace: Path | None,
    autonomous: bool,
    image: str | None,
    approve_from: Path | None,
    keep_going: bool,
    apply_: bool,
    review: bool,
    dry_copy: bool,
    as_json: bool,
) -> int:
    """Run PLAN (a JSON file, `-` for standard input) in a container and show what it did."""
    if dry_copy:
        return _dry_copy(workspace, policy, image, as_json)
    source = _source(plan, workspace, apply_=apply_, review=review, as_json=as_json)
    display = _Display("<stdin>" if plan == "-" else str(plan))
    approver = approver_for(approve_from, stdin_is_free=plan != "-")
    run = PlanRun(
        source,
        effective_policy(policy, image, workspace),
        run_store(),
        workspace=workspace,
        autonomous=autonomous,
        approver=None if approver is None else BesideLine(approver, display.line),
        keep_going=keep_going,
        on_vetted=display.vetted,
        on_step=display.step,
        on_output=display.line.hear,
        progress=display.start,
        on_bug=write_report,
    )
    try:
        with display.start, display.line:
            run_async(run.run)
    except KeyboardInterrupt:
        _show(run.result, as_json)
        return INTERRUPTED
    except MindxError as error:  # the record could not be written; what is known is told all the same
        if run.result is None:
            raise
        _show(run.result, as_json)
        return error.exit_code
    _show(run.result, as_json)
    return _after(run, workspace, apply_=apply_, review=review, as_json=as_json)


def _dry_copy(workspace: Path | None, policy: str | None, image: str | None, as_json: bool) -> int:
    """Show what of the workspace would be copied in."""
    if workspace is None:
        raise click.UsageError("--dry-copy needs --workspace: there is no folder to look at")
    from mindx.cli.copy_preview import show_copy

    show_copy(workspace, effective_policy(policy, image, workspace).policy, as_json)
    return 0


def _source(plan: str | None, workspace: Path | None, *, apply_: bool, review: bool, as_json: bool) -> bytes:
    """Return the plan's text, once the options are seen to go together. Raises click.UsageError, InputError."""
    if plan is None:
        raise click.UsageError("name a plan, or `-` for standard input")
    if apply_ and workspace is None:
        raise click.UsageError("--apply needs --workspace: there is no folder to write to")
    if review and (workspace is None or apply_ or as_json or plan == "-"):
        raise click.UsageError("--review needs --workspace and your answers: not with --apply, --json or a plan from -")
    return read_plan(plan)


class _Display:
    """What is shown on stderr while a plan runs: its faults, and each step. `name` is the plan's, for the faults."""

    def __init__(self, name: str) -> None:
        self.start, self.line = StartLine(), StepLine()
        self._name = name
        self._printer: StepPrinter | None = None

    def vetted(self, vetted: VettedPlan) -> None:
        """Show what is wrong with the plan."""
        for fault in fault_lines(vetted.faults, self._name):
            tell(fault)
        self._printer = None if quiet() else StepPrinter(len(vetted.steps), self.line, verbose=verbose())

    def step(self, action: Action, observation: Observation | None) -> None:
        """Show the beginning (None) or the end of a step."""
        self.start.end()
        if self._printer is not None:
            self._printer(action, observation)


def _after(run: PlanRun, workspace: Path | None, *, apply_: bool, review: bool, as_json: bool) -> int:
    """Do with the changes what the user wanted, or say how to get at them; return the exit code."""
    assert run.result is not None
    code, run_id = run.result.outcome.exit_code, run.folder.run_id
    if workspace is not None and run.session.baseline.omitted:
        from mindx.cli.copy_preview import tell_secrets

        tell_secrets(run.session.baseline.omitted, run.policy.policy)
    if apply_ and workspace is not None:
        return _apply(run, workspace)
    if review and run.result.changes:
        from mindx.cli.changes import review as go_through
        from mindx.cli.changes_review import at_terminal

        if not at_terminal():
            note(f"--review needs a terminal to ask at; `mindx changes apply {run_id}` takes the changes later")
            return code
        return go_through(run.folder.path) or code
    if run.result.changes and not as_json:
        remark(f"nothing is written to your files; `mindx changes show {run_id}` shows what there is to apply")
    return code


def _show(result: RunResult | None, as_json: bool) -> None:
    if result is None:
        return
    if result.error is not None:
        say(str(result.error["message"]))
    if as_json:
        print_json(result.to_json())
    else:
        print_summary(result)


def _apply(run: PlanRun, workspace: Path) -> int:
    """Write the changes to the workspace, if the plan completed; a conflict, or what needs a yes, is a failure."""
    assert run.result is not None
    if run.result.outcome is not Outcome.COMPLETED:
        note("not applied: the plan did not complete")
        return run.result.outcome.exit_code
    from mindx.cli.changes import apply_after_run

    return apply_after_run(run.folder.path, workspace)
