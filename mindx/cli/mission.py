"""`mindx mission`: a directive that is divided into phases and seen through."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mindx.agents.agint.agint import AGInt
from mindx.agents.agint.life import AGIntStatus
from mindx.agents.agint.mission import Mission, MissionBudget
from mindx.agents.bdi import Budget
from mindx.agents.system import MissionSystem
from mindx.agents.work_record import WorkRecord
from mindx.cli.agent_parts import at_terminal, model_option, provider_of, recorded, script_option, tell_changes
from mindx.cli.approve_action import answer_at_terminal, ask_at_terminal
from mindx.cli.errors import INTERRUPTED, say
from mindx.cli.escape import escape_line
from mindx.cli.interrupt import run_async
from mindx.cli.log_trail import log_trail
from mindx.cli.missions import find_mission, print_phases, told_of, way_on
from mindx.cli.options import json_option, policy_option, workspace_option
from mindx.cli.prose import print_json
from mindx.cli.store import run_store
from mindx.cli.verbosity import remark, verbosity_options
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.folders import mind_dir
from mindx.core.run import Outcome
from mindx.errors import MindxError, SandboxError
from mindx.settings import effective_policy

EPILOG = """\b
Examples:
  mindx mission "port it to Python 3.12 and prove it" --workspace .
  mindx mission "make the docs match the code" --workspace . --json
  mindx mission --resume last

A model divides the directive into phases; each is given to an agent of its own, and all of them work in one container
on one copy of the folder. Nothing is written to --workspace: see `mindx changes show last`.
What is dangerous is asked about at a terminal and refused elsewhere.

Exit codes: 0 every phase achieved; 1 failed; 2 bad input; 3 forbidden; 4 sandbox broken; 5 a limit was reached;
6 the model failed; 130 interrupted.
"""
SOURCES = ("agint", "bdi_agent", "model", "tool.SimpleCoder")
_OUTCOMES = {
    AGIntStatus.COMPLETED: Outcome.COMPLETED,
    AGIntStatus.PARTIAL: Outcome.PARTIAL,
    AGIntStatus.STOPPED: Outcome.CANCELLED,
}


@click.command(name="mission", epilog=EPILOG)
@click.argument("directive", required=False, default="")
@click.option("--id", "mission_id", metavar="ID", default="", help="The mission's id; without it one is made.")
@click.option(
    "--resume",
    metavar="ID",
    default="",
    help="Go on with a mission (an id, or `last`) that is not complete, in a new container.",
)
@workspace_option
@policy_option
@model_option
@click.option(
    "--max-cycles",
    metavar="N",
    type=click.IntRange(1, 10_000),
    default=60,
    show_default=True,
    help="Stop after N decisions.",
)
@script_option
@verbosity_options
@json_option
def command(
    directive: str,
    mission_id: str,
    resume: str,
    workspace: Path | None,
    policy: str | None,
    model: str,
    max_cycles: int,
    script: Path | None,
    as_json: bool,
) -> int:
    """Take a DIRECTIVE, divide it into phases, and see it through."""
    if bool(directive.strip()) == bool(resume):
        raise click.UsageError("give a directive, or --resume ID, and not both")
    if directive.strip() in ("list", "show"):
        raise click.UsageError(f"that is no directive; did you mean `mindx missions {directive.strip()}`?")
    if resume and (mission_id or workspace is not None):
        raise click.UsageError("--resume takes a mission as it is: give no --id or --workspace with it")
    if resume:
        found = find_mission(resume)
        resume, workspace = found.mission_id, None if found.workspace is None else Path(found.workspace)
    loaded = effective_policy(policy, None, workspace)
    provider = provider_of(script, model)
    record = WorkRecord(loaded, run_store(), workspace=workspace)
    system = MissionSystem(mind_dir(), provider, policy=loaded, model=model, record=record)
    made: list[AGInt] = []

    def begin(agint: AGInt) -> None:
        made.append(agint)
        if resume:
            agint.take_up(resume)
        else:
            agint.start(directive, mission_id=mission_id or None, workspace=workspace)

    with log_trail(SOURCES), recorded(record):
        try:
            mission = run_async(lambda: _seen_through(system, record, workspace, max_cycles, begin))
        except KeyboardInterrupt:
            record.outcome = Outcome.CANCELLED
            tell_changes(record)
            if made:
                remark(way_on(made[0].mission))
            return INTERRUPTED
        broken = made[0].exit_code == SandboxError.exit_code
        record.outcome = Outcome.ERROR if broken else _OUTCOMES.get(mission.status, Outcome.FAILED)
    return _print_end(mission, made[0], record, as_json)


async def _seen_through(
    system: MissionSystem, record: WorkRecord, workspace: Path | None, max_cycles: int, begin: Callable[[AGInt], None]
) -> Mission:
    """Return the mission that `begin` begins as it ended; what it changed in its container is the record's."""
    async with system:
        box = system.container(workspace)
        try:
            agint = system.agint(
                box,
                approval_handler=ask_at_terminal if at_terminal() else None,
                on_question=answer_at_terminal if at_terminal() else None,
                agent_budget=Budget(seconds=float(system.policy.policy.limits.session_timeout_s)),
                budget=MissionBudget(max_cycles=max_cycles),
            )
            begin(agint)
            remark(f"mission {agint.mission.mission_id}")
            try:
                return await agint.finish()
            finally:
                await record.collect(box.session)
        finally:
            await box.close()


def _print_end(mission: Mission, agint: AGInt, record: WorkRecord, as_json: bool) -> int:
    if as_json:
        print_json(render_json(document(mission, record, agint.failure)))
    else:
        print_phases(mission)
        click.echo(escape_line(f"Mission {mission.mission_id}: {mission.status.value}. {mission.message}"))
    if mission.status is not AGIntStatus.COMPLETED:
        say(mission.message)
        remark(way_on(mission))
    tell_changes(record)
    return agint.exit_code


def document(mission: Mission, record: WorkRecord, failure: MindxError | None) -> dict[str, Any]:
    """Return a mission as its JSON document has it."""
    return {
        "schema_version": SCHEMA_VERSION,
        **told_of(mission),
        "error": None if failure is None else failure.to_dict(),
        "run_id": record.folder.run_id,
        "changes": [change.model_dump(mode="json") for change in record.changes],
        "trace": str(record.folder.trace_path),
    }
