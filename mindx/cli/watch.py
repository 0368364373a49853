"""`mindx watch`: runs as they go on, read from their traces."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import click

from mindx.cli.escape import escape_line, shortened
from mindx.cli.interrupt import run_async
from mindx.cli.prose import styled
from mindx.cli.store import complete_runs, find_run, run_store
from mindx.trace.follow import follow
from mindx.trace.run_folder import RunFolder

EPILOG = """\b
Examples:
  mindx watch
  mindx watch 20260131T120000123-9f3a1c | grep observation

RUN is an id, the start of one, or `last`. Without one all runs that go on are followed, each line marked with the end
of its run's id; if none does, the last one. It ends when they have; Ctrl-C leaves them alone.
"""
_COLOURS = {"run_started": "cyan", "run_finished": "cyan", "observation": "green", "error_created": "red"}
MAX_LINE = 300
MARK_CHARS = 6


@click.command(name="watch", epilog=EPILOG)
@click.argument("run", required=False, shell_complete=complete_runs)
def command(run: str | None) -> int:
    """Follow RUN while it goes on, or all runs that do, one line for each event."""
    going_on = [folder for folder in run_store().runs() if folder.state() == "running"] if run is None else []
    folders = going_on or [find_run(run or "last")]
    run_async(lambda: _watch_all(folders))
    return 0


async def _watch_all(folders: Sequence[RunFolder]) -> None:
    if len(folders) == 1:
        await _watch(folders[0], "")
    else:
        await asyncio.gather(*(_watch(folder, f"{folder.run_id[-MARK_CHARS:]} ") for folder in folders))


async def _watch(folder: RunFolder, mark: str) -> None:
    async for kind, time, data in _events(folder):
        line = escape_line(f"{mark}{time[11:19]} {kind:<20} {told(kind, data)}")
        click.echo(styled(shortened(line, MAX_LINE), _COLOURS.get(kind), sys.stdout))
        sys.stdout.flush()


async def _events(folder: RunFolder) -> AsyncIterator[tuple[str, str, Mapping[str, Any]]]:
    async for event in follow(folder.trace_path):
        yield event.kind, event.time, event.data
        await asyncio.sleep(0)  # a signal is heard between two of many events


def told(kind: str, data: Mapping[str, Any]) -> str:
    """Return what is worth a line of an event; of one that is not known, all of it."""
    payload = data.get("payload")
    step = f"step {data['step']} " if data.get("step") else ""
    if not isinstance(payload, Mapping):
        return " ".join(f"{key}={value!r}" for key, value in data.items())
    if kind == "state_changed":
        return f"{step}{payload.get('from')} -> {payload.get('to')}"
    if kind == "decision_created":
        actions = payload.get("actions") or []
        calls = "; ".join(f"{one.get('name')} {json.dumps(one.get('arguments'))}" for one in actions)
        return f"{step}{payload.get('kind')} {calls or payload.get('text') or ''}"
    if kind == "observation_created":
        return f"{step}{payload.get('action_id')} {payload.get('status')} {payload.get('message') or ''}"
    return f"{step}{json.dumps(dict(payload), default=str)}"
