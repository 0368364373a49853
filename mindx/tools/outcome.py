"""From what a tool returned to the one Observation of its Action."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel

from mindx.core.action import ActionRequest
from mindx.core.agent_error import AgentError, ErrorCode, ErrorPhase
from mindx.core.observation import Observation, Status
from mindx.core.output import plain_text
from mindx.tools.base import ToolError, ToolResult

MAX_RESULT_CHARS = 1024 * 1024
MAX_VALUES = 100_000
MAX_DEPTH = 64
MAX_MESSAGE = 4000  # characters of an error
_STATUS = {item.value: item for item in Status}
_STATUS.update({"FAILED": Status.FAILURE, "OK": Status.SUCCESS})


def observe(request: ActionRequest, returned: Any) -> Observation:
    """Return the Observation for what a tool returned: a JSON value, a dict with a `status`, or a ToolResult.

    Raises ToolError (tool_result_invalid, tool_result_too_large) for what is no JSON value.
    """
    result = returned if isinstance(returned, ToolResult) else _result_of(returned)
    value = json_value(result.value)
    if isinstance(value, dict):
        message = result.message or (str(value["message"]) if isinstance(value.get("message"), str) else "")
        fields: Mapping[str, Any] = value if "status" in value else {"status": result.status.value, **value}
        value = None
    else:
        message, fields = result.message, {"status": result.status.value}
    error = None
    if result.status is not Status.SUCCESS:
        message = message or f"{request.name} says {result.status.value}"
        error = _error_of(result.status, message)
    return Observation(
        request.action_id,
        result.status,
        plain_text(message)[:MAX_MESSAGE],
        fields,
        result.execution,
        value=value,
        error_info=error,
        evidence=result.evidence,
        artifacts=result.artifacts,
    )


def _result_of(returned: Any) -> ToolResult:
    """Read a `status` of a dict in whatever case; another word there is the tool's own data."""
    status = Status.SUCCESS
    if isinstance(returned, Mapping) and isinstance(returned.get("status"), str):
        status = _STATUS.get(returned["status"].upper(), Status.SUCCESS)
    return ToolResult(returned, status)


def _error_of(status: Status, message: str) -> AgentError:
    code = {Status.DENIED: ErrorCode.ACTION_REJECTED, Status.CANCELLED: ErrorCode.ACTION_CANCELLED}
    phase = ErrorPhase.POLICY if status is Status.DENIED else ErrorPhase.ACTION_EXECUTION
    text = plain_text(message)[:MAX_MESSAGE]
    return AgentError(code.get(status, ErrorCode.ACTION_EXECUTION_FAILED), text, phase, True)


def json_value(value: Any) -> Any:
    """Return the value made of JSON's own types. Raises ToolError when it is none, is too large or too deep."""
    return _Reader().read(value, 0)


class _Reader:
    def __init__(self) -> None:
        self.values = 0
        self.chars = 0

    def read(self, value: Any, depth: int) -> Any:
        self.values += 1
        if self.values > MAX_VALUES or depth > MAX_DEPTH:
            raise _too_large()
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Enum):
            return self.read(value.value, depth + 1)
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int):
            if value.bit_length() > MAX_RESULT_CHARS:
                raise _too_large()
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise _invalid("a number that is not finite")
            return float(value)
        if isinstance(value, BaseModel):
            return self.read(value.model_dump(mode="json"), depth + 1)
        if isinstance(value, Mapping):
            return {self.key(key): self.read(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.read(item, depth + 1) for item in value]
        raise _invalid(f"a value of the type {type(value).__name__}")

    def key(self, key: Any) -> str:
        if not isinstance(key, str):
            raise _invalid(f"a key of the type {type(key).__name__}")
        return self.text(key)

    def text(self, text: str) -> str:
        self.chars += len(text)
        if self.chars > MAX_RESULT_CHARS:
            raise _too_large()
        return plain_text(text)


def _too_large() -> ToolError:
    return ToolError(
        f"the tool's result is larger than {MAX_RESULT_CHARS:,} characters, or nested too deep; ask for less of it",
        "tool_result_too_large",
    )


def _invalid(what: str) -> ToolError:
    return ToolError(f"the tool returned {what}, which is no JSON value", "tool_result_invalid")
