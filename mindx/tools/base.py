"""The contract of a tool: a definition that a model reads, and a call with plain arguments that gives a plain value."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import field
from pathlib import Path
from typing import Any

from mindx.core.action import ActionRisk, ActionTraits
from mindx.core.agent_context import AgentContext
from mindx.core.evidence import ArtifactRef, Evidence
from mindx.core.frozen import dataclass
from mindx.core.observation import Status
from mindx.core.quote import quoted
from mindx.core.receipt import ExecResult
from mindx.errors import InputError, MindxError
from mindx.tools.context import ToolContext

MAX_DESCRIPTION = 8000  # characters
MAX_CHUNKS = 10_000  # of one stream
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what the model endpoints of the field take


class ToolError(MindxError):
    """A tool could not do what it was asked; the message reaches the model, so it says what to do instead.

    Code: tool_failed, or the tool's own.
    """

    def __init__(self, message: str, code: str = "tool_failed", **more: Any) -> None:
        super().__init__(code, message, recoverable=True, **more)


class ToolNotFoundError(InputError):
    """There is no tool of that name. Code: tool_unknown."""


class ToolValidationError(InputError):
    """A tool's definition, or the arguments of a call, do not fit. Codes: tool_invalid, tool_arguments_invalid."""


def _no_parameters() -> dict[str, Any]:
    return {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True)
class ToolDefinition:
    """What a model and the policy are told of a tool. Raises ToolValidationError (tool_invalid).

    `parameters` is the JSON Schema (2020-12) of the arguments, an object. `risk` is what a call may do when nothing
    more is known of it; who says nothing counts as WRITE. `require_human_approval` asks a person each time.
    `concurrency_key` names the resource that every call uses. `timeout_s` None leaves the limit to the run.
    `blocking` True gives each call a thread of its own, for code that does not await.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=_no_parameters)
    risk: ActionRisk = ActionRisk.WRITE
    require_human_approval: bool = False
    concurrency_key: str | None = None
    timeout_s: float | None = None
    blocking: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ToolValidationError(
                "tool_invalid", f"{quoted(str(self.name))} is no name for a tool; use up to 64 of A-Z a-z 0-9 _ -"
            )
        if len(self.description) > MAX_DESCRIPTION:
            raise ToolValidationError(
                "tool_invalid", f"the description of {self.name} has over {MAX_DESCRIPTION:,} characters"
            )
        if not isinstance(self.parameters, Mapping) or self.parameters.get("type", "object") != "object":
            raise ToolValidationError("tool_invalid", f"the parameters of {self.name} are no JSON Schema of an object")

    @property
    def schema(self) -> dict[str, Any]:
        """The function's schema, nested as chat completions have it."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """One piece of a streaming tool's work: a message, data (JSON values), and how far it is (0 to 1), if known."""

    message: str = ""
    data: Any = None
    progress: float | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool may return instead of a plain value, when there is more to say than that."""

    value: Any = None
    status: Status = Status.SUCCESS
    message: str = ""
    execution: ExecResult | None = None
    evidence: tuple[Evidence, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()


class BaseTool(ABC):
    """A tool: `definition` says what it is, `execute` does one call. It keeps no state of a run in itself.

    What it may use comes by the ToolContext: files and programs by the sandbox, variables and policy by the session.
    """

    definition: ToolDefinition
    workspace: Path | None = None  # the folder of the host that it was made for, if for one
    # Whether all that its calls do is in the session's container: they are then done again in a new one.
    works_inside: bool = False

    @property
    def tool_id(self) -> str:
        """The name by which plans call it: the definition's."""
        return self.definition.name

    @property
    def argument_schema(self) -> Mapping[str, Any]:
        """The JSON Schema that arguments are held against: the definition's parameters."""
        return self.definition.parameters

    @property
    def least_risk(self) -> ActionRisk:
        """The least risk that any call can have; `assess` says what one call has."""
        return self.definition.risk

    def assess(self, arguments: Mapping[str, Any], context: AgentContext) -> ActionTraits:
        """Return what is known of one call before it is done; pure and quick. The arguments fit the schema."""
        made = self.definition
        return ActionTraits(made.risk, made.require_human_approval, made.concurrency_key)

    def result_fields(self, arguments: Mapping[str, Any]) -> frozenset[str] | None:
        """Return the names that the result of such a call has when it succeeds, None when that is not known.

        A plan that refers to another name of it is refused before it begins.
        """
        return None

    @abstractmethod
    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Do one call; return a JSON value, a dict with a `status`, or a ToolResult.

        Raise ToolError (or ValueError) with a message for the model when it fails; the text of anything else stays
        out of the model's sight. Let CancelledError through.
        """

    async def close(self) -> None:  # noqa: B027 - most tools hold nothing
        """Let go of what the tool holds; may be called twice."""


class StreamingTool(BaseTool):
    """A tool that tells how far it is: each ToolProgress becomes an event, all of them one result."""

    @abstractmethod
    def stream(self, arguments: Mapping[str, Any], context: ToolContext) -> AsyncGenerator[ToolProgress, None]:
        """Yield the pieces. The result is the data of the last piece that has some, else all messages as text."""

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Go through the stream, tell of each piece, and return the result. Raises ToolError for an endless one."""
        found, value, count = False, None, 0
        messages: list[str] = []
        async with aclosing(self.stream(arguments, context)) as pieces:
            async for piece in pieces:
                count += 1
                if count > MAX_CHUNKS:
                    raise ToolError(f"the tool sent more than {MAX_CHUNKS:,} pieces and was stopped", "tool_endless")
                if not isinstance(piece, ToolProgress):
                    raise ToolError("the tool sent something that is no ToolProgress", "tool_result_invalid")
                await context.progress(piece.message, progress=piece.progress, data=piece.data)
                if piece.data is not None:
                    found, value = True, piece.data
                if piece.message:
                    messages.append(piece.message)
        return value if found else "\n".join(messages)
