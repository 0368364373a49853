"""`mindx doctor`: can a run work on this machine, and what to do if not."""

from __future__ import annotations

import dataclasses
import sys

import click

from mindx.cli.escape import escape_line
from mindx.cli.options import json_option, policy_option
from mindx.cli.prose import hanging, print_json, styled
from mindx.core.document import SCHEMA_VERSION, render_json

_COLOURS = {"ok": "green", "note": "cyan", "warn": "yellow", "fail": "red"}


@click.command(name="doctor", epilog="\b\nExamples:\n  mindx doctor\n  mindx doctor --json | jq .next")
@policy_option
@json_option
def command(policy: str | None, as_json: bool) -> None:
    """Look at the engine and at all that a run needs, and say what to type next; nothing is changed.

    Exit code 0 when a run can work, 4 when not.
    """
    from mindx.sandbox.doctor import examine
    from mindx.settings import policy_in_force, read_settings

    diagnosis = examine(policy_in_force(read_settings(policy)).loaded.policy.image)
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "works": diagnosis.works,
            "next": diagnosis.next_command,
            "checks": [dataclasses.asdict(check) for check in diagnosis.checks],
        }
        print_json(render_json(document))
    else:
        for check in diagnosis.checks:
            mark = styled(f"{check.state:<4}", _COLOURS[check.state], sys.stdout)
            click.echo(f"{mark} {check.check_id:<16} {hanging(escape_line(check.found), 22)}")
            if check.advice and check.state != "ok":
                click.echo(f"{'':21} {hanging(escape_line(check.advice), 22)}")
            if check.command and check.state in ("warn", "fail"):
                click.echo(f"{'':21} $ {escape_line(check.command)}")
        click.echo("A run can work here." if diagnosis.works else "No run can work here yet.")
        click.echo(f"Next: {escape_line(diagnosis.next_command)}")
    if not diagnosis.works:
        raise SystemExit(4)
