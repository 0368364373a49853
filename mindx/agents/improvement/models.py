"""What the self-improvement agent is asked, and the one document that it answers with."""

from __future__ import annotations

import hashlib
from enum import Enum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator
from typing_extensions import Self

from mindx.runtime.run_ids import checked_id
from mindx.tools.container_entry import ToolSpec

AGENT_ID = "self_improvement_agent"
SELF = "self"
SELF_FILE = "mindx/agents/improvement/agent.py"  # what `self` names, below the project that mindx itself is
TOOL_FILE, TOOL_TEST_FILE = "tool.py", "test_tool.py"  # of a new tool
MAX_CONTEXT_CHARS = 200_000
MAX_CODE_CHARS = 256 * 1024
MAX_DIFF_CHARS = 1024 * 1024  # more than two files of MAX_CODE_CHARS need
MAX_NOTES_CHARS = 8000
MAX_CYCLES = 20
MAX_SELF_TEST_S = 3600.0


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ImprovementStatus(str, Enum):
    """How the whole work ended."""

    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"


class OperationType(str, Enum):
    """What was worked on."""

    IMPROVE_SELF = "improve_self"
    IMPROVE_EXTERNAL_TARGET = "improve_external_target"
    DEVELOP_TOOL = "develop_tool"


class ImplementationStatus(str, Enum):
    """How far one cycle came; the last four say why there is no answer of the agent at all."""

    PENDING = "PENDING"
    FAILED_SETUP = "FAILED_SETUP"
    FAILED_ANALYSIS = "FAILED_ANALYSIS"
    FAILED_IMPLEMENTATION = "FAILED_IMPLEMENTATION"
    SUCCESS_IMPLEMENTED = "SUCCESS_IMPLEMENTED"
    FAILED_EVALUATION = "FAILED_EVALUATION"
    SUCCESS_EVALUATED = "SUCCESS_EVALUATED"
    SUCCESS_NEEDS_APPROVAL = "SUCCESS_NEEDS_APPROVAL"
    SUCCESS_ROLLED_BACK = "SUCCESS_ROLLED_BACK"
    FAILED_ROLLBACK = "FAILED_ROLLBACK"
    FAILED_INPUT = "FAILED_INPUT"
    FAILED_TIMEOUT = "FAILED_TIMEOUT"
    FAILED_PROCESS = "FAILED_PROCESS"
    FAILED_RESULT = "FAILED_RESULT"


GOOD = (ImplementationStatus.SUCCESS_EVALUATED, ImplementationStatus.SUCCESS_NEEDS_APPROVAL)


class ImprovementRequest(_Record):
    """One order. `target_file` is `self`, or a path below `workspace`; for a new tool it is `tool.py`.

    `workspace` is the folder that is copied in, None for an empty one (for `self`: the project that mindx is).
    `tool_spec` makes it a new tool. `logs` are files of the host whose ends the model is shown. `test_command` () means
    `python3 -m unittest`. `policy` and `llm_model` "" mean the settings' own. `script` takes the model's turns from a
    file.
    """

    interaction_id: str
    target_file: str = Field(min_length=1, max_length=1024)
    workspace: Path | None = None
    context: str = Field(default="", max_length=MAX_CONTEXT_CHARS)
    tool_spec: ToolSpec | None = None
    logs: tuple[Path, ...] = Field(default=(), max_length=16)
    test_command: tuple[str, ...] = Field(default=(), max_length=100)
    cycles: int = Field(default=1, ge=1, le=MAX_CYCLES)
    critique_threshold: float = Field(default=0.6, ge=0, le=1)
    self_test_timeout_s: float = Field(default=180.0, gt=0, le=MAX_SELF_TEST_S)
    llm_provider: str = Field(default="", max_length=100)
    llm_model: str = Field(default="", max_length=200)
    script: Path | None = None
    policy: str = Field(default="", max_length=1024)
    is_critical_target: bool = False

    @field_validator("interaction_id")
    @classmethod
    def _plain_id(cls, value: str) -> str:
        return checked_id(value, "interaction id")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.target_file == SELF and self.tool_spec is not None:
            raise ValueError("a new tool is not `self`")
        return self

    @property
    def operation(self) -> OperationType:
        """What it asks to work on."""
        if self.tool_spec is not None:
            return OperationType.DEVELOP_TOOL
        return OperationType.IMPROVE_SELF if self.target_file == SELF else OperationType.IMPROVE_EXTERNAL_TARGET


class Evaluation(_Record):
    """What the gates said of one candidate. None: the gate was not reached."""

    passed_syntax_check: bool | None = None
    passed_self_tests: bool | None = None
    llm_self_critique_score: float | None = Field(default=None, ge=0, le=1)
    notes: str = Field(default="", max_length=MAX_NOTES_CHARS)


class CycleResult(_Record):
    """One attempt. `sha256` is of `new_content`, the candidate that the gates judged; a failed one keeps neither."""

    cycle: int = Field(ge=1, le=MAX_CYCLES)
    target_path: str = Field(max_length=1024)
    is_self: bool = False
    implementation_status: ImplementationStatus = ImplementationStatus.PENDING
    improvement_description: str = Field(default="", max_length=MAX_NOTES_CHARS)
    diff_patch: str = Field(default="", max_length=MAX_DIFF_CHARS)
    new_content: str = Field(default="", max_length=MAX_CODE_CHARS)
    sha256: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    evaluation: Evaluation = Evaluation()
    promoted_to_main: bool = False
    code_updated_requires_restart: bool = False
    error_message: str = Field(default="", max_length=MAX_NOTES_CHARS)

    @model_validator(mode="after")
    def _same(self) -> Self:
        if self.sha256 and self.sha256 != hashlib.sha256(self.new_content.encode()).hexdigest():
            raise ValueError("sha256 is not that of new_content")
        if self.implementation_status in GOOD and not self.sha256:
            raise ValueError("a good candidate has its content and sha256")
        return self


class ImprovementData(_Record):
    """The details of an answer. The agent promotes nothing: `cycles_promoted` is 0 until the host has applied it.

    `trace_events` and `trace_sha256` pin the end of the record of what ran (`trace.jsonl` of the work folder).
    """

    agent_id: str = Field(default=AGENT_ID, max_length=100)
    operation_type: OperationType
    target_path: str = Field(default="", max_length=1024)
    cycles_configured: int = Field(default=0, ge=0, le=MAX_CYCLES)
    cycles_attempted: int = Field(default=0, ge=0, le=MAX_CYCLES)
    cycles_promoted: int = Field(default=0, ge=0, le=MAX_CYCLES)
    cycles_successful_eval: int = Field(default=0, ge=0, le=MAX_CYCLES)
    final_status: ImplementationStatus
    message: str = Field(default="", max_length=MAX_NOTES_CHARS)
    cycle_results: tuple[CycleResult, ...] = Field(default=(), max_length=MAX_CYCLES)
    tool_spec: ToolSpec | None = None
    usage: dict[str, JsonValue] = {}
    trace_events: int = Field(default=0, ge=0)
    trace_sha256: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")

    @property
    def candidate(self) -> CycleResult | None:
        """The attempt that passed every gate, or None."""
        return next((item for item in self.cycle_results if item.implementation_status in GOOD), None)


class ImprovementResult(_Record):
    """The answer: `status`, a `message` for people, and `data`. The exit code of the command is 0 iff SUCCESS."""

    status: ImprovementStatus
    message: str = Field(max_length=MAX_NOTES_CHARS)
    data: ImprovementData

    @property
    def ok(self) -> bool:
        """True for SUCCESS."""
        return self.status is ImprovementStatus.SUCCESS

    @property
    def exit_code(self) -> int:
        """The exit code that goes with it."""
        return 0 if self.ok else 1

    @property
    def needs_person(self) -> bool:
        """True when the candidate is good and waits for a person."""
        return self.data.final_status is ImplementationStatus.SUCCESS_NEEDS_APPROVAL

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        final = self.data.final_status
        if self.ok != final.value.startswith("SUCCESS"):
            raise ValueError(f"the status {self.status.value} does not go with {final.value}")
        if (final in GOOD) != (self.data.candidate is not None):
            raise ValueError(f"{final.value} does not go with its attempts")
        return self

    @classmethod
    def failure(cls, request: ImprovementRequest, status: ImplementationStatus, message: str) -> ImprovementResult:
        """Return the answer for work that came to nothing."""
        told = message[:MAX_NOTES_CHARS]
        data = ImprovementData(
            operation_type=request.operation,
            target_path=request.target_file,
            cycles_configured=request.cycles,
            final_status=status,
            message=told,
        )
        return cls(status=ImprovementStatus.FAILURE, message=told, data=data)

    def line(self) -> str:
        """Return the document as one line of JSON, without an end of line."""
        return self.model_dump_json()
