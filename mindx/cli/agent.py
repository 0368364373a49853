"""`mindx agent`: a goal, a model, and a container in which it works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mindx.agents.agent_work import AgentWork, workspace_tools
from mindx.cli.agent_parts import (
    AgentPrinter,
    at_terminal,
    exit_code_of,
    limits_of,
    max_steps_option,
    mind_option,
    model_option,
    print_answer,
    provider_of,
    reasoner_of,
    script_option,
    tell_changes,
)
from mindx.cli.approve_action import answer_at_terminal, ask_at_terminal
from mindx.cli.errors import INTERRUPTED, say
from mindx.cli.interrupt import run_async
from mindx.cli.options import json_option, policy_option, workspace_option
from mindx.cli.prose import print_json
from mindx.cli.store import run_store
from mindx.cli.verbosity import verbosity_options
from mindx.core.agent_result import AgentResult
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.settings import effective_policy

EPILOG = """\b
Examples:
  mindx agent "make the tests pass" --workspace .
  mindx agent "what does app.py do?" --workspace . --policy read-only --json
  mindx agent "say hello" --script turns.jsonl

\b
The endpoint is read from MINDX_API_KEY, MINDX_BASE_URL and MINDX_MODELS (or a .env file).
Nothing is written to --workspace: see `mindx changes show last`, then `mindx changes apply last`.
What is dangerous is asked about at a terminal and refused elsewhere.
Exit codes: 0 answered; 1 failed; 2 bad input; 4 sandbox broken; 5 a limit was reached; 6 the model failed.
"""


@click.command(name="agent", epilog=EPILOG)
@click.argument("goal")
@mind_option
@workspace_option
@policy_option
@model_option
@max_steps_option
@script_option
@verbosity_options
@json_option
def command(
    goal: str,
    mind: str,
    workspace: Path | None,
    policy: str | None,
    model: str,
    max_steps: int,
    script: Path | None,
    as_json: bool,
) -> int:
    """Give an agent a GOAL and let it work in a container."""
    if not goal.strip():
        raise click.UsageError("the goal is empty")
    loaded = effective_policy(policy, None, workspace)
    asks = at_terminal()
    tools = workspace_tools(loaded)
    reasoner = reasoner_of(provider_of(script, model), tools, model)
    work = AgentWork(
        reasoner,
        tools,
        loaded,
        run_store(),
        workspace=workspace,
        config=limits_of(loaded, max_steps, asks=asks),
        approval_handler=ask_at_terminal if asks else None,
        on_event=AgentPrinter(),
        on_question=answer_at_terminal if asks else None,
    )

    async def run() -> AgentResult:
        async with work:
            return await work.run(goal)

    try:
        result = run_async(run)
    except KeyboardInterrupt:
        tell_changes(work)
        return INTERRUPTED
    if as_json:
        print_json(render_json(_document(work, result)))
    elif result.final_answer:
        print_answer(result.final_answer)
    if result.error is not None:
        say(result.error)
    tell_changes(work)
    return exit_code_of(result)


def _document(work: AgentWork, result: AgentResult) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": work.folder.run_id,
        "outcome": result.outcome.value,
        "final_answer": result.final_answer,
        "error": None if result.error_info is None else result.error_info.to_dict(),
        "steps": result.steps,
        "actions": len(result.observations),
        "usage": dict(result.usage),
        "duration_s": round(result.duration_s, 6),
        "changes": [change.model_dump(mode="json") for change in work.changes],
        "trace": str(work.folder.trace_path),
    }
