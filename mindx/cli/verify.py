"""`mindx verify`: does the wall hold on this engine?"""

from __future__ import annotations

import asyncio

import click

from mindx.cli.escape import escape_line
from mindx.cli.options import json_option, policy_option
from mindx.cli.prose import hanging, print_json
from mindx.core.count import counted
from mindx.core.document import SCHEMA_VERSION, render_json


@click.command(name="verify", epilog="\b\nExamples:\n  mindx verify\n  mindx verify --policy ci-eval --json")
@policy_option
@json_option
def command(policy: str | None, as_json: bool) -> None:
    """Attack a container of this engine and say whether every promise of SECURITY.md holds.

    Takes up to a minute, and touches nothing but its own containers. Exit code 0 only when all hold, 1 when one does
    not, 4 without an engine.
    """
    from mindx.runtime.sandboxes import container_settings
    from mindx.sandbox.probe import Finding
    from mindx.sandbox.verify import verify
    from mindx.settings import effective_policy

    loaded = effective_policy(policy)

    def tell(finding: Finding) -> None:
        mark = "ok  " if finding.passed else "FAIL"
        told = escape_line(f"{finding.promise}: {finding.happened}")
        click.echo(f"{mark} {finding.probe_id:<15} {hanging(told, 21)}")

    def progress(line: str) -> None:
        click.echo(escape_line(line), err=True)

    found = asyncio.run(verify(container_settings(loaded), None if as_json else tell, progress=progress))
    failed = [finding.probe_id for finding in found.findings if not finding.passed]
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "holds": found.holds,
            "duration_s": round(found.duration_s, 3),
            "policy": {"name": loaded.name, "sha256": loaded.sha256},
            "probes": [
                {
                    "id": finding.probe_id,
                    "promise": finding.promise,
                    "tried": finding.tried,
                    "happened": finding.happened,
                    "pass": finding.passed,
                }
                for finding in found.findings
            ],
        }
        print_json(render_json(document))
    elif found.holds:
        click.echo(f"every promise holds: {len(found.findings)} ({found.duration_s:.0f} s)")
    else:
        click.echo(f"{len(failed)} of {counted(len(found.findings), 'promise')} broken: {', '.join(failed)}")
    if not found.holds:
        raise SystemExit(1)
