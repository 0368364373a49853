"""What an agent's run gives back, and what can be asked about it while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mindx.core.agent_error import AgentError
from mindx.core.agent_state import AgentState
from mindx.core.checkpoint import ContinuationCheckpoint, RunOutcome, TaskState
from mindx.core.decision import UserInputRequest
from mindx.core.evidence import ArtifactRef, Evidence
from mindx.core.message import ChatMessage
from mindx.core.observation import Observation


@dataclass(frozen=True, slots=True)
class AgentResult:
    """How a run ended: two axes, `outcome` and the last `state` (reaching max_steps is PARTIAL in state ERROR).

    `error` is text, `error_info` the same as a value; both None after a final answer. `checkpoint` is there when it
    can be continued. `observations` holds one for every Action, in order; of a loud run the later ones are shortened
    (the trace has them whole). `messages` are the user's and assistant's
    texts that this run added.
    """

    run_id: str
    outcome: RunOutcome
    state: AgentState
    final_answer: str = ""
    error_info: AgentError | None = None
    checkpoint: ContinuationCheckpoint | None = None
    steps: int = 0
    # Not in repr: asyncio.run makes one of what it returns (in the signal module), as large as all output.
    observations: tuple[Observation, ...] = field(default=(), repr=False)
    evidence: tuple[Evidence, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    messages: tuple[ChatMessage, ...] = ()
    task_state: TaskState | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    duration_s: float = 0.0
    session_id: str = ""

    @property
    def error(self) -> str | None:
        """The error as text, or None."""
        return None if self.error_info is None else self.error_info.message

    @property
    def ok(self) -> bool:
        """True only for a final answer."""
        return self.outcome is RunOutcome.FINAL

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without the observations (the trace has them)."""
        return {
            "run_id": self.run_id,
            "session_id": self.session_id,
            "outcome": self.outcome.value,
            "state": self.state.value,
            "final_answer": self.final_answer,
            "error": self.error,
            "error_info": None if self.error_info is None else self.error_info.to_dict(),
            "checkpoint": None if self.checkpoint is None else self.checkpoint.to_dict(),
            "steps": self.steps,
            "actions": len(self.observations),
            "usage": dict(self.usage),
            "duration_s": round(self.duration_s, 6),
        }


@dataclass(frozen=True, slots=True)
class AgentRunStatus:
    """Where a run stands now. `pending_approval_id` is the action_id that a person is asked about, or ""."""

    run_id: str
    state: AgentState
    step: int = 0
    pending_user_input: UserInputRequest | None = None
    pending_approval_id: str = ""
    outcome: RunOutcome | None = None
    session_id: str = ""

    @property
    def pending_user_question(self) -> str | None:
        """The question that the run waits for, or None."""
        return None if self.pending_user_input is None else self.pending_user_input.question
