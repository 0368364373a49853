"""The Reasoner that does what a Plan says."""

from __future__ import annotations

import math
import sys

from mindx.core.action import ActionRequest
from mindx.core.agent_context import AgentContext
from mindx.core.decision import AgentDecision
from mindx.core.frozen import dataclass
from mindx.core.observation import Status
from mindx.core.plan import Action, Plan
from mindx.core.run_config import RunConfig
from mindx.errors import InputError

# A plan has an end, its programs have the policy's deadlines and the session has its own: the loop adds none.
UNBOUNDED = RunConfig(
    max_steps=sys.maxsize,
    step_timeout_s=math.inf,
    total_timeout_s=math.inf,
    action_timeout_s=math.inf,
    batch_timeout_s=math.inf,
    heartbeat_s=0.0,
    interactive=False,
)


@dataclass(frozen=True, slots=True)
class PlanRequest(ActionRequest):
    """The request for one Action of a plan; `name` is the Action's type."""

    action: Action | None = None

    @classmethod
    def of(cls, action: Action) -> PlanRequest:
        """Return the request for an Action."""
        return cls(action.action_id, action.type, action.params, action=action)


def action_of(request: ActionRequest) -> Action:
    """Return the plan's Action behind a request. Raises InputError for a request that no plan made."""
    if isinstance(request, PlanRequest) and request.action is not None:
        return request.action
    raise InputError("action_unplanned", f"{request.action_id} is no action of a plan")


class FixedPlan:
    """Does a Plan action by action. A step that does not succeed ends it, unless `keep_going`."""

    def __init__(self, plan: Plan, *, keep_going: bool = False) -> None:
        self._actions = iter(plan.actions)
        self._keep_going = keep_going

    async def decide(self, context: AgentContext) -> AgentDecision:
        """Return the next action of the plan, or the end."""
        failed = next((seen for seen in context.observations if seen.status is not Status.SUCCESS), None)
        if failed is not None and not self._keep_going:
            return AgentDecision.complete(f"{failed.action_id} ended with {failed.status.value}")
        following = next(self._actions, None)
        if following is None:
            return AgentDecision.complete("the plan is done")
        return AgentDecision.act(PlanRequest.of(following))
