"""`mindx coordinator`: how the society does, and a person's word on what it wants to make better."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import click

from mindx.agents.beliefs.system import BELIEFS_FILE, BeliefSystem
from mindx.agents.constitution import Constitution
from mindx.agents.coordinator.agent_registry import AgentRegistry
from mindx.agents.coordinator.backlog import Backlog
from mindx.agents.coordinator.backlog_item import OPEN, BacklogItem, BacklogStatus, WaitsFor
from mindx.agents.coordinator.consent import Consent
from mindx.agents.coordinator.coordinator import CoordinatorAgent
from mindx.agents.coordinator.database import FILE, CoordinatorDatabase
from mindx.agents.coordinator.interaction import Interaction, InteractionStatus, InteractionType
from mindx.agents.coordinator.interaction_store import InteractionStore
from mindx.agents.coordinator.performance import PerformanceMonitor
from mindx.agents.coordinator.resources import NAMESPACE
from mindx.agents.improvement.apply import applied_improvement
from mindx.agents.improvement.call import call_improvement
from mindx.agents.improvement.paths import IMPROVEMENT_FOLDER
from mindx.cli.agent_parts import at_terminal
from mindx.cli.confirm import can_ask, confirmed, yes_option, yes_or_no
from mindx.cli.coordinator_show import (
    InteractionDocument,
    diff_of,
    exit_code_of,
    print_end,
    print_item,
    print_items,
)
from mindx.cli.errors import INTERRUPTED
from mindx.cli.escape import escape, escape_line, shortened
from mindx.cli.interrupt import run_async
from mindx.cli.options import json_option, policy_option
from mindx.cli.prose import note, print_json
from mindx.core.count import counted
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.folders import mind_dir
from mindx.errors import InputError

EPILOG = """\b
Examples:
  mindx coordinator status
  mindx coordinator backlog
  mindx coordinator backlog item_1a2b3c4d5e6f
  mindx coordinator approve item_1a2b3c4d5e6f
  mindx coordinator reject item_1a2b3c4d5e6f --reason "it works as it is"
  mindx coordinator rollback item_1a2b3c4d5e6f
"""
by_option = click.option("--by", metavar="NAME", default="", help="Who says so; without it, the user of this system.")


@click.group(name="coordinator", epilog=EPILOG)
def command() -> None:
    """Look at the society, and approve, reject or take back what it makes better."""


@command.command(name="status", epilog="\b\nExample:\n  mindx coordinator status --json")
@json_option
def status(as_json: bool) -> None:
    """Show agents, requests, backlog, alerts and how the models do."""
    document = {"schema_version": SCHEMA_VERSION, **_state()}
    if as_json:
        print_json(render_json(document))
        return
    for name in ("interactions", "backlog"):
        told = ", ".join(f"{count} {word}" for word, count in document[name].items()) or "none"
        click.echo(f"{name.capitalize():<13} {told}")
    for one in document["interrupted"]:
        content = shortened(escape_line(one["content"]))
        click.echo(f"Interrupted   {one['interaction_id']} ({one['interaction_type']}): {content}")
    for agent in document["agents"]:
        click.echo(f"Agent         {escape_line(agent['agent_id'])} ({agent['layer']})")
    for one in document["performance"]:
        latency = "" if one["mean_latency_s"] is None else f", {one['mean_latency_s']:.1f} s each"
        tokens = one["input_tokens"] + one["output_tokens"]
        calls = counted(one["calls"], "call")
        name = f"{escape_line(one['model'])} for {escape_line(one['task'])}"
        click.echo(f"Model         {name}: {calls}, {one['failed']} failed{latency}, {counted(tokens, 'token')}")
    for alert in document["alerts"]:
        click.echo(f"Alert         {alert['resource']} {escape_line(alert['path'])} at {alert['percent']:.0f} %")
    if not document["agents"]:
        note("no coordinator has worked here yet; `mindx campaign run` begins a campaign")


@command.command(name="backlog", epilog="\b\nExamples:\n  mindx coordinator backlog --all --json")
@click.argument("item_id", metavar="[ITEM]", required=False, default="")
@click.option("--all", "every", is_flag=True, help="Also what is done, rejected or given up.")
@json_option
def backlog(item_id: str, every: bool, as_json: bool) -> None:
    """List what is to be made better, or show one ITEM with its finished change."""
    if item_id:
        with _opened() as parts:
            item = parts.backlog.get(item_id)
            print_item(item, diff_of(parts.interactions, item), as_json)
        return
    shown = (*OPEN, BacklogStatus.INTERRUPTED)
    items: tuple[BacklogItem, ...] = ()
    if (mind_dir() / FILE).exists():
        with _opened() as parts:
            items = tuple(item for item in parts.backlog.list() if every or item.status in shown)
    print_items(items, as_json)


@command.command(name="approve", epilog="\b\nExample:\n  mindx coordinator approve item_1a2b3c4d5e6f --yes")
@click.argument("item_id", metavar="ITEM")
@click.option("--yes", is_flag=True, help="Do not ask; you have looked at it (`mindx coordinator backlog ITEM`).")
@by_option
@json_option
def approve(item_id: str, yes: bool, by: str, as_json: bool) -> int:
    """Let work on an ITEM begin, or its finished change be applied.

    A change is applied at once; while a campaign runs, only by `mindx coordinator work` afterwards.
    """
    with _opened() as parts:
        item = parts.backlog.get(item_id)
        change = item.waits_for is WaitsFor.CHANGE
        if not yes and not _agreed(item, diff_of(parts.interactions, item)):
            note("nothing was approved")
            return 1
        approved = parts.consent.approve(item_id, by or getpass.getuser(), seen=item)
    if not change:
        print_item(approved, "", as_json)
        note("`mindx coordinator work --workspace DIR` works on it")
        return 0
    ended = _in_coordinator(lambda made: made.process_interaction(approved.interaction_id))
    with _opened() as parts:
        print_item(parts.backlog.get(item_id), "", as_json)
    return 0 if ended is None else exit_code_of(ended)


@command.command(name="reject", epilog='\b\nExample:\n  mindx coordinator reject item_1a2b3c4d5e6f --reason "no"')
@click.argument("item_id", metavar="ITEM")
@click.option("--reason", metavar="TEXT", default="", help="Why; it is kept with the item.")
@by_option
@json_option
def reject(item_id: str, reason: str, by: str, as_json: bool) -> None:
    """Refuse an ITEM for good; the same idea does not come back."""
    with _opened() as parts:
        print_item(parts.consent.reject(item_id, by or getpass.getuser(), reason), "", as_json)


@command.command(name="rollback", epilog="\b\nExample:\n  mindx coordinator rollback item_1a2b3c4d5e6f")
@click.argument("name", metavar="ITEM|INTERACTION")
@yes_option
@by_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; nothing is asked, so --yes is needed.")
def rollback(name: str, yes: bool, by: str, as_json: bool) -> int:
    """Put back what stood there before the change of an ITEM or INTERACTION was applied."""
    key = "backlog_item_id" if name.startswith("item_") else "interaction_id"
    with _opened() as parts:
        item = parts.backlog.get(name) if key == "backlog_item_id" else parts.backlog.of_interaction(name)
    interaction_id = name if item is None else item.interaction_id
    journal = applied_improvement(interaction_id, work_dir=mind_dir() / IMPROVEMENT_FOLDER)
    question = f"Take back {counted(len(journal.steps), 'change')} in {escape_line(journal.target)}?"
    look = f"mindx coordinator backlog {'--all' if item is None else item.item_id}"
    asks = can_ask(as_json)
    if not confirmed(question, yes=yes, asks=asks, verb="rollback", target=journal.target, look=look):
        return 0
    ended = _in_coordinator(
        lambda made: made.ask(
            InteractionType.ROLLBACK_COMPONENT, "", metadata={key: name}, user_id=by or getpass.getuser()
        ),
        busy=False,
    )
    assert ended is not None
    return print_end(ended, as_json)


@command.command(name="work", epilog="\b\nExample:\n  mindx coordinator work --workspace .")
@click.option(
    "--workspace",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="The project that is improved; each attempt works on a copy in a container.",
)
@click.option(
    "--improvement-script",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Take the turns of the improvement agent's model from a JSON Lines file, without a network.",
)
@policy_option
@json_option
def work(workspace: Path, improvement_script: Path | None, policy: str | None, as_json: bool) -> int:
    """Work once on the first item of the backlog that can be done now."""
    from mindx.settings import effective_policy

    loaded = effective_policy(policy, None, workspace)
    # Who asks for it has decided that this machine has the time.
    asked = {"max_cpu_percent": 100.0} | ({"improvement_script": improvement_script} if improvement_script else {})
    try:
        ended = _in_coordinator(
            lambda made: made.worker.work_once(),
            busy=False,
            project=workspace.absolute(),
            policy=loaded,
            asked=asked,
        )
    except KeyboardInterrupt:
        note("what was begun is on the backlog as interrupted; approve it to have it done again")
        return INTERRUPTED
    if ended is None:
        note("nothing can be worked on now: see `mindx coordinator backlog`")
        if as_json:
            print_json(render_json(InteractionDocument(interaction=None).model_dump(mode="json")))
        return 0
    return print_end(ended, as_json)


class _Parts:
    """The tables of the coordinator, as another process may use them beside a running one."""

    def __init__(self, database: CoordinatorDatabase) -> None:
        def now() -> datetime:
            return datetime.now(timezone.utc)

        self.database = database
        self.interactions = InteractionStore(database)
        self.backlog = Backlog(database, now)
        self.agents = AgentRegistry(database)
        self.consent = Consent(self.backlog, self.interactions, Constitution.of(mind_dir()), now)


@contextmanager
def _opened() -> Iterator[_Parts]:
    """Give the tables. Raises InputError (coordinator_none) where no coordinator has worked."""
    if not (mind_dir() / FILE).exists():
        raise InputError("coordinator_none", f"no coordinator has worked in {mind_dir()}; there is no backlog yet")
    database = CoordinatorDatabase(mind_dir())
    try:
        yield _Parts(database)
    finally:
        database.close()


def _in_coordinator(
    do: Any, *, busy: bool = True, asked: Mapping[str, Any] | None = None, **options: Any
) -> Interaction | None:
    """Have a coordinator of our own do something; None when another one runs and `busy` says that it will do it.

    It works with what the settings say, but for what is `asked` of its configuration.
    """
    from mindx.society_settings import coordinator_config

    config = coordinator_config().model_copy(update=asked or {})

    async def main() -> Any:
        folder = mind_dir()
        with BeliefSystem(folder / BELIEFS_FILE) as beliefs:
            improve = partial(call_improvement, work_dir=folder / IMPROVEMENT_FOLDER)
            async with CoordinatorAgent(
                folder, beliefs=beliefs, constitution=Constitution.of(folder), improve=improve, config=config, **options
            ) as made:
                return await do(made)

    try:
        ended: Interaction | None = run_async(main)
    except InputError as error:
        if error.code != "coordinator_in_use" or not busy:
            raise
        note("a coordinator is running; when it has ended, `mindx coordinator work` applies the change")
        return None
    return ended


def _state() -> dict[str, Any]:
    empty: dict[str, Any] = {"agents": [], "interactions": {}, "interrupted": [], "backlog": {}}
    empty |= {"alerts": [], "performance": []}
    if not (mind_dir() / FILE).exists():
        return empty
    with _opened() as parts, BeliefSystem(mind_dir() / BELIEFS_FILE) as beliefs:
        return {
            "agents": [agent.model_dump(mode="json", exclude={"metadata", "status"}) for agent in parts.agents.list()],
            "interactions": parts.interactions.counts(),
            "interrupted": [
                {
                    "interaction_id": one.interaction_id,
                    "interaction_type": one.interaction_type.value,
                    "content": one.content,
                }
                for one in parts.interactions.list(InteractionStatus.INTERRUPTED)
            ],
            "backlog": parts.backlog.counts(),
            "alerts": [belief.value for belief in beliefs.query("alert.", namespace=NAMESPACE)],
            "performance": [one.to_dict() for one in PerformanceMonitor(parts.database).list()],
        }


def _agreed(item: BacklogItem, diff: str) -> bool:
    """Show what is to be approved and return the person's answer. Raises InputError (approval_unseen), click.Abort."""
    if not at_terminal():
        message = f"there is no terminal to ask at; look at it (`mindx coordinator backlog {item.item_id}`), then --yes"
        raise InputError("approval_unseen", message)
    note(f"{escape_line(item.target_component_path)}: {escape(item.suggestion)}")
    if diff:
        note(escape(diff))
    return yes_or_no("Apply this change?" if diff else "Let the work begin?", default=False)
