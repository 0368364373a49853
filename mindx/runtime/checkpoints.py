"""What a run hands on to the next one of the same work."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mindx.core.action import ActionRequest, ActionRisk, ActionType
from mindx.core.agent_context import AgentContext
from mindx.core.agent_error import AgentError, ErrorCode, ErrorPhase
from mindx.core.checkpoint import ContinuationCheckpoint, ExecutionBoundary, TaskState
from mindx.core.count import counted
from mindx.core.evidence import ArtifactRef, Evidence
from mindx.core.observation import Observation, Status
from mindx.runtime.loop import Step

_LISTED = 20
_CUT = (ErrorCode.ACTION_TIMEOUT, ErrorCode.BATCH_TIMEOUT, ErrorCode.ACTION_CANCELLED, ErrorCode.ACTION_OUTCOME_UNKNOWN)


@dataclass(frozen=True, slots=True)
class UnknownAction:
    """An Action that was started and whose end nobody knows."""

    action_id: str
    name: str
    arguments: Mapping[str, Any]
    action_type: ActionType = ActionType.TOOL

    @classmethod
    def of(cls, request: ActionRequest) -> UnknownAction:
        """Return it for a request."""
        return cls(request.action_id, request.name, request.arguments, request.action_type)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        arguments = dict(self.arguments)
        return {
            "action_id": self.action_id,
            "name": self.name,
            "arguments": arguments,
            "action_type": self.action_type.value,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> UnknownAction:
        """Return what `to_dict` was called on. Raises KeyError and ValueError for anything else."""
        kind = ActionType(value["action_type"])
        return cls(str(value["action_id"]), str(value["name"]), dict(value["arguments"]), kind)

    def observation(self) -> Observation:
        """Return the Observation that the next run starts with."""
        message = (
            f"{self.name} ({self.action_id}) was started and its end is not known; it may have had its effect or not. "
            "Look before it is done again"
        )
        error = AgentError(ErrorCode.ACTION_OUTCOME_UNKNOWN, message, ErrorPhase.ACTION_EXECUTION, True)
        result = {"status": "ERROR", "message": message, "arguments": dict(self.arguments)}
        return Observation(self.action_id, Status.ERROR, message, result, error_info=error)


@dataclass(frozen=True, slots=True)
class Continuation:
    """A checkpoint with all that the next run inherits."""

    checkpoint: ContinuationCheckpoint
    task_state: TaskState
    evidence: tuple[Evidence, ...] = ()
    artifact_refs: tuple[ArtifactRef, ...] = ()
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    unknown: tuple[UnknownAction, ...] = ()

    def opening(self, workspace_note: str = "") -> tuple[str, ...]:
        """Return what the next run is told first."""
        found = self.checkpoint
        steps = counted(found.step_index, "step")
        texts = [
            f"This goes on with earlier work ({found.source_run_id}, stopped after {steps} by "
            f"{found.boundary.reason.value}). {found.progress_summary} {found.next_step}{workspace_note}"
        ]
        texts += [
            f"{item.observation().message}. Its arguments were {dict(item.arguments)!r:.2000}" for item in self.unknown
        ]
        return tuple(texts)

    def fill(self, context: AgentContext) -> None:
        """Give the next run what it inherits."""
        context.evidence.update((item.evidence_id, item) for item in self.evidence)
        context.artifact_refs.update((item.artifact_id, item) for item in self.artifact_refs)
        context.observations = tuple(item.observation() for item in self.unknown)
        context.metadata["continued_from"] = self.checkpoint.checkpoint_id


def effect_unknown(step: Step) -> bool:
    """Return whether an Action may have changed something before it was cut off."""
    error = step.observation.error_info
    if error is None or error.code not in _CUT or step.risk is ActionRisk.READ_ONLY:
        return False
    return error.details.get("began", True) is True


def progress(before: TaskState, run_id: str, steps: Sequence[Step], unknown: Sequence[UnknownAction]) -> TaskState:
    """Return the task's state after these steps: the same steps always give the same state.

    An id that an earlier run of the task has used is told as `<run_id>:<action_id>`.
    """
    used = {*before.completed_action_ids, *before.unknown_action_ids}

    def told(action_id: str) -> str:
        return f"{run_id}:{action_id}" if action_id in used else action_id

    done = [step for step in steps if step.observation.ok]
    not_done = [step for step in steps if not step.observation.ok and not effect_unknown(step)]
    parts = [f"{counted(len(done), 'action')} succeeded{_names(done)}"]
    if not_done:
        parts.append(f"{len(not_done)} did not{_names(not_done)}")
    if unknown:
        parts.append(
            f"of {len(unknown)} the effect is not known ({', '.join(item.name for item in unknown[:_LISTED])})"
        )
    following = "Go on with what is missing."
    if unknown:
        following = "First look at what the actions of unknown effect have done, then go on with what is missing."
    return dataclasses.replace(
        before,
        completed_action_ids=(*before.completed_action_ids, *(told(step.request.action_id) for step in done)),
        unknown_action_ids=(*before.unknown_action_ids, *(told(item.action_id) for item in unknown)),
        progress_summary="; ".join(parts) + ".",
        next_step=following,
    )


def checkpoint_of(
    run_id: str,
    state: TaskState,
    step_index: int,
    boundary: ExecutionBoundary,
    evidence: Sequence[Evidence],
    artifacts: Sequence[ArtifactRef],
    created_at: str,
) -> ContinuationCheckpoint:
    """Return the checkpoint of a run that stopped at `boundary`."""
    return ContinuationCheckpoint.build(
        created_at=created_at,
        source_run_id=run_id,
        objective=state.objective,
        step_index=step_index,
        completed_action_ids=state.completed_action_ids,
        evidence_ids=tuple(item.evidence_id for item in evidence),
        artifact_ids=tuple(item.artifact_id for item in artifacts),
        progress_summary=state.progress_summary,
        next_step=state.next_step,
        boundary=boundary,
        unknown_action_ids=state.unknown_action_ids,
    )


def _names(steps: Sequence[Step]) -> str:
    if not steps:
        return ""
    names = ", ".join(step.request.name for step in steps[:_LISTED])
    return f" ({names}{', ...' if len(steps) > _LISTED else ''})"
