"""`mindx missions`: what directives were taken on, and how far they came."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import click

from mindx.agents.agint.life import AGIntStatus
from mindx.agents.agint.mission import Mission, MissionStore
from mindx.agents.agint.phase import PhaseStatus
from mindx.cli.columns import print_columns
from mindx.cli.escape import escape_line, shortened
from mindx.cli.options import json_option
from mindx.cli.prose import note, print_json
from mindx.core.count import counted
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.folders import mind_dir
from mindx.errors import InputError

CUT_OFF = "cut off"
_MARKS = {PhaseStatus.ACHIEVED: "+", PhaseStatus.FAILED: "!", PhaseStatus.RUNNING: ">"}


@click.group(name="missions", epilog="\b\nExamples:\n  mindx missions list\n  mindx missions show last")
def command() -> None:
    """List and show missions; `mindx mission DIRECTIVE` begins one."""


@command.command(name="list", epilog="\b\nExample:\n  mindx missions list --json | jq '.missions[0].mission_id'")
@json_option
def list_missions(as_json: bool) -> None:
    """List the missions, the latest first."""
    store = mission_store()
    found = store.list()
    if as_json:
        told = [told_of(one) for one in found]
        print_json(render_json({"schema_version": SCHEMA_VERSION, "missions": told}))
        return
    if not found:
        note("no mission yet; `mindx mission DIRECTIVE` begins one")
    rows = [
        {
            "mission": escape_line(one.mission_id),
            "begun": _time(one.created_at),
            "state": standing(store, one),
            "done": f"{len(one.achieved)} of {counted(len(one.phases), 'phase')}",
            "directive": shortened(escape_line(one.directive)),
        }
        for one in found
    ]
    print_columns(rows, gives_way=("begun", "done", "state"), prose="directive")


@command.command(name="show", epilog="\b\nExample:\n  mindx missions show last")
@click.argument("mission")
@json_option
def show_mission(mission: str, as_json: bool) -> None:
    """Show one mission with its phases. MISSION is an id, or `last`."""
    store, one = mission_store(), find_mission(mission)
    if as_json:
        print_json(render_json({"schema_version": SCHEMA_VERSION, **told_of(one)}))
        return
    click.echo(escape_line(f"Mission {one.mission_id}: {standing(store, one)}, begun {_time(one.created_at)}"))
    click.echo(escape_line(f"  directive: {one.directive}"))
    click.echo(escape_line(f"  folder: {one.workspace or 'none'}"))
    click.echo(f"  {counted(one.cycle, 'cycle')}, {counted(one.spent.tokens, 'token')}, {one.spent.seconds:.1f} s")
    print_phases(one, "  ")
    if one.message:
        click.echo(escape_line(f"  {one.message}"))
    if one.status is not AGIntStatus.COMPLETED:
        click.echo(f"  {way_on(one)}")


def mission_store() -> MissionStore:
    """Return the user's missions."""
    return MissionStore(mind_dir() / "missions")


def find_mission(name: str) -> Mission:
    """Return a mission by its id, or the `last`. Raises InputError (mission_unknown, mission_corrupt)."""
    store = mission_store()
    if name != "last":
        return store.load(name)
    known = store.list()
    if not known:
        raise InputError("mission_unknown", "there is no mission yet; `mindx mission DIRECTIVE` begins one")
    return known[0]


def standing(store: MissionStore, mission: Mission) -> str:
    """Return the status; of one that is not at its end while nobody works on it, the process has died."""
    if mission.status.ended or not store.is_free(mission.mission_id):
        return mission.status.value
    return CUT_OFF


def way_on(mission: Mission) -> str:
    """Return the sentence that says how a mission goes on, and what of it is done twice then."""
    again = counted(len(mission.achieved), "achieved phase")
    what = f", in a new container: {again} will be done again there" if mission.achieved else ""
    return f"`mindx mission --resume {mission.mission_id}` takes it up again{what}"


def print_phases(mission: Mission, indent: str = "") -> None:
    """Print a line for each phase: a mark, its name, how it stands and what was told of it last."""
    for phase in mission.phases:
        mark = _MARKS.get(phase.status, " ")
        click.echo(escape_line(f"{indent}{mark} {phase.name}: {phase.status.value}. {phase.told}")[:300])


def told_of(mission: Mission) -> dict[str, Any]:
    """Return what documents tell of a mission."""
    names = {"mission_id", "directive", "workspace", "status", "awareness", "message", "created_at", "updated_at"}
    phase_names = {"name", "task", "depends_on", "status", "attempts", "told"}
    return {
        **mission.model_dump(mode="json", include=names),
        "phases": [phase.model_dump(mode="json", include=phase_names) for phase in mission.phases],
        "decisions": [cycle.decision.value for cycle in mission.notes],
        "cycles": mission.cycle,
        "tokens": mission.spent.tokens,
        "seconds": mission.spent.seconds,
    }


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
