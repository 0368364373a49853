"""`mindx schema`: the JSON Schema of each document that the command line prints."""

from __future__ import annotations

import click

from mindx.cli.prose import print_json
from mindx.core.document import render_json
from mindx.core.nearest import did_you_mean
from mindx.errors import InputError


@click.command(name="schema", epilog="\b\nExamples:\n  mindx schema\n  mindx schema run > run.schema.json")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Print the JSON Schema NAME, or the list of names. Readers pass over keys that they do not know."""
    from mindx.cli.schemas import SCHEMAS, schema

    if name is None:
        width = max(map(len, SCHEMAS))
        for known, (commands, _) in SCHEMAS.items():
            click.echo(f"{known:<{width}} {commands}")
        return
    if name not in SCHEMAS:
        hint = did_you_mean(name, SCHEMAS) or "`mindx schema` lists them"
        raise InputError("schema_unknown", f"there is no schema {name[:60]!r}; {hint}")
    print_json(render_json(schema(name)))
