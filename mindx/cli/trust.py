"""`mindx trust`: vouch for a project's own policy and settings."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mindx.cli.escape import escape_line
from mindx.policy.layers import PROJECT_FILE, distrust, trust
from mindx.project_file import NAME, trust_project_file


@click.command(name="trust", epilog="\b\nExamples:\n  mindx trust .\n  mindx trust --forget .")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--forget", is_flag=True, help="Trust it no longer.")
def command(folder: Path, forget: bool) -> None:
    """Trust DIR's .mindx/policy.yaml and mindx.yaml as they are now: they may then allow commands and choose the image.

    Read the files first. When the content of one changes, it is trusted no longer, and only tightens again.
    """
    project = folder / NAME
    if forget:
        known = distrust(folder) | distrust(project)
        click.echo(escape_line(f"{folder} is trusted no longer." if known else f"{folder} was not trusted."))
        return
    has_settings = os.path.lexists(project)
    if os.path.lexists(folder / PROJECT_FILE) or not has_settings:
        _tell(folder / PROJECT_FILE, trust(folder))
    if has_settings:
        _tell(project, trust_project_file(project))


def _tell(path: Path, digest: str) -> None:
    click.echo(escape_line(f"{path} is trusted while its content is sha256:{digest}."))
