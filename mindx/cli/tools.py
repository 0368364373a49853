"""`mindx tools`: the tools that the society has made for itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import click
from pydantic import BaseModel, ConfigDict

from mindx.agents.constitution import Constitution, Layer
from mindx.agents.official_tools import OfficialToolsRegistry
from mindx.cli.columns import print_columns
from mindx.cli.escape import escape, escape_line, shortened
from mindx.cli.interrupt import run_async
from mindx.cli.options import json_option, policy_option, workspace_option
from mindx.cli.prose import note, print_json
from mindx.cli.verbosity import StartLine, verbosity_options
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.folders import mind_dir
from mindx.core.strict_json import read_json
from mindx.errors import InputError
from mindx.tools.container_entry import ToolEntry

EPILOG = """\b
Examples:
  mindx tools list
  mindx tools show word_count --code
  mindx tools test word_count --arguments '{"text": "a b"}'
  mindx tools deprecate word_count --reason "it counts wrong"
"""


class ToolDocument(BaseModel):
    """What `tools show --json` and `tools deprecate --json` print; `code` is null unless it was asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    revision: int
    entry: ToolEntry
    code: str | None = None


@click.group(name="tools", epilog=EPILOG)
def command() -> None:
    """List, show, test and deprecate the tools that campaigns have made."""


@command.command(name="list", epilog="\b\nExample:\n  mindx tools list --json")
@click.option("--all", "every", is_flag=True, help="Also those that no agent is given any more.")
@json_option
def list_tools(every: bool, as_json: bool) -> None:
    """List the registered tools."""
    registry = _registry()
    entries = [entry for entry in registry.entries() if every or entry.usable]
    if as_json:
        rows = [_row(entry) for entry in entries]
        print_json(render_json({"schema_version": SCHEMA_VERSION, "revision": registry.revision, "tools": rows}))
        return
    lines = [
        {
            "tool": escape_line(entry.id),
            "version": escape_line(entry.version),
            "state": _state(entry),
            "description": shortened(escape_line(entry.description)),
        }
        for entry in entries
    ]
    print_columns(lines, gives_way=("version", "state"), prose="description")
    if not entries and registry.entries():
        note("no tool is in use; --all lists those that were deprecated too")
    elif not entries:
        note("no tool is registered; a campaign makes them: see `mindx campaign --help`")


@command.command(name="show", epilog="\b\nExample:\n  mindx tools show word_count --code")
@click.argument("tool_id", metavar="TOOL")
@click.option("--code", is_flag=True, help="Show its code too.")
@json_option
def show_tool(tool_id: str, code: bool, as_json: bool) -> None:
    """Show what is registered of a TOOL."""
    registry = _registry()
    entry = registry.entry(tool_id)
    source = registry.source(tool_id).decode("utf-8") if code else None
    if as_json:
        _print_document(registry, entry, source)
        return
    click.echo(f"{entry.id} {entry.version} ({_state(entry)}), made by {escape_line(entry.added_by)}")
    click.echo(escape(entry.description))
    for item in entry.capabilities:
        schema = escape_line(json.dumps(item.input_schema))
        click.echo(f"\n{item.name}: {escape_line(item.description)}\n  arguments {schema}")
        click.echo(f"  answer    {escape_line(json.dumps(item.output_schema))}")
    click.echo(f"\nruns in a container; {entry.module_path}, sha256 {entry.sha256}")
    if entry.deprecation_reason:
        click.echo(f"deprecated: {escape_line(entry.deprecation_reason)}")
    if source is not None:
        click.echo("\n" + escape(source).rstrip("\n"))


@command.command(name="test", epilog='\b\nExample:\n  mindx tools test word_count --arguments \'{"text": "a b"}\'')
@click.argument("tool_id", metavar="TOOL")
@click.option("--arguments", metavar="JSON", help="Make this one call instead of the tool's own examples.")
@click.option("--capability", metavar="NAME", default="", help="Which of its capabilities; without it all of them.")
@workspace_option
@policy_option
@verbosity_options
@json_option
def test_tool(
    tool_id: str, arguments: str | None, capability: str, workspace: Path | None, policy: str | None, as_json: bool
) -> int:
    """Call a TOOL in a fresh container, with its examples or with your arguments."""
    from mindx.agents.tool_check import TrialReport, trials_of, try_tool
    from mindx.runtime.session import Session
    from mindx.settings import effective_policy

    registry = _registry()
    entry = registry.entry(tool_id)
    trials = trials_of(entry, capability, None if arguments is None else _arguments(arguments))
    registry.source(tool_id)  # what was altered is told before a container starts
    loaded = effective_policy(policy, None, workspace)

    async def run() -> list[TrialReport]:
        session = Session(loaded, workspace)
        try:
            with StartLine() as line:
                await session.open(line)
            return await try_tool(registry, entry, trials, session)
        finally:
            await session.close()

    reports = run_async(run)
    ok = all(report.ok for report in reports)
    if as_json:
        calls = [
            {
                "capability": report.trial.capability,
                "arguments": dict(report.trial.arguments),
                "ok": report.ok,
                "answer": report.answer,
                "message": report.message,
                "duration_s": round(report.duration_s, 6),
            }
            for report in reports
        ]
        made = {"tool_id": entry.id, "version": entry.version, "sha256": entry.sha256, "ok": ok, "calls": calls}
        about = {"name": loaded.name, "sha256": loaded.sha256}
        print_json(render_json({"schema_version": SCHEMA_VERSION, **made, "policy": about}))
    else:
        for report in reports:
            shown = escape_line(f"{report.trial.capability}({json.dumps(dict(report.trial.arguments))})")
            answer = escape_line(json.dumps(report.answer)) if report.ok else escape_line(report.message)
            click.echo(f"{'ok  ' if report.ok else 'FAIL'} {shown} -> {answer}")
    return 0 if ok else 1


@command.command(name="deprecate", epilog='\b\nExample:\n  mindx tools deprecate word_count --reason "it counts wrong"')
@click.argument("tool_id", metavar="TOOL")
@click.option("--reason", metavar="TEXT", required=True, help="Why; campaigns read it.")
@json_option
def deprecate(tool_id: str, reason: str, as_json: bool) -> None:
    """Take a TOOL out of use; agents are not given it any more."""
    if not reason.strip():
        raise click.UsageError("the reason is empty")
    registry = _registry()
    entry = registry.deprecate(tool_id, reason.strip()[:2000], by="user")
    if as_json:
        _print_document(registry, entry, None)
    else:
        note(f"{entry.id} {entry.version} is deprecated; its code stays in {registry.folder / entry.module_path}")


def _registry() -> OfficialToolsRegistry:
    """Return the registry; the person at the terminal may do what the Mastermind may."""
    rules = Constitution.of(mind_dir())
    return OfficialToolsRegistry(mind_dir(), constitution=rules, layer=Layer.MASTERMIND, by_person=True)


def _arguments(text: str) -> Mapping[str, Any]:
    document = read_json(text)
    if document.problem or not isinstance(document.value, dict):
        reason = document.problem or "it is another kind of value"
        raise InputError("tool_arguments_invalid", f"--arguments is no JSON object: {reason}")
    return document.value


def _state(entry: ToolEntry) -> str:
    return entry.status.value if entry.enabled else "disabled"


def _row(entry: ToolEntry) -> dict[str, Any]:
    return {
        "tool_id": entry.id,
        "version": entry.version,
        "status": entry.status.value,
        "enabled": entry.enabled,
        "description": entry.description,
        "capabilities": [item.name for item in entry.capabilities],
        "sha256": entry.sha256,
        "added_by": entry.added_by,
        "updated_at": entry.updated_at,
    }


def _print_document(registry: OfficialToolsRegistry, entry: ToolEntry, source: str | None) -> None:
    document = ToolDocument(revision=registry.revision, entry=entry, code=source)
    print_json(render_json(document.model_dump(mode="json")))
