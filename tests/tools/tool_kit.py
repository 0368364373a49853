"""What the tests of tools share: a call of one tool through the executor, as the loop would make it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from mindx.core.action import ActionRequest
from mindx.core.agent_context import AgentContext
from mindx.core.agent_event import AgentEventType
from mindx.core.checkpoint import TaskState
from mindx.core.observation import Observation
from mindx.sandbox.base import Sandbox
from mindx.tools.base import BaseTool
from mindx.tools.executor import ToolExecutor


def run_context(**values: Any) -> AgentContext:
    """A run's context, with whatever the test needs in it."""
    return AgentContext(**{"run_id": "run-1", "task": "a task", "task_state": TaskState("a task"), **values})


def opener(sandbox: Sandbox) -> Callable[[], Awaitable[Sandbox]]:
    async def opened() -> Sandbox:
        return sandbox

    return opened


class Events:
    """Keeps what a run tells."""

    def __init__(self) -> None:
        self.told: list[tuple[AgentEventType, dict[str, Any]]] = []

    async def __call__(self, event_type: AgentEventType, payload: Mapping[str, Any], cause_id: str = "") -> None:
        self.told.append((event_type, dict(payload)))


async def call(
    tools: BaseTool | Iterable[BaseTool], name: str, arguments: Mapping[str, Any], context: AgentContext | None = None
) -> Observation:
    """Do one call."""
    executor = ToolExecutor([tools] if isinstance(tools, BaseTool) else list(tools))
    return await executor.execute(ActionRequest("action-1", name, arguments), context or run_context())
