from __future__ import annotations

from typing import Any

import pytest

from mindx.core.agent_context import AgentContext
from mindx.core.checkpoint import TaskState


@pytest.fixture
def make_context():
    def make(task: str = "do it", **fields: Any) -> AgentContext:
        state = fields.pop("task_state", None) or TaskState(task)
        return AgentContext(run_id="run-1", task=task, task_state=state, **fields)

    return make
