"""What hears of each Action of a batch: it keeps the Observations, gives them their evidence, and tells of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mindx.core.action import ActionRequest
from mindx.core.agent_context import AgentContext
from mindx.core.agent_event import AgentEventType
from mindx.core.observation import Observation, Status
from mindx.runtime.action_log import ActionLog
from mindx.runtime.completion import evidence_of
from mindx.runtime.event_stream import EventStream
from mindx.runtime.scheduler import ScheduledAction


class BatchListener:
    """The ActionListener of one batch. `seen` holds the Observations by action_id.

    `verifies` marks the evidence as a verification's, `notes` are what a person added to an Action, for the model.
    `keeps_evidence` False makes none.
    """

    def __init__(self, context: AgentContext, log: ActionLog, stream: EventStream) -> None:
        self.seen: dict[str, Observation] = {}
        self.verifies = False
        self.keeps_evidence = True
        self.notes: Mapping[str, str] = {}
        self._context = context
        self._log = log
        self._stream = stream

    async def started(self, action: ScheduledAction) -> None:
        """Tell that it is about to run."""
        await self._log.started(action.request, action.risk)
        if self._stream.heard:
            payload = {**action.request.to_dict(), "risk": action.risk.value}
            await self._stream.emit(AgentEventType.ACTION_STARTED, payload)

    async def finished(self, action: ScheduledAction, observation: Observation) -> None:
        """Keep and tell what became of it."""
        await self.settled(action.request, observation)

    async def settled(self, request: ActionRequest, observation: Observation) -> None:
        """Keep and tell the Observation of an Action that ran, or never will."""
        observation = self._complete(request, observation)
        self.seen[request.action_id] = observation
        await self._log.finished(request, observation)
        if self._stream.heard:
            cancelled = observation.status is Status.CANCELLED
            kind = AgentEventType.ACTION_CANCELLED if cancelled else AgentEventType.ACTION_FINISHED
            payload = {"action_id": request.action_id, "status": observation.status.value}
            await self._stream.emit(kind, {**payload, "duration_s": round(observation.duration_s, 6)})

    def _complete(self, request: ActionRequest, observation: Observation) -> Observation:
        """Add what a person noted, and the evidence that the Observation is by itself."""
        note = self.notes.get(request.action_id)
        result = {**observation.result, "note": note} if note else observation.result
        evidence = observation.evidence
        if not evidence and self.keeps_evidence:
            run_id = self._context.run_id
            own = evidence_of(observation, run_id, request.name, verifies=self.verifies)
            if own.evidence_id in self._context.evidence:  # an earlier run of the work had an Action of this id
                own = dataclasses.replace(own, evidence_id=f"ev_{run_id}_{request.action_id}")
            evidence = (own,)
        if not note and evidence is observation.evidence:
            return observation
        return dataclasses.replace(observation, result=result, evidence=evidence)
