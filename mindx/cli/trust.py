"""`mindx trust`: vouch for a project's own policy file."""

from __future__ import annotations

from pathlib import Path

import click

from mindx.cli.escape import escape_line
from mindx.policy.layers import PROJECT_FILE, distrust, trust


@click.command(name="trust", epilog="\b\nExamples:\n  mindx trust .\n  mindx trust --forget .")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--forget", is_flag=True, help="Trust it no longer.")
def command(folder: Path, forget: bool) -> None:
    """Trust DIR's .mindx/policy.yaml as it is now: it may then allow commands and choose the image.

    Read the file first. When its content changes, it is trusted no longer, and only tightens again.
    """
    if forget:
        known = distrust(folder)
        click.echo(escape_line(f"{folder} is trusted no longer." if known else f"{folder} was not trusted."))
        return
    digest = trust(folder)
    click.echo(escape_line(f"{folder / PROJECT_FILE} is trusted while its content is sha256:{digest}."))
