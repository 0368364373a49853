"""`mindx task`: work that outlives a process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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
    model_option,
    print_answer,
    provider_of,
    reasoner_of,
    script_option,
    tell_changes,
)
from mindx.cli.approve_action import answer_at_terminal, ask_at_terminal
from mindx.cli.columns import print_columns
from mindx.cli.errors import INTERRUPTED, say
from mindx.cli.escape import escape_line, shortened
from mindx.cli.interrupt import run_async
from mindx.cli.options import json_option, policy_option, workspace_option
from mindx.cli.prose import note, print_json
from mindx.cli.store import run_store
from mindx.cli.verbosity import remark, verbosity_options
from mindx.core.agent_event import AgentEvent
from mindx.core.agent_result import AgentResult
from mindx.core.agent_session import SessionEvent
from mindx.core.count import counted
from mindx.core.document import SCHEMA_VERSION, render_json
from mindx.core.folders import state_dir
from mindx.runtime.run_ids import new_id
from mindx.runtime.tasks.coordinator import TaskCoordinator
from mindx.runtime.tasks.ledger import LocalTaskLedgerStore, TaskLedger
from mindx.runtime.tasks.memory import LocalTaskMemoryStore
from mindx.settings import effective_policy
from mindx.tools.builtin.memory_read import MemoryReadTool

Work = Callable[[TaskCoordinator], Awaitable[AgentResult]]
EPILOG = """\b
Examples:
  mindx task run "port it to Python 3.12" --workspace . --id port
  mindx task resume port
  mindx task list
"""


@click.group(name="task", epilog=EPILOG)
def command() -> None:
    """Run, resume and list tasks: work that outlives a process."""


@command.command(name="run", epilog='\b\nExample:\n  mindx task run "port it to Python 3.12" --workspace . --id port')
@click.argument("objective")
@click.option("--id", "task_id", metavar="ID", default="", help="The task's id; without it one is made.")
@workspace_option
@policy_option
@model_option
@max_steps_option
@script_option
@verbosity_options
def run_task(
    objective: str,
    task_id: str,
    workspace: Path | None,
    policy: str | None,
    model: str,
    max_steps: int,
    script: Path | None,
) -> int:
    """Begin a task with an OBJECTIVE."""
    name = task_id or new_id("task")

    def begin(task: TaskCoordinator) -> Awaitable[AgentResult]:
        remark(f"task {escape_line(name)}")  # not before there is one: without a model nothing is begun
        return task.run(objective)

    return _work(name, workspace, policy, model, max_steps, script, begin)


@command.command(name="resume", epilog="\b\nExample:\n  mindx task resume port")
@click.argument("task_id", metavar="ID")
@policy_option
@model_option
@max_steps_option
@script_option
@verbosity_options
def resume(task_id: str, policy: str | None, model: str, max_steps: int, script: Path | None) -> int:
    """Take up task ID in a new run, which is told how the latest one stood."""
    ledger = _ledgers().get(task_id)
    workspace = None if ledger.workspace is None else Path(ledger.workspace)
    return _work(task_id, workspace, policy, model, max_steps, script, lambda task: task.resume())


@command.command(name="list", epilog="\b\nExample:\n  mindx task list --json")
@json_option
def list_tasks(as_json: bool) -> None:
    """List the tasks, the latest first."""
    ledgers = _ledgers().list()
    if as_json:
        document = {"schema_version": SCHEMA_VERSION, "tasks": [_row(ledger) for ledger in ledgers]}
        print_json(render_json(document))
        return
    if not ledgers:
        note("no task yet; `mindx task run OBJECTIVE` begins one")
    rows = [
        {
            "task": escape_line(ledger.task_id),
            "state": ledger.status.value,
            "runs": counted(ledger.run_count, "run"),
            "objective": shortened(escape_line(ledger.objective)),
        }
        for ledger in ledgers
    ]
    print_columns(rows, gives_way=("runs", "state"), prose="objective", right=("runs",))


def _work(
    task_id: str,
    workspace: Path | None,
    policy: str | None,
    model: str,
    max_steps: int,
    script: Path | None,
    do: Work,
) -> int:
    ledgers = _ledgers()
    memory = LocalTaskMemoryStore(ledgers.path(task_id))
    loaded = effective_policy(policy, None, workspace)
    asks = at_terminal()
    tools = workspace_tools(loaded).with_tools(MemoryReadTool(memory))
    work = AgentWork(
        reasoner_of(provider_of(script, model), tools, model),
        tools,
        loaded,
        run_store(),
        workspace=workspace,
        config=limits_of(loaded, max_steps, asks=asks),
        approval_handler=ask_at_terminal if asks else None,
        on_event=AgentPrinter(),
        on_question=answer_at_terminal if asks else None,
        state_dir=state_dir(),
        session_id=f"task-{task_id}",
    )

    async def on_event(event: SessionEvent) -> None:
        told = event.payload.get("event")
        if isinstance(told, AgentEvent):
            await work.answer(told)

    async def run() -> AgentResult:
        async with work:
            result = await do(TaskCoordinator(work.session, ledgers, memory, task_id, on_event=on_event))
            work.take(result)
            return result

    try:
        result = run_async(run)
    except KeyboardInterrupt:
        tell_changes(work)
        remark(f"`mindx task resume {task_id}` takes it up again")
        return INTERRUPTED
    if result.final_answer:
        print_answer(result.final_answer)
    if result.error is not None:
        say(result.error)
    tell_changes(work)
    if not result.ok:
        remark(f"`mindx task resume {task_id}` takes it up again")
    return exit_code_of(result)


def _ledgers() -> LocalTaskLedgerStore:
    return LocalTaskLedgerStore(state_dir() / "tasks")


def _row(ledger: TaskLedger) -> dict[str, Any]:
    return {
        "task_id": ledger.task_id,
        "objective": ledger.objective,
        "workspace": ledger.workspace,
        "status": ledger.status.value,
        "runs": ledger.run_count,
        "created_at": ledger.created_at,
    }
