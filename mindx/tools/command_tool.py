"""Tools whose params become a typed call that lowers to Commands, so that a whole plan is judged before it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Generic, Literal, TypeVar

import anyio

from mindx.core.action import ActionTraits
from mindx.core.agent_context import AgentContext
from mindx.core.command import Command
from mindx.core.frozen import dataclass
from mindx.core.observation import Status
from mindx.core.receipt import ExecResult
from mindx.errors import InputError
from mindx.sandbox.base import Sandbox
from mindx.tools.base import BaseTool, ToolResult
from mindx.tools.command_risk import command_traits, session_engine
from mindx.tools.context import ToolContext

CallT = TypeVar("CallT")
StateT = TypeVar("StateT")


@dataclass(frozen=True, slots=True)
class ParamFault:
    """What is wrong in one call. `path` is a JSON path below its params (`.argv[0]`), "" for the params as a whole."""

    path: str
    message: str
    suggestion: str = ""
    kind: Literal["invalid", "denied"] = "invalid"

    def __str__(self) -> str:
        return f"{self.message}; {self.suggestion}" if self.suggestion else self.message


class CallError(InputError):
    """A call is refused on the host, before any Command: `faults` lists every reason. Code: call_refused."""

    def __init__(self, faults: Iterable[ParamFault]) -> None:
        self.faults = tuple(faults)
        super().__init__("call_refused", "; ".join(str(fault) for fault in self.faults))

    @property
    def denied(self) -> bool:
        """True when the call is well formed and only the operator's consent is missing."""
        return all(fault.kind == "denied" for fault in self.faults)


@dataclass(frozen=True)  # no slots: Python 3.10 and 3.11 cannot construct a generic one by its alias
class Lowered(Generic[StateT]):
    """The Commands that a call needs, in order, and the state after it if they succeed.

    `subject` is the JSON path below params of what the Commands come from, for messages.
    """

    commands: tuple[Command, ...]
    state: StateT
    subject: str = ""


@dataclass(frozen=True)
class ToolOutcome(Generic[StateT]):
    """How a call ended. `result` has at least `status` (SUCCESS, FAILURE, ERROR); `status` also knows DENIED.

    `execution` is there when a program ran; `state` is the state for the next call, unchanged by a failure.
    """

    status: Status
    result: Mapping[str, Any]
    state: StateT
    execution: ExecResult | None = None

    @property
    def message(self) -> str:
        """The result's own message, or ""."""
        return str(self.result.get("message", ""))


class CommandTool(BaseTool, ABC, Generic[CallT, StateT]):
    """A tool without a state of its own: the caller keeps it between calls, so that one tool serves many sessions.

    As a BaseTool its state is the run's (`ToolContext.states`), and it begins without the operator's grant.
    """

    works_inside = True

    @abstractmethod
    def describe(self) -> str:
        """Return what the tool does and takes, for people and models."""

    @abstractmethod
    def initial_state(self, autonomous: bool = False) -> StateT:
        """Return the state of a session that begins; `autonomous` is the operator's grant."""

    @abstractmethod
    def validate(self, params: Mapping[str, Any]) -> CallT:
        """Return the typed call for flat params (without `tool_id`). Raises CallError with every fault."""

    @abstractmethod
    def lower(self, call: CallT, state: StateT) -> Lowered[StateT]:
        """Return the call's Commands and next state; pure, so that a plan is judged before a container exists.

        Raises CallError when the state does not allow the call.
        """

    @abstractmethod
    async def do(self, call: CallT, state: StateT, sandbox: Sandbox) -> ToolOutcome[StateT]:
        """Do it. Refusals and failures are outcomes; raises SandboxError when the sandbox itself is broken."""

    async def perform(self, params: Mapping[str, Any], state: StateT, sandbox: Sandbox) -> ToolOutcome[StateT]:
        """Validate and do: a bad call is an outcome too."""
        try:
            call = self.validate(params)
        except CallError as error:
            return refusal(error, state)
        return await self.do(call, state, sandbox)

    def assess(self, arguments: Mapping[str, Any], context: AgentContext) -> ActionTraits:
        """Return what the session's policy says of the Commands that this lowers to, or why it is no call."""
        state = context.tool_states.get(self.tool_id)
        try:
            lowered = self.lower(self.validate(arguments), self.initial_state() if state is None else state)
        except CallError as error:
            # What only lacks the operator's grant is a denial and not a mistake; a person's yes is not that grant.
            return ActionTraits(denial=error.message) if error.denied else ActionTraits(problem=error.message)
        # A call may change the state that the next one starts from (cd): they go one after the other.
        return command_traits(lowered.commands, session_engine(context), f"tool:{self.tool_id}")

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Do one call in the session's sandbox, and keep the state for the next."""
        state: StateT = context.states.setdefault(self.tool_id, self.initial_state())
        outcome = await self.perform(arguments, state, await context.sandbox())
        context.states[self.tool_id] = outcome.state
        return ToolResult(dict(outcome.result), outcome.status, outcome.message, outcome.execution)

    def bind(self, sandbox: Sandbox, state: StateT) -> BoundTool[CallT, StateT]:
        """Return the tool with a sandbox and a state, for direct use."""
        return BoundTool(self, sandbox, state)


class BoundTool(Generic[CallT, StateT]):
    """A tool with its sandbox and its state: `execute(**params)` returns the result dict. Calls run one at a time."""

    def __init__(self, tool: CommandTool[CallT, StateT], sandbox: Sandbox, state: StateT) -> None:
        self.tool = tool
        self.state = state
        self._sandbox = sandbox
        self._turn = anyio.Lock()

    async def execute(self, **params: Any) -> dict[str, Any]:
        """Do one call (`tool_id` may be among the params) and keep the state. Raises SandboxError only."""
        params.pop("tool_id", None)
        async with self._turn:
            outcome = await self.tool.perform(params, self.state, self._sandbox)
            self.state = outcome.state
        return dict(outcome.result)


def denial(rule: str, reason: str) -> str:
    """Return the message for what the policy refused; where no rule allowed it, none is named."""
    if not rule or rule.rpartition(":")[2] == "default":
        return f"denied by the policy: {reason}"
    return f"denied by policy rule {rule}: {reason}"


def refusal(error: CallError, state: StateT) -> ToolOutcome[StateT]:
    """Return the outcome of a call that was refused on the host."""
    status = Status.DENIED if error.denied else Status.ERROR
    return ToolOutcome(status, {"status": "ERROR", "message": error.message}, state)
