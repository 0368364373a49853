"""What a tool may use during one call: the session's sandbox, variables and names, and a way to tell how far it is."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mindx.core.action import ActionRequest
from mindx.core.agent_context import AgentContext, Emit
from mindx.core.agent_event import AgentEventType
from mindx.core.agent_session import SessionEnvironment, SessionPolicy
from mindx.core.output import plain_text, plain_value
from mindx.errors import InputError
from mindx.sandbox.base import Sandbox
from mindx.tools.tool_sandbox import ToolSandbox

MAX_MESSAGE = 2000  # characters of a progress message
MAX_DATA_CHARS = 16 * 1024  # of a piece's data, as JSON


async def _silent(event_type: AgentEventType, payload: Mapping[str, Any], cause_id: str = "") -> None:
    """Tell nobody."""


@dataclass(slots=True)
class ToolContext:
    """One call's surroundings.

    `artifacts` are the session's (what the user gave, what Actions made), `metadata` the run's own. `states` is where
    a tool keeps what it must remember until the run ends, by its name. `policy` None means that no session limits it.
    `operator_engine` returns the engine that judges what goes to the sandbox; None where there is none.
    """

    run_id: str = ""
    action_id: str = ""
    session_id: str = ""
    step: int = 0
    environment: SessionEnvironment = field(default_factory=SessionEnvironment)
    policy: SessionPolicy | None = None
    artifacts: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    states: dict[str, Any] = field(default_factory=dict)
    emit: Emit = _silent
    open_sandbox: Callable[[], Awaitable[Any]] | None = None
    operator_engine: Callable[[], Any] | None = None

    @classmethod
    def of(cls, context: AgentContext, request: ActionRequest) -> ToolContext:
        """Return the surroundings of one Action of a run."""
        return cls(
            context.run_id,
            request.action_id,
            context.session_id,
            context.step,
            context.environment,
            context.policy,
            context.artifacts,
            context.metadata,
            context.tool_states,
            context.emit,
            context.open_sandbox,
            context.operator_engine,
        )

    @property
    def memory_namespace(self) -> str:
        """Whose memory it is: the session's namespace, else the session itself, else the run."""
        return self.environment.memory_namespace or self.session_id or self.run_id

    @property
    def env_vars(self) -> Mapping[str, str]:
        """The session's variables."""
        return self.environment.env_vars

    @property
    def network_allowed(self) -> bool:
        """True when nothing forbids that data leaves this machine for an address that a model chose."""
        return self.policy is None or self.policy.allow_network

    async def sandbox(self) -> Sandbox:
        """Return the session's sandbox behind the operator's policy; the first call starts the container.

        It runs programs and works on files, each judged; copying in and out is not for tools (ToolSandbox).

        Raises InputError (sandbox_missing) where there is none, SandboxError when it cannot start.
        """
        if self.open_sandbox is None:
            raise InputError("sandbox_missing", "there is no sandbox here; run it in a session of an AgentRuntime")
        return ToolSandbox(await self.open_sandbox())

    async def progress(self, message: str = "", *, progress: float | None = None, data: Any = None) -> None:
        """Tell how far the call is: an ACTION_PROGRESS event. `progress` is a share between 0 and 1."""
        payload: dict[str, Any] = {"action_id": self.action_id, "message": plain_text(str(message))[:MAX_MESSAGE]}
        number = isinstance(progress, (int, float)) and not isinstance(progress, bool) and math.isfinite(progress)
        payload["progress"] = min(1.0, max(0.0, float(progress or 0.0))) if number else None
        payload["data"] = _small(data)
        await self.emit(AgentEventType.ACTION_PROGRESS, payload)


def _small(data: Any) -> Any:
    try:
        value = plain_value(data)
        size = len(json.dumps(value))
    except (RecursionError, ValueError, TypeError):
        return None
    return value if size <= MAX_DATA_CHARS else f"{size:,} characters, too many for an event"
