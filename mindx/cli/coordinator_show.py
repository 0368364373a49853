"""How the coordinator's items and Interactions are shown, to people and as documents."""

from __future__ import annotations

from typing import Literal

import click
from pydantic import BaseModel, ConfigDict

from mindx.agents.coordinator.backlog_item import BacklogItem, WaitsFor
from mindx.agents.coordinator.interaction import Interaction, InteractionStatus
from mindx.agents.coordinator.interaction_store import InteractionStore
from mindx.agents.improvement.models import ImprovementResult
from mindx.cli.columns import print_columns
from mindx.cli.errors import say
from mindx.cli.escape import escape, escape_line, shortened
from mindx.cli.prose import note, print_json
from mindx.core.document import render_json

PARTIAL = 5


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1


class BacklogDocument(_Document):
    """What `coordinator backlog --json` prints."""

    items: tuple[BacklogItem, ...]


class ItemDocument(_Document):
    """What `coordinator backlog ITEM --json`, `approve` and `reject` print; `diff` is "" without a finished change."""

    item: BacklogItem
    diff: str = ""


class InteractionDocument(_Document):
    """What `coordinator rollback` and `work` print with --json; null when there was nothing to do."""

    interaction: Interaction | None


def diff_of(interactions: InteractionStore, item: BacklogItem) -> str:
    """Return the finished change that a person is asked about, "" when there is none."""
    if not item.interaction_id or not item.change_sha256:
        return ""
    response = interactions.get(item.interaction_id).response
    if not isinstance(response, dict):
        return ""
    known = {name: response[name] for name in ImprovementResult.model_fields if name in response}
    candidate = ImprovementResult.model_validate(known).data.candidate
    return "" if candidate is None else candidate.diff_patch or candidate.new_content


def state_of(item: BacklogItem) -> str:
    """Return how an item stands, in one or two words."""
    return f"waits ({item.waits_for.value})" if item.waits_for is not WaitsFor.NOTHING else item.status.value


def print_item(item: BacklogItem, diff: str, as_json: bool) -> None:
    """Print one item, with its finished change if `diff` is not ""."""
    if as_json:
        print_json(render_json(ItemDocument(item=item, diff=diff).model_dump(mode="json")))
        return
    click.echo(f"{item.item_id}  {state_of(item)}  priority {item.priority}  {escape_line(item.target_component_path)}")
    click.echo(escape(item.suggestion))
    for word, by in (("approved", item.approved_by), ("change approved", item.change_approved_by)):
        if by:
            click.echo(f"{word} by {escape_line(by)}")
    if item.rejected_by:
        click.echo(f"rejected by {escape_line(item.rejected_by)}: {escape(item.rejection_reason)}")
    if item.sia_error:
        click.echo(f"failed: {escape(item.sia_error)}")
    if diff:
        click.echo(escape(diff))


def print_items(items: tuple[BacklogItem, ...], as_json: bool) -> None:
    """Print the list."""
    if as_json:
        print_json(render_json(BacklogDocument(items=items).model_dump(mode="json")))
        return
    rows = [
        {
            "item": escape_line(item.item_id),
            "priority": str(item.priority),
            "state": state_of(item),
            "path": escape_line(item.target_component_path),
            "suggestion": shortened(escape_line(item.suggestion)),
        }
        for item in items
    ]
    print_columns(rows, gives_way=("priority", "path", "state"), prose="suggestion", right=("priority",))
    if not items:
        note("the backlog has nothing open")


def print_end(ended: Interaction, as_json: bool) -> int:
    """Print how an Interaction ended and return the exit code."""
    if as_json:
        print_json(render_json(InteractionDocument(interaction=ended).model_dump(mode="json")))
    elif ended.ok:
        click.echo(f"{ended.interaction_id}  {ended.status.value}")
    return exit_code_of(ended)


def exit_code_of(ended: Interaction) -> int:
    """Say what went wrong and return the exit code: 5 when a person is asked again."""
    if ended.ok:
        return 0
    if ended.status is InteractionStatus.PENDING_APPROVAL:
        note(escape(ended.history[-1].message))
        return PARTIAL
    say(ended.error.message if ended.error is not None else ended.history[-1].message)
    return 1 if ended.error is None else ended.error.exit_code
