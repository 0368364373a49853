"""Vetting: a whole plan is validated, lowered and judged before a container exists, with every fault at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from mindx.core.command import Command
from mindx.core.count import counted
from mindx.core.fault import Fault
from mindx.core.frozen import dataclass
from mindx.core.plan import EXECUTE_TOOL, Action, ParsedPlan, Plan, sort_faults, thaw
from mindx.core.quote import quoted
from mindx.core.strict_json import MAX_FAULTS
from mindx.core.verdict import Verdict
from mindx.policy.approval import NOBODY
from mindx.tools.base import BaseTool
from mindx.tools.command_tool import CallError, CommandTool, Lowered
from mindx.tools.registry import AnyCommandTool, ToolRegistry, plan_arguments
from mindx.tools.schema import compile_check

Judge = Callable[[Command], Verdict]

_STRICTNESS = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True)
class VettedStep:
    """One action and what would be sent for it. `command` is the tool's command, "" for a THINK and its like.

    `verdict` is the strictest of its Commands' verdicts; None when there is none to judge, or the call is at fault.
    `faults` are those of this step, warnings included.
    """

    index: int
    action_id: str
    type: str
    command: str = ""
    commands: tuple[Command, ...] = ()
    verdict: Verdict | None = None
    faults: tuple[Fault, ...] = ()

    @property
    def asks(self) -> bool:
        """True when the policy asks about it and nothing stands against it."""
        return (
            self.verdict is not None
            and self.verdict.decision == "ask"
            and not any(fault.kind != "warning" for fault in self.faults)
        )


@dataclass(frozen=True, slots=True)
class VettedPlan:
    """`plan` may run only when `ok`. `faults` are those of the file, of the calls and of the policy, by line."""

    plan: Plan | None
    faults: tuple[Fault, ...]
    steps: tuple[VettedStep, ...]

    @property
    def invalid(self) -> bool:
        """True when a fault says that the plan itself is wrong."""
        return self.plan is None or any(fault.kind == "invalid" for fault in self.faults)

    @property
    def denied(self) -> bool:
        """True when the policy, or a missing grant of the operator, stands against a step."""
        return any(fault.kind == "denied" for fault in self.faults)

    @property
    def asks(self) -> int:
        """How many steps need a person's yes."""
        return sum(1 for step in self.steps if step.asks)

    @property
    def ok(self) -> bool:
        """True when nothing but warnings was found."""
        return not self.invalid and not self.denied


def vet(
    parsed: ParsedPlan,
    registry: ToolRegistry,
    judge: Judge,
    autonomous: bool = False,
    may_ask: bool = False,
    states: Mapping[str, Any] | None = None,
) -> VettedPlan:
    """Walk all actions with the state that each would leave, and judge every Command.

    `judge` is the policy's; `autonomous` is the operator's grant. `may_ask` True: somebody can answer what the policy
    asks about, so that it is no fault. `states` is what tools remember from before, by name; those that are not there
    begin anew. A step at fault leaves the state as it was.
    """
    walk = _Walk(parsed, registry, judge, autonomous, may_ask)
    walk.states.update(states or {})
    steps = [walk.step(action) for action in parsed.actions]
    faults = _listed([*parsed.faults, *walk.faults])
    of_step: dict[str, list[Fault]] = {}
    for fault in faults:
        of_step.setdefault(_step_path(fault.path), []).append(fault)
    with_faults = (replace(step, faults=tuple(of_step.get(f"$[{step.index}]", ()))) for step in steps)
    return VettedPlan(parsed.plan, faults, tuple(with_faults))


def _listed(found: list[Fault]) -> tuple[Fault, ...]:
    """Return all warnings, MAX_FAULTS of the others and one that counts the rest, by line."""
    wrong = sort_faults(fault for fault in found if fault.kind != "warning")
    listed = [*wrong[:MAX_FAULTS], *(fault for fault in found if fault.kind == "warning")]
    if len(wrong) > MAX_FAULTS:
        kind: Literal["invalid", "denied"] = "invalid" if any(fault.kind == "invalid" for fault in wrong) else "denied"
        listed.append(Fault("$", None, f"not listed: {counted(len(wrong) - MAX_FAULTS, 'more fault')}", kind=kind))
    return sort_faults(listed)


def _step_path(path: str) -> str:
    return path[: path.find("]") + 1]


class _Walk:
    def __init__(
        self, parsed: ParsedPlan, registry: ToolRegistry, judge: Judge, autonomous: bool, may_ask: bool
    ) -> None:
        self.parsed = parsed
        self.registry = registry
        self.judge = judge
        self.autonomous = autonomous
        self.may_ask = may_ask
        self.states: dict[str, Any] = {}
        self.faults: list[Fault] = []

    def step(self, action: Action) -> VettedStep:
        if action.type != EXECUTE_TOOL:
            return VettedStep(action.index, action.action_id, action.type)
        params = thaw(action.params)
        tool_id, command = params.pop("tool_id"), params.get("command", "")
        where = f"$[{action.index}].params"
        tool = self.registry.find(tool_id)
        lowered = None
        if tool is None:
            message = f"unknown tool {quoted(tool_id)}"
            self.faults.append(self.parsed.fault(f"{where}.tool_id", message, self.registry.suggest(tool_id)))
        elif isinstance(tool, CommandTool):
            lowered = self.lowered(tool, params, where)
        else:
            return self.plain(tool, action, params, where)
        if lowered is None:
            return VettedStep(action.index, action.action_id, action.type, command)
        verdict = self.verdict(lowered, where)
        return VettedStep(action.index, action.action_id, action.type, command, lowered.commands, verdict)

    def plain(self, tool: BaseTool, action: Action, params: dict[str, Any], where: str) -> VettedStep:
        """Vet a call of a tool that gives a value: by its schema, as it sends no Command of its own accord."""
        problem = compile_check(tool.definition, tool.argument_schema)(plan_arguments(tool, params))
        if problem:
            self.faults.append(self.parsed.fault(where, problem))
        return VettedStep(action.index, action.action_id, action.type, str(params.get("command", "")))

    def lowered(self, tool: AnyCommandTool, params: dict[str, Any], where: str) -> Lowered[Any] | None:
        if tool.tool_id not in self.states:
            self.states[tool.tool_id] = tool.initial_state(self.autonomous)
        try:
            lowered = tool.lower(tool.validate(params), self.states[tool.tool_id])
        except CallError as error:
            for fault in error.faults:
                self.faults.append(self.parsed.fault(where + fault.path, fault.message, fault.suggestion, fault.kind))
            return None
        self.states[tool.tool_id] = lowered.state
        return lowered

    def verdict(self, lowered: Lowered[Any], where: str) -> Verdict | None:
        verdicts = [self.judge(command) for command in lowered.commands]
        if not verdicts:
            return None
        worst = max(verdicts, key=lambda verdict: _STRICTNESS.index(verdict.decision))
        if worst.decision == "deny" or (worst.decision == "ask" and not self.may_ask):
            asked = f" (it needs a person's yes: {NOBODY})" if worst.decision == "ask" else ""
            message = f"policy rule {worst.rule}: {worst.reason}{asked}"
            self.faults.append(self.parsed.fault(where + lowered.subject, message, kind="denied"))
        return worst
