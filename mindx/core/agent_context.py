"""What a run carries along: the words, the results and the means that its Reasoner and its Actions share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any, Protocol

from mindx.core.agent_event import AgentEventType
from mindx.core.agent_session import SessionEnvironment, SessionPolicy
from mindx.core.checkpoint import TaskState
from mindx.core.evidence import ArtifactRef, Evidence
from mindx.core.frozen import dataclass
from mindx.core.message import ChatMessage
from mindx.core.observation import Observation
from mindx.core.run_config import RunConfig


class ContextPressure(str, Enum):
    """How full the context is."""

    NORMAL = "normal"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class ContextView:
    """The messages that one THINK gives to a model. `packed` is the payload of a CONTEXT_PACKED event, or None.

    `prefix_sha256` is the fingerprint of what stays the same from step to step, tools included.
    """

    messages: tuple[ChatMessage, ...]
    prefix_sha256: str = ""
    pressure: ContextPressure = ContextPressure.NORMAL
    epoch: int = 0
    tokens: int = 0
    packed: Mapping[str, Any] | None = None


class Emit(Protocol):
    """Tells an event of the run, from within a Reasoner or an Action."""

    async def __call__(self, event_type: AgentEventType, payload: Mapping[str, Any], cause_id: str = "") -> None:
        """Tell it; never raises for what a listener does."""
        ...


async def _silent(event_type: AgentEventType, payload: Mapping[str, Any], cause_id: str = "") -> None:
    """Tell nobody."""


@dataclass(slots=True)
class AgentContext:
    """One run's own things; the loop changes them, a Reasoner and an executor read them.

    `task` is the text of this run, `task_state.objective` that of the whole work. `history` are the session's earlier
    messages, `messages` the user's and assistant's texts of this run. `observations` are those of the last decision.
    `artifacts` are what the caller gave (such as `images`) and what Actions made. `view` is the compiled context of
    this step, None without a ContextManager; `store` is the ContextManager's own. `open_sandbox` opens the session's
    sandbox when it is first called and returns the same one ever after; None where there is none. `operator_engine`
    returns the engine of the operator's policy that this sandbox is judged by, without opening it. `opening` is what a
    continued run is told before its first step. `tool_states` is what tools remember until the run ends, by name.
    """

    run_id: str
    task: str
    task_state: TaskState
    session_id: str = ""
    config: RunConfig = field(default_factory=RunConfig)
    policy: SessionPolicy | None = None
    environment: SessionEnvironment = field(default_factory=SessionEnvironment)
    history: Sequence[ChatMessage] = ()
    opening: tuple[str, ...] = ()
    messages: list[ChatMessage] = field(default_factory=list)
    observations: tuple[Observation, ...] = ()
    step: int = 0
    evidence: dict[str, Evidence] = field(default_factory=dict)
    artifacts: dict[str, Any] = field(default_factory=dict)
    artifact_refs: dict[str, ArtifactRef] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    feedback: list[str] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    view: ContextView | None = None
    store: Any = None
    tool_states: dict[str, Any] = field(default_factory=dict)
    emit: Emit = _silent
    open_sandbox: Callable[[], Awaitable[Any]] | None = None
    operator_engine: Callable[[], Any] | None = None
