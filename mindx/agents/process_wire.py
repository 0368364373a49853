"""What an AgentProcess and its worker say to each other: JSON objects, each behind its length in four bytes.

The worker says `hello` first. The host says `run` once, and `cancel` when it must. The worker tells `event`s, and at
the end `result`, or `failed` with an AgentError.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mindx.agents.worker import Bounds
from mindx.core.action import ActionType
from mindx.core.agent_error import AgentError
from mindx.core.agent_event import AgentEvent, AgentEventType
from mindx.core.agent_result import AgentResult
from mindx.core.agent_session import SessionEnvironment, SessionPolicy
from mindx.core.agent_state import AgentState
from mindx.core.checkpoint import ContinuationCheckpoint, RunOutcome, TaskState
from mindx.core.evidence import ArtifactRef, Evidence
from mindx.core.message import ChatMessage
from mindx.core.observation import Observation
from mindx.core.run_config import RunConfig

SOCKET_VARIABLE = "MINDX_WORKER_SOCKET"
VERSION = 1
MAX_FRAME_BYTES = 16 * 1024 * 1024
_HEADER_BYTES = 4


class WireError(ValueError):
    """What came is no message of the protocol."""


def encode(message: Mapping[str, Any]) -> bytes:
    """Return the message as a frame. Raises WireError when it is larger than a frame may be, or no JSON."""
    try:
        data = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"a message is no JSON: {type(error).__name__}") from None
    if len(data) > MAX_FRAME_BYTES:
        raise WireError(f"a message has {len(data):,} bytes; at most {MAX_FRAME_BYTES:,} are sent")
    return len(data).to_bytes(_HEADER_BYTES, "big") + data


async def read_message(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next message, None when the other side has closed. Raises WireError for anything else."""
    try:
        size = int.from_bytes(await reader.readexactly(_HEADER_BYTES), "big")
        if size > MAX_FRAME_BYTES:
            raise WireError(f"a message of {size:,} bytes is announced; at most {MAX_FRAME_BYTES:,} are read")
        data = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None  # in the middle of a frame too: the other side is gone
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        raise WireError("a message is no JSON") from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise WireError("a message is no object with a type")
    return message


def run_message(run_id: str, task: str, bounds: Bounds, events: bool) -> dict[str, Any]:
    """Return the order to run one task within its bounds; `events` says whether anybody listens."""
    config = {name: getattr(bounds.config, name) for name in RunConfig.__dataclass_fields__}
    return {
        "type": "run",
        "run_id": run_id,
        "task": task,
        "events": events,
        # JSON has no infinity.
        "config": {name: None if value == math.inf else value for name, value in config.items()},
        "policy": None if bounds.policy is None else _policy(bounds.policy),
        "environment": None if bounds.environment is None else _environment(bounds.environment),
    }


def bounds_from(message: Mapping[str, Any]) -> Bounds:
    """Return the bounds of a `run` message. Raises KeyError, TypeError, ValueError and InputError for any other."""
    config: dict[str, Any] = {name: math.inf if value is None else value for name, value in message["config"].items()}
    policy, environment = message["policy"], message["environment"]
    return Bounds(
        RunConfig(**config),
        None if policy is None else _policy_from(policy),
        None if environment is None else _environment_from(environment),
    )


def _policy(policy: SessionPolicy) -> dict[str, Any]:
    types, tools = policy.allowed_action_types, policy.allowed_tools
    return {
        "allowed_action_types": None if types is None else sorted(item.value for item in types),
        "allowed_tools": None if tools is None else sorted(tools),
        "allow_write": policy.allow_write,
        "allow_dangerous": policy.allow_dangerous,
        "allow_network": policy.allow_network,
        "max_parallel_actions": policy.max_parallel_actions,
    }


def _policy_from(value: Mapping[str, Any]) -> SessionPolicy:
    types, tools = value["allowed_action_types"], value["allowed_tools"]
    return SessionPolicy(
        None if types is None else frozenset(ActionType(item) for item in types),
        None if tools is None else frozenset(tools),
        value["allow_write"] is True,
        value["allow_dangerous"] is True,
        value["allow_network"] is True,
        int(value["max_parallel_actions"]),
    )


def _environment(environment: SessionEnvironment) -> dict[str, Any]:
    root = environment.workspace_root
    return {
        "workspace_root": None if root is None else str(root.resolve()),
        "env_vars": dict(environment.env_vars),
        "memory_namespace": environment.memory_namespace,
    }


def _environment_from(value: Mapping[str, Any]) -> SessionEnvironment:
    root = value["workspace_root"]
    return SessionEnvironment(
        None if root is None else Path(root), dict(value["env_vars"]), str(value["memory_namespace"])
    )


def event_message(event: AgentEvent) -> dict[str, Any]:
    """Return an event as a message."""
    return {
        "type": "event",
        "event_type": event.event_type.value,
        "run_id": event.run_id,
        "seq": event.seq,
        "time": event.time,
        "step": event.step,
        "payload": dict(event.payload),
        "cause_id": event.cause_id,
        "session_id": event.session_id,
    }


def event_from(message: Mapping[str, Any], run_id: str) -> AgentEvent:
    """Return the event of a message. Raises KeyError, TypeError and ValueError for any other, or another run's."""
    if message["run_id"] != run_id:
        raise ValueError("it is an event of another run")
    return AgentEvent(
        AgentEventType(message["event_type"]),
        run_id,
        _count(message["seq"]),
        str(message["time"]),
        _count(message["step"]),
        dict(message["payload"]),
        str(message["cause_id"]),
        str(message["session_id"]),
    )


def result_message(result: AgentResult) -> dict[str, Any]:
    """Return a run's whole result as a message; what programs printed is in the Observations' own results."""
    state = result.task_state
    return {
        "type": "result",
        **result.to_dict(),
        "observations": [item.to_dict() for item in result.observations],
        "evidence": [item.to_dict() for item in result.evidence],
        "artifacts": [item.to_dict() for item in result.artifacts],
        "messages": [item.to_dict() for item in result.messages],
        "task_state": None if state is None else state.to_dict(),
    }


def result_from(message: Mapping[str, Any], run_id: str) -> AgentResult:
    """Return the result of a message. Raises KeyError, TypeError and ValueError for any other, or another run's."""
    if message["run_id"] != run_id:
        raise ValueError("it is the result of another run")
    error, checkpoint, state = message["error_info"], message["checkpoint"], message["task_state"]
    return AgentResult(
        run_id,
        RunOutcome(message["outcome"]),
        AgentState(message["state"]),
        str(message["final_answer"]),
        None if error is None else AgentError.from_dict(error),
        None if checkpoint is None else ContinuationCheckpoint.from_dict(checkpoint),
        _count(message["steps"]),
        tuple(Observation.from_dict(item) for item in message["observations"]),
        tuple(Evidence.from_dict(item) for item in message["evidence"]),
        tuple(ArtifactRef.from_dict(item) for item in message["artifacts"]),
        tuple(ChatMessage.from_dict(item) for item in message["messages"]),
        None if state is None else TaskState.from_dict(state),
        {str(name): _count(count) for name, count in message["usage"].items()},
        _seconds(message["duration_s"]),
        str(message["session_id"]),
    )


def _count(value: Any) -> int:
    """Return a count: budgets are held against it, so one below 0 would give back what others have spent."""
    if type(value) is not int or value < 0:
        raise ValueError("a count is a number from 0")
    return value


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise ValueError("a time is a number of seconds")
    return float(value)
