"""`mindx trust`: vouch for a project's own policy and settings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from mindx.cli.escape import escape_line
from mindx.policy.layers import PROJECT_FILE, distrust, trust
from mindx.project_file import NAME, policy_path, read_project_file, trust_project_file


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
        digest = trust_project_file(project)
        found = read_project_file(project)
        policy = policy_path(found.wishes, project)
        _tell(project, digest, [*([str(found.wishes.policy)] if policy is not None else []), *found.files])


def _tell(path: Path, digest: str, beside: Sequence[str] = ()) -> None:
    """Say what is trusted: the file, and what else of the project the digest is about."""
    names = f"{path} with {', '.join(beside)} is" if beside else f"{path} is"
    whose = "their" if beside else "its"
    click.echo(escape_line(f"{names} trusted while {whose} content is sha256:{digest}."))
