"""One run of a BDI agent in the runtime, with a container of its own or one that the caller keeps."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindx.agents.bdi.mind import BDIMind
from mindx.agents.bdi.result import BDIResult
from mindx.agents.bdi.status import BDIStatus
from mindx.core.agent_context import AgentContext
from mindx.core.agent_event import AgentEvent, AgentEventType
from mindx.core.agent_result import AgentResult
from mindx.core.agent_session import SessionEnvironment, SessionPolicy
from mindx.core.checkpoint import RunOutcome, TaskState
from mindx.core.message import ChatMessage
from mindx.core.protocols import Asker, EventHandler, HumanApprovalHandler
from mindx.core.run_config import RunConfig
from mindx.errors import InputError
from mindx.policy.load import LoadedPolicy
from mindx.runtime.agent_runtime import AgentRuntime
from mindx.runtime.lazy_sandbox import LazySandbox
from mindx.runtime.loop import NO_ANSWER
from mindx.runtime.run_ids import new_id
from mindx.runtime.session import Session
from mindx.tools.executor import ToolExecutor

if TYPE_CHECKING:
    from mindx.agents.bdi.agent import BDIAgent

STEP_TIMEOUT_S, ACTION_TIMEOUT_S = 600.0, 660.0


async def run_agent(
    agent: BDIAgent,
    mind: BDIMind,
    *,
    policy: LoadedPolicy | None = None,
    workspace: Path | None = None,
    box: LazySandbox | None = None,
    approval_handler: HumanApprovalHandler | None = None,
    on_question: Asker | None = None,
    event_handler: EventHandler | None = None,
    config: RunConfig | None = None,
    session_policy: SessionPolicy | None = None,
    metadata: Mapping[str, Any] | None = None,
    run_id: str | None = None,
) -> BDIResult:
    """Pursue the agent's open goals and return how that ended.

    `policy` is the operator's (None: the preset `default`), `workspace` the folder that is copied in. `box` is a
    container that others use too: it is not closed here, and what earlier plans changed in it is still there. Without
    `approval_handler` what needs a person's yes is refused; without `on_question` (which returns a person's answer, or
    None for none) the agent's questions have no answer. `config` None takes limits that fit the agent's budget.
    When the caller is cancelled the run is too.
    """
    asks = approval_handler is not None
    limits = config or limits_for(agent, asks=asks, answers=on_question is not None)
    environment = SessionEnvironment(workspace_root=workspace)
    own = box is None
    used = box or LazySandbox(lambda: Session(policy, workspace))
    mind.same_container = box is not None and mind.last_box is box and used.opened == mind.last_opened
    allowed = session_policy or SessionPolicy(allow_dangerous=asks)
    name = run_id or new_id("run")
    text = agent.goal.text if agent.goal is not None else "pursue the goals"
    context = AgentContext(
        run_id=name,
        task=text,
        task_state=TaskState(text),
        config=limits,
        policy=allowed,
        environment=environment,
        messages=[ChatMessage.user(text)],
        metadata=dict(metadata or {}),
        open_sandbox=used.open,
        operator_engine=used.engine,
    )
    runtime = AgentRuntime(
        agent,
        ToolExecutor(agent.registry),
        approval_handler=None if approval_handler is None else agent.timed(approval_handler),
        event_handler=event_handler,
    )
    answering = None if on_question is None else Answering(runtime, on_question)
    async with runtime:
        try:
            result = await runtime.run_in(context, answering)
        except asyncio.CancelledError:
            mind.end(BDIStatus.CANCELLED, "the run was cancelled")
            raise
        finally:
            mind.last_box, mind.last_opened = used, used.opened
            if answering is not None:
                await answering.close()
            if own:
                await used.close()
    return result_of(agent, mind, result)


class Answering:
    """Has the questions of a run answered, while its events go on."""

    def __init__(self, runtime: AgentRuntime, on_question: Asker) -> None:
        self._runtime = runtime
        self._on_question = on_question
        self._task: asyncio.Task[None] | None = None

    def __call__(self, event: AgentEvent) -> None:
        """Take an event."""
        if event.event_type is AgentEventType.USER_INPUT_REQUESTED:
            self._task = asyncio.create_task(self._answer(event.run_id, str(event.payload["question"])))

    async def close(self) -> None:
        """End what is still being asked. Raises nothing of what asking raised."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _answer(self, run_id: str, question: str) -> None:
        answer = NO_ANSWER
        try:
            answer = (await self._on_question(question) or "").strip() or NO_ANSWER
        finally:
            with suppress(InputError):  # the run has ended meanwhile
                self._runtime.respond_to_user(run_id, answer)


def limits_for(agent: BDIAgent, *, asks: bool, answers: bool = False) -> RunConfig:
    """Return limits that leave the agent's budget to end a run; infinity where it has none.

    `asks` says whether somebody says yes to what needs it, `answers` whether somebody answers questions.
    """
    budget = agent.budget
    total = math.inf if budget.seconds is None else max(1.0, budget.seconds)
    steps = 1_000_000 if budget.cycles is None else budget.cycles + 1
    return RunConfig(
        steps,
        min(STEP_TIMEOUT_S, total),
        total,
        action_timeout_s=min(ACTION_TIMEOUT_S, total),
        batch_timeout_s=total,
        allow_dangerous=asks,
        interactive=answers,
    )


def result_of(agent: BDIAgent, mind: BDIMind, run: AgentResult) -> BDIResult:
    """Return what a run came to in the agent's words."""
    mind.settle(run.observations)
    if not agent.status.terminal:  # it ended outside of the mind: in an action, or by the loop's own limits
        ends = {RunOutcome.CANCELLED: BDIStatus.CANCELLED, RunOutcome.PARTIAL: BDIStatus.TIMED_OUT}
        mind.end(ends.get(run.outcome, BDIStatus.FAILED_UNRECOVERABLE), run.error or "")
    goal = agent.goal or (agent.goals[-1] if agent.goals else None)
    notes = mind.notes
    return BDIResult(
        status=agent.status,
        goal_id="" if goal is None else goal.goal_id,
        plan_ids=tuple(notes.plan_ids),
        cycles=notes.cycles,
        message=run.final_answer if run.ok else run.error or "",
        results=dict(notes.results),
        usage=dict(notes.usage),
        run_id=run.run_id,
        run=run,
    )
