"""Observations: the one result of one Action, and the results of a batch in the order it was asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import Enum
from typing import Any

from mindx.core.agent_error import AgentError
from mindx.core.evidence import ArtifactRef, Evidence
from mindx.core.frozen import dataclass
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
    """`result` is the tool's own dict (JSON values); `execution` is there when a program ran.

    `value` is what a tool returned when that is no dict (any JSON value), else None. `error_info` says why it did
    not succeed, as a structured value; `evidence` and `artifacts` are what it proved and made.
    """

    action_id: str
    status: Status
    message: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    execution: ExecResult | None = None
    duration_s: float = 0.0
    value: Any = None
    error_info: AgentError | None = None
    evidence: tuple[Evidence, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()

    @property
    def ok(self) -> bool:
        """True only for SUCCESS."""
        return self.status is Status.SUCCESS

    @property
    def error(self) -> str | None:
        """The error as text; None when it succeeded."""
        if self.status is Status.SUCCESS:
            return None
        if self.error_info is not None:
            return self.error_info.message
        return self.message or self.status.value

    def to_dict(self) -> dict[str, Any]:
        """Return what the record and a model may see, without `execution` (the result tells of it)."""
        return {
            "action_id": self.action_id,
            "status": self.status.value,
            "message": self.message,
            "result": dict(self.result),
            "value": self.value,
            "duration_s": self.duration_s,
            "error_info": None if self.error_info is None else self.error_info.to_dict(),
            "evidence": [item.to_dict() for item in self.evidence],
            "artifacts": [item.to_dict() for item in self.artifacts],
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Observation:
        """Return what `to_dict` was called on. Raises KeyError and ValueError for anything else."""
        error = value["error_info"]
        return cls(
            action_id=str(value["action_id"]),
            status=Status(value["status"]),
            message=str(value["message"]),
            result=dict(value["result"]),
            duration_s=float(value["duration_s"]),
            value=value["value"],
            error_info=None if error is None else AgentError.from_dict(error),
            evidence=tuple(Evidence.from_dict(item) for item in value["evidence"]),
            artifacts=tuple(ArtifactRef.from_dict(item) for item in value["artifacts"]),
        )


@dataclass(frozen=True, slots=True)
class ObservationBatch:
    """Exactly one Observation for each Action of the batch, in the batch's order."""

    batch_id: str
    observations: tuple[Observation, ...]

    def __iter__(self) -> Iterator[Observation]:
        return iter(self.observations)

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def ok(self) -> bool:
        """True when all succeeded."""
        return all(item.status is Status.SUCCESS for item in self.observations)

    @property
    def rejected(self) -> tuple[Observation, ...]:
        """Those that the policy or a person refused."""
        return tuple(item for item in self.observations if item.status is Status.DENIED)
