"""`mindx beliefs`: what the agents of this user believe."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import click

from mindx.cli.columns import print_columns
from mindx.cli.escape import escape, escape_line, shortened
from mindx.cli.options import json_option
from mindx.cli.prose import note, print_json
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.folders import mind_dir
from mindx.core.nearest import did_you_mean
from mindx.core.quote import quoted
from mindx.errors import InputError

if TYPE_CHECKING:
    from mindx.agents.beliefs import Belief, BeliefSystem

EPILOG = """\b
Examples:
  mindx beliefs list --namespace bdi.agent --min-confidence 0.5
  mindx beliefs show colour --namespace bdi.agent
"""
SOURCES = (
    "perception",
    "communication",
    "inference",
    "self_analysis",
    "external_input",
    "default",
    "learned",
    "derived",
)
namespace_option = click.option("--namespace", metavar="NAME", help="Only those of this namespace (bdi.agent, ...).")


@click.group(name="beliefs", epilog=EPILOG)
def command() -> None:
    """List and show what agents believe; it outlives them."""


@command.command(name="list", epilog="\b\nExample:\n  mindx beliefs list colour --source inference --json")
@click.argument("text", required=False, default="")
@namespace_option
@click.option("--min-confidence", metavar="C", type=click.FloatRange(0, 1), default=0.0, help="Only those at least C.")
@click.option("--source", type=click.Choice(SOURCES), help="Only those from this source.")
@click.option("--limit", metavar="N", type=click.IntRange(1), default=200, show_default=True, help="At most N.")
@json_option
def list_beliefs(
    text: str, namespace: str | None, min_confidence: float, source: str | None, limit: int, as_json: bool
) -> None:
    """List beliefs whose key holds TEXT, by namespace and key."""
    from mindx.agents.beliefs import BeliefSource

    wanted = None if source is None else BeliefSource(source)
    found: tuple[Belief, ...] = ()
    system = _store()
    if system is not None:
        with system:
            found = system.query(
                text, namespace=namespace, min_confidence=min_confidence, source=wanted, limit=limit + 1
            )
    more, found = len(found) > limit, found[:limit]
    if as_json:
        rows = [belief.to_dict() for belief in found]
        print_json(render_json({"schema_version": SCHEMA_VERSION, "beliefs": rows, "more": more}))
        return
    lines = [
        {
            "name": escape_line(f"{belief.namespace}/{belief.key}", ci=False),
            "confidence": f"{belief.confidence:.2f}",
            "source": belief.source.value,
            "value": shortened(escape_line(json.dumps(belief.value, ensure_ascii=False), ci=False)),
        }
        for belief in found
    ]
    print_columns(lines, gives_way=("source", "confidence"), prose="value")
    if not found:
        asked = text or namespace or min_confidence or source
        note("no belief fits that" if asked else "nothing is believed yet; `mindx agent GOAL` makes beliefs")
    if more:
        note(f"there are more than {limit}; see --limit")


@command.command(name="show", epilog="\b\nExample:\n  mindx beliefs show colour --namespace bdi.agent --json")
@click.argument("key")
@namespace_option
@json_option
def show(key: str, namespace: str | None, as_json: bool) -> None:
    """Show all that is known of the belief KEY; without --namespace it must be in one alone."""
    belief = _the_one(key, namespace)
    if as_json:
        print_json(render_json({"schema_version": SCHEMA_VERSION, "belief": belief.to_dict()}))
        return
    for name, value in belief.to_dict().items():
        if name in ("created", "updated"):
            shown = f"{datetime.fromtimestamp(float(value), timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
        else:
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        click.echo(f"{name}: {escape(shown)}")


def _the_one(key: str, namespace: str | None) -> Belief:
    system = _store()
    found: list[Belief] = []
    near = ""
    if system is not None:
        with system:
            found = [item for item in system.query(key, namespace=namespace) if item.key == key]
            if not found:
                near = did_you_mean(key, [item.key for item in system.query(namespace=namespace, limit=2000)])
    if not found:
        todo = near or "`mindx beliefs list` shows what is"
        raise InputError("belief_unknown", f"nothing is believed under {quoted(key)}; {todo}")
    if len(found) > 1:
        names = ", ".join(item.namespace or '""' for item in found[:5])
        raise InputError("belief_ambiguous", f"{quoted(key)} is believed in {names}; name one with --namespace")
    return found[0]


def _store() -> BeliefSystem | None:
    """Return the user's beliefs, None when there are none yet: to look makes no file."""
    from mindx.agents.beliefs.system import BELIEFS_FILE, BeliefSystem

    path = mind_dir() / BELIEFS_FILE
    return BeliefSystem(path) if path.exists() else None
