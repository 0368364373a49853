"""Runs: the outcome of a walk through a plan, and the one document that tells it (`mindx run --json`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mindx.core.fault import Fault
from mindx.core.observation import Observation, Status
from mindx.core.output import OutputEncoding, encode_output, plain_text, plain_value

SCHEMA_VERSION = 1


class Outcome(str, Enum):
    """How a run ended."""

    COMPLETED = "completed"  # every step succeeded
    FAILED = "failed"  # a step did not
    INVALID = "invalid"  # the plan is wrong; nothing ran
    DENIED = "denied"  # the policy refuses
    PARTIAL = "partial"  # a limit was reached; it can be continued
    CANCELLED = "cancelled"  # the user stopped it
    ERROR = "error"  # the sandbox or the engine broke

    @property
    def exit_code(self) -> int:
        """The command line's exit code."""
        return EXIT_CODES[self]


EXIT_CODES = {
    Outcome.COMPLETED: 0,
    Outcome.FAILED: 1,
    Outcome.INVALID: 2,
    Outcome.DENIED: 3,
    Outcome.ERROR: 4,
    Outcome.PARTIAL: 5,
    Outcome.CANCELLED: 130,
}


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PolicyRecord(_Record):
    """The policy that was in force: its name and the digest of its text."""

    name: str
    sha256: str


class StepRecord(_Record):
    """One Action and the one thing that became of it.

    `index` counts from 0. `command` is the tool's command or "" . `exit_code` and `exit_cause` are None when no
    program ran. The byte counts are of the whole streams; `stdout` and `stderr` hold what was kept.
    `result` is the tool's own dict.
    """

    index: int
    action_id: str
    type: str
    command: str
    status: Status
    message: str = ""
    exit_code: int | None = None
    exit_cause: str | None = None
    stdout: str = ""
    stderr: str = ""
    stdout_encoding: OutputEncoding = "utf-8"
    stderr_encoding: OutputEncoding = "utf-8"
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    truncated: bool = False
    duration_s: float = 0.0
    result: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, index: int, type_: str, command: str, observation: Observation) -> StepRecord:
        """Return the record of an Observation."""
        known: dict[str, Any] = {}
        execution = observation.execution
        if execution is not None:
            known["stdout"], known["stdout_encoding"] = encode_output(execution.stdout)
            known["stderr"], known["stderr_encoding"] = encode_output(execution.stderr)
            known["exit_code"] = execution.exit_code
            known["exit_cause"] = execution.exit_cause.value
            known["stdout_bytes"] = execution.receipt.stdout_bytes
            known["stderr_bytes"] = execution.receipt.stderr_bytes
            known["truncated"] = execution.truncated
        return cls(
            index=index,
            action_id=plain_text(observation.action_id),
            type=plain_text(type_),
            command=plain_text(command),
            status=observation.status,
            message=plain_text(observation.message),
            duration_s=round(observation.duration_s, 6),
            result=plain_value(dict(observation.result)),
            **known,
        )


class FaultRecord(_Record):
    """One thing wrong in the plan, and where."""

    path: str
    line: int | None
    column: int | None
    kind: Literal["invalid", "denied", "warning"]
    message: str
    suggestion: str

    @classmethod
    def of(cls, fault: Fault) -> FaultRecord:
        """Return the record of a Fault."""
        return cls(**plain_value(fault.to_dict()))


class ChangeRecord(_Record):
    """One difference from what was copied in. `mode` is octal (`0644`); `sha256` is "" where there is no content.

    `stored` is True when the new content lies in the run's folder; `note` says why not, or what else to know.
    """

    path: str
    kind: str
    entry: str
    mode: str
    size: int
    sha256: str
    stored: bool = False
    note: str = ""


class TraceHead(_Record):
    """Where the trace stood when the result was written: its number of events and the digest of the last."""

    events: int
    sha256: str


class RunResult(_Record):
    """The document of `mindx run --json`. `trace` is the path of the trace; `error` tells what broke, or is None.

    `accepted_gaps` names the controls that the engine lacks and the policy does without.
    """

    schema_version: int = SCHEMA_VERSION
    run_id: str
    outcome: Outcome
    policy: PolicyRecord
    accepted_gaps: tuple[str, ...] = ()
    started_at: str
    duration_s: float
    steps: tuple[StepRecord, ...] = ()
    faults: tuple[FaultRecord, ...] = ()
    changes: tuple[ChangeRecord, ...] = ()
    error: dict[str, Any] | None = None
    trace: str
    trace_head: TraceHead | None = None

    def to_json(self) -> str:
        """Return it as JSON in ASCII only: no control sequence of a program's output reaches a terminal through it."""
        return render_json(self.model_dump(mode="json"))


def render_json(document: Any) -> str:
    """Return a document as indented JSON in printable ASCII, with a newline at the end."""
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def outcome_of(statuses: Sequence[Status]) -> Outcome:
    """Return the outcome that the steps' statuses add up to; unknown is never success."""
    seen = set(statuses)
    if Status.CANCELLED in seen:
        return Outcome.CANCELLED
    if seen & {Status.FAILURE, Status.ERROR}:
        return Outcome.FAILED
    if Status.DENIED in seen:
        return Outcome.DENIED
    if seen == {Status.SUCCESS}:
        return Outcome.COMPLETED
    return Outcome.FAILED
