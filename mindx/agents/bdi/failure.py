"""Diagnosis: what kind of failure an Observation is."""

from __future__ import annotations

import re
from enum import Enum

from pydantic import BaseModel, ConfigDict

from mindx.core.agent_error import ErrorCode
from mindx.core.observation import Observation, Status
from mindx.core.plan import FAIL
from mindx.core.receipt import ExitCause

MAX_REASON = 1000


class FailureType(str, Enum):
    """What kind of failure it was."""

    TOOL_UNAVAILABLE = "TOOL_UNAVAILABLE"
    TOOL_EXECUTION_ERROR = "TOOL_EXECUTION_ERROR"
    INVALID_PARAMETERS = "INVALID_PARAMETERS"
    RATE_LIMIT_ERROR = "RATE_LIMIT_ERROR"
    PERMISSION_ERROR = "PERMISSION_ERROR"
    NETWORK_ERROR = "NETWORK_ERROR"
    TIMEOUT_ERROR = "TIMEOUT_ERROR"
    RESOURCE_ERROR = "RESOURCE_ERROR"  # memory, disk or processes
    PLANNING_ERROR = "PLANNING_ERROR"
    CRITERIA_UNMET = "CRITERIA_UNMET"  # the plan is done, and what it was for does not hold
    SUBGOAL_FAILED = "SUBGOAL_FAILED"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"  # it was begun when mindx died
    NO_ANSWER = "NO_ANSWER"
    GAVE_UP = "GAVE_UP"  # the plan says FAIL
    UNKNOWN_ERROR = "UNKNOWN_ERROR"


class Diagnosis(BaseModel):
    """One failure: its type, its reason in words, and the action (its type, tool and command) that it happened in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    failure_type: FailureType
    reason: str
    action: str = ""


_BY_CODE = {
    ErrorCode.ACTION_REJECTED: FailureType.PERMISSION_ERROR,
    ErrorCode.HUMAN_APPROVAL_REJECTED: FailureType.PERMISSION_ERROR,
    ErrorCode.HUMAN_APPROVAL_UNAVAILABLE: FailureType.PERMISSION_ERROR,
    ErrorCode.ACTION_TIMEOUT: FailureType.TIMEOUT_ERROR,
    ErrorCode.BATCH_TIMEOUT: FailureType.TIMEOUT_ERROR,
    ErrorCode.ACTION_TYPE_UNSUPPORTED: FailureType.TOOL_UNAVAILABLE,
    ErrorCode.ACTION_OUTCOME_UNKNOWN: FailureType.OUTCOME_UNKNOWN,
}
_BY_CAUSE = {
    ExitCause.TIMEOUT: FailureType.TIMEOUT_ERROR,
    ExitCause.OOM: FailureType.RESOURCE_ERROR,
    ExitCause.NOT_FOUND: FailureType.TOOL_UNAVAILABLE,
    ExitCause.NOT_EXECUTABLE: FailureType.TOOL_UNAVAILABLE,
    ExitCause.POLICY: FailureType.PERMISSION_ERROR,
}
# The codes of mindx's own errors, as an Observation's details carry them.
_BY_DETAIL = {
    "tool_unknown": FailureType.TOOL_UNAVAILABLE,
    "tool_timeout": FailureType.TIMEOUT_ERROR,
    "tool_arguments_invalid": FailureType.INVALID_PARAMETERS,
    "reference_unresolved": FailureType.INVALID_PARAMETERS,
    "call_refused": FailureType.INVALID_PARAMETERS,
    "belief_invalid": FailureType.INVALID_PARAMETERS,
    "beliefs_full": FailureType.RESOURCE_ERROR,
    "belief_reserved": FailureType.INVALID_PARAMETERS,
    "goal_circular": FailureType.INVALID_PARAMETERS,
    "goals_full": FailureType.INVALID_PARAMETERS,
    "provider_rate_limited": FailureType.RATE_LIMIT_ERROR,
    "provider_overloaded": FailureType.RATE_LIMIT_ERROR,
    "provider_unreachable": FailureType.NETWORK_ERROR,
    "provider_timeout": FailureType.TIMEOUT_ERROR,
    "constitution_forbids": FailureType.PERMISSION_ERROR,
    "constitution_needs_person": FailureType.PERMISSION_ERROR,
}
# What programs say: the first that is found counts. Only for how to go on, never for what is allowed.
_BY_WORDS = (
    (FailureType.RATE_LIMIT_ERROR, r"\b429\b|too many requests|rate limit"),
    (
        FailureType.NETWORK_ERROR,
        r"name resolution|network is unreachable|connection (?:refused|reset|timed out)|could not resolve|"
        r"no route to host|failed to establish a new connection",
    ),
    (FailureType.RESOURCE_ERROR, r"no space left|cannot allocate memory|memoryerror|resource temporarily unavailable"),
    (FailureType.TOOL_UNAVAILABLE, r"unknown tool|unknown command|command not found|is not in the sandbox"),
    (FailureType.INVALID_PARAMETERS, r"does not take these arguments|is missing|unknown parameter|is no reference"),
    (FailureType.PERMISSION_ERROR, r"permission denied|operation not permitted|not allowed|denied by"),
)
_WORDS = tuple((kind, re.compile(pattern, re.I)) for kind, pattern in _BY_WORDS)


def diagnose(observation: Observation, action_type: str, action: str) -> Diagnosis:
    """Return what kind of failure an Observation is that did not succeed."""
    said = str(observation.result.get("stderr", ""))[-MAX_REASON:]
    reason = (observation.error or observation.status.value)[:MAX_REASON]
    if said and said not in reason:
        reason = f"{reason}: {said}"[:MAX_REASON]
    return Diagnosis(failure_type=_kind(observation, action_type, f"{reason}\n{said}"), reason=reason, action=action)


def _kind(observation: Observation, action_type: str, text: str) -> FailureType:
    if action_type == FAIL:
        return FailureType.GAVE_UP
    if observation.status is Status.DENIED:
        return FailureType.PERMISSION_ERROR
    info = observation.error_info
    if info is not None:
        found = _BY_DETAIL.get(str(info.details.get("code", ""))) or _BY_CODE.get(info.code)
        if found is not None:
            return found
    if observation.execution is not None and observation.execution.exit_cause in _BY_CAUSE:
        return _BY_CAUSE[observation.execution.exit_cause]
    by_words = next((kind for kind, pattern in _WORDS if pattern.search(text)), None)
    if by_words is not None:
        return by_words
    known = observation.status in (Status.FAILURE, Status.ERROR)
    return FailureType.TOOL_EXECUTION_ERROR if known else FailureType.UNKNOWN_ERROR
