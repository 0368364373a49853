"""The Run of a plan: vetted whole, so that a plan that may not run costs no container."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindx.core.run import FaultRecord, Outcome
from mindx.policy.load import LoadedPolicy
from mindx.runtime.actions import PlanActions
from mindx.runtime.fixed_plan import FixedPlan
from mindx.runtime.run import Run
from mindx.runtime.session import Session
from mindx.runtime.vetting import refusal_of, refused_steps, tools_for, vet_source
from mindx.tools.vet import VettedPlan
from mindx.trace.run_folder import RunStore


class PlanRun(Run):
    """One Run of a plan. `source` is its text as given; `on_vetted` is told what was found before anything starts.

    A step that does not succeed stops it, unless `keep_going`. The other arguments are Run's.
    """

    def __init__(
        self,
        source: bytes,
        policy: LoadedPolicy,
        store: RunStore,
        *,
        keep_going: bool = False,
        on_vetted: Callable[[VettedPlan], None] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(policy, store, **options)
        self._source = source
        self._keep_going = keep_going
        self._on_vetted = on_vetted or (lambda vetted: None)

    async def _walk(self) -> Outcome:
        self.folder.write("plan.json", self._source)
        tools = tools_for(self.policy.policy.limits)
        may_ask = self.session.asking is not None
        _, vetted = vet_source(self._source, self.session.engine, tools, may_ask=may_ask)
        plan = vetted.plan
        self._known["faults"] = tuple(FaultRecord.of(fault) for fault in vetted.faults)
        self.recorder.record(
            "plan_vetted",
            plan_sha256=None if plan is None else plan.sha256,
            actions=len(vetted.steps),
            keep_going=self._keep_going,
            faults=[fault.to_dict() for fault in vetted.faults],
        )
        self._on_vetted(vetted)
        refusal = refusal_of(vetted)
        if plan is None or refusal is not None:
            self._known["steps"] = refused_steps(vetted)
            return refusal or Outcome.INVALID

        def actions(session: Session) -> PlanActions:
            return PlanActions(tools, session.sandbox, autonomous=session.engine.autonomous)

        return await self._in_session(FixedPlan(plan, keep_going=self._keep_going), actions, plan.actions)
