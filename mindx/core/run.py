"""Runs: the outcome of a walk through a plan, and the one document that tells it (`mindx run --json`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mindx.core.abridge import abridge, abridge_value
from mindx.core.document import SCHEMA_VERSION
from mindx.core.fault import Fault
from mindx.core.observation import Observation, Status
from mindx.core.output import OutputEncoding, encode_output, plain_text, plain_value
from mindx.core.receipt import Receipt

MAX_KILLED = 100  # the processes that a record names; all are counted
_PIECE_CHARS = 64 * 1024


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


class KilledRecord(_Record):
    """A process that was alive when its command ended, and was killed."""

    pid: int
    name: str


class ReceiptRecord(_Record):
    """What a program used and left (see Receipt). `killed` names at most 100, `killed_count` counts all.

    `files_changed_count` is None where nobody looked.
    """

    cpu_s: float
    memory_peak_bytes: int
    max_rss_bytes: int
    stdout_sha256: str
    stderr_sha256: str
    oom_kills: int
    pids_refused: int
    throttled_s: float
    killed: tuple[KilledRecord, ...] = ()
    killed_count: int = 0
    files_changed: tuple[str, ...] = ()
    files_changed_count: int | None = None
    files_changed_complete: bool = False

    @classmethod
    def of(cls, receipt: Receipt) -> ReceiptRecord:
        """Return the record of a Receipt."""
        return cls(
            cpu_s=round(receipt.cpu_s, 6),
            memory_peak_bytes=receipt.memory_peak_bytes,
            max_rss_bytes=receipt.max_rss_bytes,
            stdout_sha256=receipt.stdout_sha256,
            stderr_sha256=receipt.stderr_sha256,
            oom_kills=receipt.oom_kills,
            pids_refused=receipt.pids_refused,
            throttled_s=round(receipt.throttled_s, 6),
            killed=tuple(
                KilledRecord(pid=process.pid, name=plain_text(process.name)) for process in receipt.killed[:MAX_KILLED]
            ),
            killed_count=receipt.killed_count,
            files_changed=tuple(map(plain_text, receipt.files_changed)),
            files_changed_count=receipt.files_changed_count,
            files_changed_complete=receipt.files_changed_complete,
        )


class StepRecord(_Record):
    """One Action and the one thing that became of it.

    `index` counts from 0. `command` is the tool's command or "" . `exit_code`, `exit_cause` and `receipt` are None
    when no program ran. The byte counts are of the whole streams; `stdout` and `stderr` hold what the record keeps,
    and `truncated` says that this is not all. `result` is the tool's own dict. The `_spool` names are files of the
    run's folder that hold more, or ""; `abridged` says that they do, and `spool_left_out_bytes` how much had no room
    there.
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
    abridged: bool = False
    duration_s: float = 0.0
    result: dict[str, Any] = Field(default_factory=dict)
    receipt: ReceiptRecord | None = None
    stdout_spool: str = ""
    stderr_spool: str = ""
    result_spool: str = ""
    spool_left_out_bytes: int = 0

    @classmethod
    def of(cls, index: int, type_: str, command: str, observation: Observation) -> StepRecord:
        """Return the record of an Observation."""
        known: dict[str, Any] = {}
        execution = observation.execution
        known["result"], known["abridged"] = abridge_value(plain_value(dict(observation.result)))
        if execution is not None:
            stdout, out_cut = abridge(execution.stdout)
            stderr, err_cut = abridge(execution.stderr)
            known["stdout"], known["stdout_encoding"] = encode_output(stdout)
            known["stderr"], known["stderr_encoding"] = encode_output(stderr)
            known["receipt"] = ReceiptRecord.of(execution.receipt)
            known["exit_code"] = execution.exit_code
            known["exit_cause"] = execution.exit_cause.value
            known["stdout_bytes"] = execution.receipt.stdout_bytes
            known["stderr_bytes"] = execution.receipt.stderr_bytes
            known["truncated"] = execution.truncated or out_cut or err_cut
            known["abridged"] = known["abridged"] or out_cut or err_cut
        return cls(
            index=index,
            action_id=plain_text(observation.action_id),
            type=plain_text(type_),
            command=plain_text(command),
            status=observation.status,
            message=plain_text(observation.message),
            duration_s=round(observation.duration_s, 6),
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
    # Not in repr: asyncio.run makes one of what it returns (in the signal module), as large as the document.
    steps: tuple[StepRecord, ...] = Field(default=(), repr=False)
    faults: tuple[FaultRecord, ...] = Field(default=(), repr=False)
    changes: tuple[ChangeRecord, ...] = Field(default=(), repr=False)
    error: dict[str, Any] | None = None
    trace: str
    trace_head: TraceHead | None = None

    def to_json(self) -> str:
        """Return it as JSON in ASCII only: no control sequence of a program's output reaches a terminal through it."""
        return "".join(self.json_pieces())

    def json_pieces(self) -> Iterator[str]:
        """Yield what `to_json` returns piece by piece, so that nobody holds all of it."""
        waiting, size = [], 0
        encoder = json.JSONEncoder(indent=2, ensure_ascii=True)
        # Not mode="json": that would copy every text.
        for piece in encoder.iterencode(self.model_dump()):
            waiting.append(piece)
            size += len(piece)
            if size >= _PIECE_CHARS:
                yield "".join(waiting)
                waiting, size = [], 0
        yield "".join(waiting) + "\n"


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
