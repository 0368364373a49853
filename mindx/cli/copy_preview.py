"""What of a folder goes into the container, and what stays out and why."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from mindx.cli.escape import escape_line
from mindx.cli.prose import note, print_json
from mindx.core.count import counted
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.output import plain_text
from mindx.policy.globs import gitignore
from mindx.policy.model import Policy
from mindx.workspace.copy_in import format_bytes, plan_copy
from mindx.workspace.select import Omitted

MAX_TOLD = 5


def secrets_among(omitted: Iterable[Omitted], policy: Policy) -> list[str]:
    """Return the paths that stayed out because they look like secrets (workspace.secrets of the policy)."""
    spec = gitignore(policy.workspace.secrets)
    return [item.path for item in omitted if spec.match_file(item.path) or spec.match_file(f"{item.path}/")]


def tell_secrets(omitted: Iterable[Omitted], policy: Policy) -> None:
    """Say on stderr which files that look like secrets stayed out; nothing when there are none."""
    found = secrets_among(omitted, policy)
    if found:
        more = f" and {len(found) - MAX_TOLD} more" if len(found) > MAX_TOLD else ""
        names = ", ".join(escape_line(plain_text(path)) for path in found[:MAX_TOLD])
        note(f"not copied in, since they look like secrets: {names}{more} (workspace.secrets of the policy)")


def show_copy(folder: Path, policy: Policy, as_json: bool) -> None:
    """Print what would be copied in, and by which rules; nothing is copied. Raises WorkspaceError."""
    limits = policy.limits
    rules = policy.workspace
    with plan_copy(
        folder, max_bytes=limits.workspace_bytes, max_entries=limits.workspace_inodes, patterns=rules.patterns
    ) as copy:
        chosen = copy.selection
        secrets = secrets_among(chosen.omitted, policy)
        if as_json:
            document = {
                "schema_version": SCHEMA_VERSION,
                "folder": plain_text(str(folder)),
                "entries": [
                    {"path": plain_text(one.path), "kind": one.kind, "size": one.size} for one in chosen.entries
                ],
                "content_bytes": chosen.content_bytes,
                "omitted": [{"path": plain_text(one.path), "reason": one.reason} for one in chosen.omitted],
                "omitted_count": chosen.omitted_count,
                "secrets": [plain_text(path) for path in secrets],
                "exclude": list(rules.patterns),
            }
            print_json(render_json(document))
            return
        for one in chosen.entries:
            if one.kind != "directory":
                size = format_bytes(one.size) if one.kind == "file" else "link"
                click.echo(f"  {escape_line(plain_text(one.path))}  {size}")
        for left in chosen.omitted:
            reason = "looks like a secret" if left.path in secrets else left.reason
            click.echo(f"- {escape_line(plain_text(left.path))}  ({reason})")
        if rules.patterns:
            click.echo(escape_line(f"Rules of the policy, after the folder's .gitignore: {', '.join(rules.patterns)}"))
        files = counted(sum(one.kind == "file" for one in chosen.entries), "file")
        click.echo(f"{files}, {format_bytes(chosen.content_bytes)} would go in; {chosen.omitted_count} stay out")
