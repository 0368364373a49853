"""A plan in a session that is open: vetted whole, then done by the one loop, in the session's own container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mindx.core.agent_context import AgentContext
from mindx.core.checkpoint import TaskState
from mindx.core.fault import Fault
from mindx.core.observation import Observation, Status
from mindx.runtime.actions import PlanActions
from mindx.runtime.asking import NotedExecutor
from mindx.runtime.dispatcher import ActionDispatcher
from mindx.runtime.fixed_plan import UNBOUNDED, FixedPlan
from mindx.runtime.loop import LoopParts, ReActLoop
from mindx.runtime.policy_engine import AllowAll
from mindx.runtime.vetting import refusal_of, tools_for, vet_source

if TYPE_CHECKING:
    from mindx.core.run import Outcome
    from mindx.runtime.session import Session


@dataclass(frozen=True, slots=True)
class PlanResult:
    """What became of a plan. `observations` has one for each action, in order; those not reached are SKIPPED.

    A plan that may not run (`invalid`, `denied`) has none, and `faults` say why; otherwise `faults` are warnings.
    """

    outcome: Outcome
    observations: tuple[Observation, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def completed(self) -> bool:
        """True when every action succeeded."""
        return self.outcome.value == "completed"


async def run_plan(session: Session, source: bytes, states: dict[str, Any], *, keep_going: bool) -> PlanResult:
    """Run a plan's text in an open session; `states` is what its tools start from, and what they leave.

    Raises SandboxError; the plan's own failures are in the result.
    """
    from mindx.core.run import Outcome, outcome_of  # its models are not loaded for a session without plans

    tools, sandbox = tools_for(session.policy.policy.limits), session.sandbox
    asking = session.asking
    _, vetted = vet_source(source, session.engine, tools, may_ask=asking is not None, states=states)
    refusal = refusal_of(vetted)
    if vetted.plan is None or refusal is not None:
        return PlanResult(refusal or Outcome.INVALID, faults=vetted.faults)
    actions = PlanActions(tools, sandbox, autonomous=session.engine.autonomous, states=states)
    dispatcher = ActionDispatcher(actions)
    if asking is not None:
        dispatcher = ActionDispatcher(NotedExecutor(actions, asking), clock=lambda: asking.clock.worked_s)
    context = AgentContext(vetted.plan.plan_id, "", TaskState(""), config=UNBOUNDED)
    parts = LoopParts(FixedPlan(vetted.plan, keep_going=keep_going), dispatcher, AllowAll(), keeps_evidence=False)
    loop = ReActLoop(parts, context)
    await loop.run()
    done = [step.observation for step in loop.steps]
    left = vetted.plan.actions[len(done) :]
    skipped = (Observation(action.action_id, Status.SKIPPED, "not reached") for action in left)
    outcome = outcome_of([one.status for one in done]) if not session.limit_reached else Outcome.PARTIAL
    return PlanResult(outcome, (*done, *skipped), vetted.faults)
