"""Observations: the one result of one Action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from mindx.core.receipt import ExecResult


class Status(str, Enum):
    """How a step ended."""

    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"  # it ran, and did not succeed
    ERROR = "ERROR"  # a bad call, or something broke
    DENIED = "DENIED"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True)
class Observation:
    """`result` is the tool's own dict (JSON values); `execution` is there when a program ran."""

    action_id: str
    status: Status
    message: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    execution: ExecResult | None = None
    duration_s: float = 0.0
