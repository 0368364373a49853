"""`mindx gc`: what a killed mindx left behind."""

from __future__ import annotations

import dataclasses

import click

from mindx.cli.escape import escape_line
from mindx.cli.options import json_option
from mindx.cli.prose import print_json
from mindx.core.document import SCHEMA_VERSION, render_json


@click.command(name="gc", epilog="\b\nExamples:\n  mindx gc --dry-run\n  mindx gc")
@click.option("--dry-run", is_flag=True, help="Only list what would be removed.")
@json_option
def command(dry_run: bool, as_json: bool) -> None:
    """Remove containers of mindx whose owner has died, in any state; never one of anybody else.

    Temporary folders and containers of image builds that were killed go too. The next session that starts does the
    same by itself.
    """
    from mindx.sandbox.engine import connect
    from mindx.sandbox.gc import collect, find_leftovers

    client = connect()
    try:
        found = find_leftovers(client)
        removed = [] if dry_run else collect(client, found)
    finally:
        client.close()
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "dry_run": dry_run,
            "found": [dataclasses.asdict(leftover) for leftover in found],
            "removed": [leftover.key for leftover in removed],
        }
        print_json(render_json(document))
        return
    for leftover in found:
        done = "to be removed" if dry_run else "removed" if leftover in removed else "could not be removed"
        click.echo(escape_line(f"{leftover.name} ({leftover.state}): {done}"))
    if not found:
        click.echo("nothing to remove")
