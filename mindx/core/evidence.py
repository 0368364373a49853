"""Evidence: what an Action proved, as a claim of completion cites it, and artifacts: what it made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any

from mindx.core.frozen import dataclass


class EvidenceKind(str, Enum):
    """Where a piece of evidence comes from."""

    ACTION_RESULT = "action_result"
    MODEL_OUTPUT = "model_output"
    COMMAND_RESULT = "command_result"  # valid only for exit code 0 within the deadline
    FILE_SNAPSHOT = "file_snapshot"
    VISUAL_FINDING = "visual_finding"
    VERIFICATION = "verification"  # valid only when verified
    ERROR = "error"  # never valid


@dataclass(frozen=True, slots=True)
class Provenance:
    """Which run, Action and source (a tool's or model's name) a thing comes from."""

    run_id: str = ""
    action_id: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """`valid` says whether a completion may rest on it; unknown is not valid. `data` are JSON values."""

    evidence_id: str
    kind: EvidenceKind
    summary: str = ""
    valid: bool = False
    provenance: Provenance = Provenance()
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "evidence_id": self.evidence_id,
            "kind": self.kind.value,
            "summary": self.summary,
            "valid": self.valid,
            "run_id": self.provenance.run_id,
            "action_id": self.provenance.action_id,
            "source": self.provenance.source,
            "data": dict(self.data),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Evidence:
        """Return what `to_dict` was called on. Raises KeyError and ValueError for anything else."""
        origin = Provenance(str(value["run_id"]), str(value["action_id"]), str(value["source"]))
        return cls(
            str(value["evidence_id"]),
            EvidenceKind(value["kind"]),
            str(value["summary"]),
            value["valid"] is True,
            origin,
            dict(value["data"]),
        )


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """Something that an Action made: `uri` says where it lies, `media_type` what it is."""

    artifact_id: str
    uri: str = ""
    media_type: str = "application/octet-stream"
    sha256: str = ""
    provenance: Provenance = Provenance()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "artifact_id": self.artifact_id,
            "uri": self.uri,
            "media_type": self.media_type,
            "sha256": self.sha256,
            "run_id": self.provenance.run_id,
            "action_id": self.provenance.action_id,
            "source": self.provenance.source,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> ArtifactRef:
        """Return what `to_dict` was called on. Raises KeyError for anything else."""
        origin = Provenance(str(value["run_id"]), str(value["action_id"]), str(value["source"]))
        return cls(value["artifact_id"], value["uri"], value["media_type"], value["sha256"], origin)
