"""`mindx agent`: a goal, a model, and a container in which it works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mindx.agents.agent_work import AgentWork, workspace_tools
from mindx.cli.agent_bdi import (
    STATE_FILE,
    bdi_agent,
    check_open,
    criteria_from,
    criteria_options,
    result_lines,
    state_of,
)
from mindx.cli.agent_parts import (
    STEP_TIMEOUT_S,
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
from mindx.cli.log_trail import log_trail
from mindx.cli.options import json_option, policy_option, workspace_option
from mindx.cli.prose import print_json
from mindx.cli.store import run_store
from mindx.cli.verbosity import remark, verbosity_options
from mindx.core.agent_result import AgentResult
from mindx.core.checkpoint import RunOutcome
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.protocols import HumanApprovalHandler, Reasoner
from mindx.policy.load import LoadedPolicy
from mindx.settings import effective_policy
from mindx.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from mindx.agents.bdi import BDIAgent

PLANNING_TIMEOUT_S = 1800.0  # a plan may be asked for four times, and each may take minutes
EPILOG = """\b
Examples:
  mindx agent "make the tests pass" --workspace . --accept "pytest -q"
  mindx agent "what does app.py do?" --workspace . --policy read-only --json
  mindx agent "say hello" --script turns.jsonl
  mindx agent --resume last

The endpoint is read from MINDX_API_KEY, MINDX_BASE_URL and MINDX_MODELS (or a .env file).
Nothing is written to --workspace: see `mindx changes show last`, then `mindx changes apply last`.
What is dangerous is asked about at a terminal and refused elsewhere.
With the mind `bdi` the goal becomes a plan that is validated before it runs; what fails is planned anew, and
what --accept names must hold in the end. `react` asks the model at each step.

Exit codes: 0 achieved; 1 failed; 2 bad input; 4 sandbox broken; 5 a limit was reached; 6 the model failed.
"""


@click.command(name="agent", epilog=EPILOG)
@click.argument("goal", required=False, default="")
@mind_option
@criteria_options
@click.option("--resume", metavar="RUN", help="Take up the goal of an agent that did not end, with a fresh budget.")
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
    accept: tuple[str, ...],
    accept_file: tuple[str, ...],
    accept_that: tuple[str, ...],
    resume: str | None,
    workspace: Path | None,
    policy: str | None,
    model: str,
    max_steps: int,
    script: Path | None,
    as_json: bool,
) -> int:
    """Give an agent a GOAL and let it work in a container."""
    criteria = criteria_from(accept, accept_file, accept_that)
    if mind == "react" and (criteria or resume):
        raise click.UsageError("--accept and --resume are for --mind bdi")
    if not goal.strip() and not resume:
        raise click.UsageError("the goal is empty")
    state, before = state_of(run_store(), resume) if resume else (None, None)
    workspace = workspace or before
    loaded = effective_policy(policy, None, workspace)
    provider = provider_of(script, model)
    if mind == "react":
        tools = workspace_tools(loaded)
        return _worked(_work(reasoner_of(provider, tools, model), tools, loaded, workspace, max_steps), goal, as_json)
    agent = bdi_agent(provider, loaded, model, max_steps, workspace, state)
    if goal.strip():
        agent.set_goal(goal, criteria)
    elif criteria:
        raise click.UsageError("--accept goes with a goal")
    else:
        check_open(agent)
    agent.renew_budget()
    work = _work(agent, agent.registry, loaded, workspace, max_steps + 1, agent)
    agent.keep_in(work.folder.path / STATE_FILE)
    with log_trail():
        return _worked(work, agent.goal.text if agent.goal else goal, as_json, agent)


def _work(
    reasoner: Reasoner,
    tools: ToolRegistry,
    policy: LoadedPolicy,
    workspace: Path | None,
    max_steps: int,
    agent: BDIAgent | None = None,
) -> AgentWork:
    asks = at_terminal()
    ask: HumanApprovalHandler = ask_at_terminal if agent is None else agent.timed(ask_at_terminal)
    step_s = STEP_TIMEOUT_S if agent is None else PLANNING_TIMEOUT_S
    return AgentWork(
        reasoner,
        tools,
        policy,
        run_store(),
        workspace=workspace,
        config=limits_of(policy, max_steps, asks=asks, step_s=step_s),
        approval_handler=ask if asks else None,
        on_event=AgentPrinter() if agent is None else None,  # the other has its own trail
        on_question=answer_at_terminal if asks else None,
    )


def _worked(work: AgentWork, goal: str, as_json: bool, agent: BDIAgent | None = None) -> int:
    """Let it work; tell how it ended and return the exit code."""

    async def run() -> tuple[AgentResult, dict[str, Any]]:
        async with work:
            result = await work.run(goal)
            # As long as the agent's file is open: how it ended is written there.
            return result, {} if agent is None else result_lines(agent.take(result))

    try:
        result, told = run_async(run)
    except KeyboardInterrupt:
        tell_changes(work)
        if agent is not None:
            remark(f"`mindx agent --resume {work.folder.run_id}` lets it go on")
        return INTERRUPTED
    if as_json:
        print_json(render_json({**_document(work, result), **told}))
    elif result.final_answer:
        print_answer(result.final_answer)
    if result.error is not None:
        say(result.error)
    tell_changes(work)
    if agent is not None and result.outcome is RunOutcome.PARTIAL:
        remark(f"`mindx agent --resume {work.folder.run_id}` lets it go on")
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
