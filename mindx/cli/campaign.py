"""`mindx campaign`: Mastermind's long work on the system itself."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import click

from mindx.agents.mastermind.campaign import CampaignStatus, StrategicCampaign
from mindx.agents.mastermind.campaign_store import CampaignStore
from mindx.agents.mastermind.stop_switch import ALL, StopSwitch
from mindx.agents.system import MindSystem, is_free
from mindx.agents.work_record import WorkRecord
from mindx.cli.agent_parts import model_option, provider_of, recorded, script_option
from mindx.cli.columns import print_columns
from mindx.cli.errors import INTERRUPTED, say
from mindx.cli.escape import escape_line, shortened
from mindx.cli.interrupt import run_async
from mindx.cli.log_trail import log_trail
from mindx.cli.options import json_option, policy_option
from mindx.cli.prose import note, print_json
from mindx.cli.store import run_store
from mindx.cli.verbosity import remark, verbosity_options
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.folders import mind_dir
from mindx.core.run import Outcome
from mindx.errors import InputError, SandboxError
from mindx.settings import effective_policy
from mindx.society_settings import campaign_budget, coordinator_config

EPILOG = """\b
Examples:
  mindx campaign run
  mindx campaign run "find out which tool is missing, and have it made" --max-cycles 10
  mindx campaign list
  mindx campaign stop

A campaign looks at the system, finds a tool that it lacks, has it written and tested in a container, registers it
and uses it once.

Exit codes: 0 complete; 1 something is missing; 2 bad input; 3 stopped or forbidden; 4 sandbox or state
broken; 5 a budget was reached; 6 the model failed; 130 interrupted.
"""
SOURCES = ("mastermind", "bdi_agent", "model", "official_tools")
_OUTCOMES = {
    CampaignStatus.COMPLETED: Outcome.COMPLETED,
    CampaignStatus.PARTIAL: Outcome.PARTIAL,
    CampaignStatus.STOPPED: Outcome.CANCELLED,
    CampaignStatus.FAILED_INCOMPLETE: Outcome.FAILED,
}


@click.group(name="campaign", epilog=EPILOG)
def command() -> None:
    """Run, list, show and stop campaigns: the system works on its own tools."""


@command.command(
    name="run",
    epilog="\b\nExamples:\n  mindx campaign run --json\n"
    "  mindx campaign run --script mind.jsonl --improvement-script code.jsonl",
)
@click.argument("directive", required=False, default="")
@click.option("--id", "campaign_id", metavar="ID", default="", help="The campaign's id; without it one is made.")
@click.option(
    "--resume", metavar="ID", default="", help="Go on with a campaign (an id, or `last`) that is not complete."
)
@click.option(
    "--max-cycles", metavar="N", type=click.IntRange(1, 10_000), help="Stop the agent after N cycles.  [default: 25]"
)
@click.option("--max-seconds", metavar="S", type=click.FloatRange(min=0, min_open=True), help="Stop after S seconds.")
@click.option("--max-tokens", metavar="N", type=click.IntRange(1), help="Stop after N tokens of the model.")
@click.option("--max-developments", metavar="N", type=click.IntRange(0, 100), help="Have at most N tools developed.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Be the autonomous worker: run one campaign after each so many seconds, until `mindx campaign stop`.",
)
@policy_option
@model_option
@script_option
@click.option(
    "--improvement-script",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The same for the self-improvement agent, which has a model of its own.",
)
@verbosity_options
@json_option
def run_campaign(
    directive: str,
    campaign_id: str,
    resume: str,
    max_cycles: int | None,
    max_seconds: float | None,
    max_tokens: int | None,
    max_developments: int | None,
    every: float | None,
    policy: str | None,
    model: str,
    script: Path | None,
    improvement_script: Path | None,
    as_json: bool,
) -> int:
    """Run a campaign on a DIRECTIVE; without one, on finding and building what the system lacks.

    What is not given here is as `campaign:` and `coordinator:` in your config.yaml say (docs/society.md).
    """
    if resume and (directive.strip() or campaign_id or every):
        raise click.UsageError("--resume takes a campaign as it is: give no directive, --id or --every with it")
    loaded = effective_policy(policy)
    flags = {"max_seconds": max_seconds, "max_tokens": max_tokens, "max_developments": max_developments}
    budget, config = campaign_budget(flags), coordinator_config()
    provider = provider_of(script, model)
    record = WorkRecord(loaded, run_store())
    system = MindSystem(
        mind_dir(),
        provider,
        policy=loaded,
        model=model,
        record=record,
        improvement_script=None if improvement_script is None else improvement_script.absolute(),
        campaign_budget=budget,
        coordinator_config=config,
    )

    async def run() -> StrategicCampaign | None:
        async with system:
            mastermind = system.mastermind
            if every is not None:
                mastermind.start_worker(every, directive)
                remark(f"a campaign begins every {every:g} s, until `mindx campaign stop`")
                await mastermind.wait_worker()
                return None
            if resume:
                return await mastermind.take_up(_find(resume).campaign_id)
            return await mastermind.launch_campaign(
                directive, max_bdi_cycles=max_cycles, campaign_id=campaign_id or None
            )

    with log_trail(SOURCES), recorded(record):
        try:
            ended = run_async(run)
        except KeyboardInterrupt:
            record.outcome = Outcome.CANCELLED
            remark("`mindx campaign list` names it, and `mindx campaign run --resume ID` takes it up again")
            return INTERRUPTED
        if ended is None:
            return 0
        broken = ended.outcome is not None and ended.outcome.exit_code == SandboxError.exit_code
        record.outcome = Outcome.ERROR if broken else _OUTCOMES[ended.status]
    return _print_end(ended, as_json)


@command.command(name="list", epilog="\b\nExample:\n  mindx campaign list --json")
@json_option
def list_campaigns(as_json: bool) -> None:
    """List the campaigns, the latest first."""
    found = _store().list()
    if as_json:
        print_json(render_json({"schema_version": SCHEMA_VERSION, "campaigns": [one.told for one in found]}))
        return
    if not found:
        note("no campaign yet; `mindx campaign run` makes one")
    rows = [
        {
            "campaign": escape_line(one.campaign_id),
            "begun": _time(one.created_at),
            "state": _standing(one),
            "directive": shortened(escape_line(one.directive)),
        }
        for one in found
    ]
    print_columns(rows, gives_way=("begun", "state"), prose="directive")


@command.command(name="show", epilog="\b\nExample:\n  mindx campaign show last")
@click.argument("campaign")
@json_option
def show_campaign(campaign: str, as_json: bool) -> None:
    """Show one campaign. CAMPAIGN is an id, or `last`."""
    one = _find(campaign)
    if as_json:
        print_json(render_json({"schema_version": SCHEMA_VERSION, **one.told}))
        return
    click.echo(escape_line(f"Campaign {one.campaign_id}: {_standing(one)}, begun {_time(one.created_at)}"))
    click.echo(escape_line(f"  directive: {one.directive}"))
    click.echo(f"  cycles: {one.cycles} of {one.max_bdi_cycles}, {one.seconds:.1f} s")
    for task in one.sub_tasks:
        marks = [name for name, is_so in (("registered", task.registered), ("used", task.used)) if is_so]
        told = task.problem or ", ".join(marks) or task.status or "open"
        click.echo(escape_line(f"  tool {task.tool_id} {task.version}, attempt {task.attempt}: {told}"))
    if one.outcome is not None:
        click.echo(escape_line(f"  outcome: {one.outcome.summary}"))
    if one.status is not CampaignStatus.COMPLETED:
        click.echo(f"  `mindx campaign run --resume {one.campaign_id}` takes it up again")


@command.command(name="stop", epilog="\b\nExamples:\n  mindx campaign stop\n  mindx campaign stop --release")
@click.argument("campaign", required=False)
@click.option("--release", is_flag=True, help="Let campaigns be started again.")
def stop_campaign(campaign: str | None, release: bool) -> None:
    """Stop the campaign that runs, and start no other until --release; with CAMPAIGN, stop that one alone."""
    switch = StopSwitch(mind_dir())
    if release:
        note("campaigns can be started again" if switch.release() else "the stop switch was not set")
        return
    switch.set(_find(campaign).campaign_id if campaign is not None else ALL)
    note("stopped; `mindx campaign stop --release` lets campaigns be started again")


def _find(name: str) -> StrategicCampaign:
    """Return a campaign by its id, or the `last`. Raises InputError (campaign_unknown, campaign_corrupt)."""
    store = _store()
    if name != "last":
        return store.load(name)
    found = store.list()
    if not found:
        raise InputError("campaign_unknown", "there is no campaign yet; `mindx campaign run` makes one")
    return found[0]


def _store() -> CampaignStore:
    return CampaignStore(mind_dir())


def _standing(one: StrategicCampaign) -> str:
    """Return the status; of one that says RUNNING while nobody holds the folder, the process has died."""
    if one.status.ended or not is_free(mind_dir()):
        return one.status.value
    return "CUT OFF"


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def _print_end(one: StrategicCampaign, as_json: bool) -> int:
    outcome = one.outcome
    assert outcome is not None
    if as_json:
        print_json(render_json({"schema_version": SCHEMA_VERSION, **one.told}))
    else:
        click.echo(escape_line(f"Campaign {one.campaign_id}: {one.status.value}. {outcome.summary}"))
    if one.status is not CampaignStatus.COMPLETED:
        say(outcome.summary)
        remark(f"`mindx campaign run --resume {one.campaign_id}` takes it up again")
    return outcome.exit_code
