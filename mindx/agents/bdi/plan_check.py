"""A plan is validated whole, with every fault at once, before it becomes an intention."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from mindx.agents.bdi.own_actions import DECOMPOSE_GOAL, UPDATE_BELIEF
from mindx.agents.bdi.references import MAX_REFERENCES, PLACEHOLDER, filled, parse_reference, references_in
from mindx.agents.beliefs import BeliefSystem
from mindx.agents.constitution import Act, Constitution, Layer
from mindx.core.agent_context import AgentContext
from mindx.core.fault import Fault
from mindx.core.plan import EXECUTE_TOOL, Action, ParsedPlan, Shape, is_reference, parse_plan, sort_faults, thaw
from mindx.core.quote import quoted
from mindx.errors import InputError
from mindx.tools.base import BaseTool
from mindx.tools.command_risk import session_engine
from mindx.tools.registry import ToolRegistry, plan_arguments
from mindx.tools.schema import Check, compile_check
from mindx.tools.vet import vet


class PlanChecker:
    """Reads plans of the agent's action types: `acts` by type, EXECUTE_TOOL by the tools' own models.

    `find_belief` returns whether something is believed under a key of which only the beginning may be the key.
    """

    def __init__(
        self,
        tools: ToolRegistry,
        acts: Mapping[str, BaseTool],
        beliefs: BeliefSystem,
        namespace: str,
        *,
        most: int,
        constitution: Constitution | None = None,
    ) -> None:
        self._tools = tools
        self._acts = dict(acts)
        self._beliefs = beliefs
        self._namespace = namespace
        self._most = most
        self._constitution = constitution
        self._checks: dict[str, Check] = {name: compile_check(tool.definition) for name, tool in acts.items()}
        self.shapes = {EXECUTE_TOOL: Shape(required=("tool_id",), open=True), **{n: Shape(open=True) for n in acts}}

    def check(
        self, source: str, context: AgentContext, states: Mapping[str, Any], *, may_ask: bool
    ) -> tuple[ParsedPlan, tuple[Fault, ...]]:
        """Return the plan as read and what is wrong with it, warnings left out; never raises for what it holds.

        `states` is what tools remember from before; `may_ask` says whether somebody can answer what the policy asks.
        """
        parsed = parse_plan(source, self.shapes, most=self._most, references=True)
        count = sum(1 for action in parsed.actions for _ in _references(action))
        if count > MAX_REFERENCES:
            text = f"it holds {count:,} references; a plan has at most {MAX_REFERENCES}"
            return parsed, sort_faults([*parsed.faults, parsed.fault("$", text)])
        faults: list[Fault] = []
        meant = [(action, self._filled(parsed, action, faults)) for action in parsed.actions]
        for action, params in meant:
            faults += self._schema_faults(parsed, action, params)
            faults += self._forbidden(parsed, action)
        plain = replace(parsed, actions=tuple(replace(action, params=params) for action, params in meant))
        vetted = vet(plain, self._tools, session_engine(context).judge, False, may_ask, states)
        unknown = {path for action in parsed.actions for path, _ in _references(action)}
        # What is found at the place of a reference is found again, with its value, when the action is judged.
        faults += [fault for fault in vetted.faults if fault.kind != "warning" and not _below(fault.path, unknown)]
        return parsed, sort_faults(faults)

    def _filled(self, parsed: ParsedPlan, action: Action, faults: list[Fault]) -> dict[str, Any]:
        """Check an action's references and return its params with something in their place."""
        for path, text in _references(action):
            problem = _must_be_written_out(action, path) or self._reference_problem(parsed, action, text)
            if problem:
                faults.append(parsed.fault(path, problem, "refer to the result of an earlier step, or to a belief"))
        params: dict[str, Any] = filled(thaw(action.params), lambda text: PLACEHOLDER)
        return params

    def _reference_problem(self, parsed: ParsedPlan, action: Action, text: str) -> str:
        if not text:
            return 'a reference is an object with `$ref` alone, {"$ref": "steps.1.result"}'
        try:
            reference = parse_reference(text)
        except InputError as error:
            return error.message
        if reference.step is None:
            return self._belief_problem(parsed, action, reference.names, text)
        if reference.step > action.index:
            here = f"this is step {action.index + 1}; steps count from 1"
            return f"{quoted(text)} is no earlier step ({here})"
        meant = next((item for item in parsed.actions if item.index == reference.step - 1), None)
        if meant is None or not reference.names:
            return ""  # that step has faults of its own
        fields = self._fields(meant)
        if fields is None or reference.names[0] in fields | {"status", "message"}:
            return ""
        has = ", ".join(sorted(fields)) or "nothing"
        return f"{quoted(text)}: the result of step {reference.step} has no {quoted(reference.names[0])}; it has {has}"

    def _fields(self, action: Action) -> frozenset[str] | None:
        params = thaw(action.params)
        if action.type != EXECUTE_TOOL:
            return self._acts[action.type].result_fields(params)
        tool = self._tools.find(str(params.pop("tool_id", "")))
        return None if tool is None else tool.result_fields(plan_arguments(tool, params))

    def _belief_problem(self, parsed: ParsedPlan, action: Action, names: tuple[str, ...], text: str) -> str:
        before = [item for item in parsed.actions[: action.index] if item.type == UPDATE_BELIEF]
        coming = [item.params.get("key") for item in before]  # of a plan with faults, anything
        prefixes = (".".join(names[:count]) for count in range(len(names), 0, -1))
        if any(key in coming or self._beliefs.get(key, namespace=self._namespace) is not None for key in prefixes):
            return ""
        return f"{quoted(text)}: nothing is believed under that key, and no earlier step sets it"

    def _schema_faults(self, parsed: ParsedPlan, action: Action, params: dict[str, Any]) -> Iterator[Fault]:
        """Yield what the schema of an action type says; what refers to something is left out, as it has no value."""
        tool = self._acts.get(action.type)
        if tool is None:
            return
        later = {name for name, value in action.params.items() if _holds_reference(value)}
        known = tool.definition.parameters.get("properties", {})
        check = self._checks[action.type]
        if later:
            required = [name for name in tool.definition.parameters.get("required", ()) if name not in later]
            check = compile_check(tool.definition, {**tool.definition.parameters, "required": required})
        problem = check({name: value for name, value in params.items() if name not in later or name not in known})
        if problem:
            yield parsed.fault(f"$[{action.index}].params", problem)

    def _forbidden(self, parsed: ParsedPlan, action: Action) -> Iterator[Fault]:
        act = {EXECUTE_TOOL: Act.EXECUTE_TOOL, UPDATE_BELIEF: Act.WRITE_BELIEF}.get(action.type)
        if self._constitution is None or act is None:
            return
        ruling = self._constitution.check(Layer.BDI, act.value)
        if not ruling.allowed:
            yield parsed.fault(f"$[{action.index}]", f"the constitution forbids it: {ruling.reason}", kind="denied")


def resolver(
    results: Callable[[int], Mapping[str, Any] | None], beliefs: BeliefSystem, namespace: str
) -> Callable[[str], Any]:
    """Return what turns the text of a reference into its value; `results` gives that of a step, counted from 1.

    It raises InputError (reference_unresolved, reference_invalid).
    """
    from mindx.agents.bdi.references import follow

    def resolve(text: str) -> Any:
        reference = parse_reference(text)
        if reference.step is not None:
            result = results(reference.step)
            if result is None:
                raise InputError("reference_unresolved", f"{quoted(text)}: that step gave no result")
            return follow(result, reference.names, text)
        names = reference.names
        for count in range(len(names), 0, -1):
            found = beliefs.get(".".join(names[:count]), namespace=namespace)
            if found is not None:
                return follow(found.value, names[count:], text)
        raise InputError("reference_unresolved", f"{quoted(text)}: nothing is believed under that key")

    return resolve


def _must_be_written_out(action: Action, path: str) -> str:
    """Say what no reference may stand for: which tool does what, and the words of a goal.

    What a tool gave would else decide what is done, and become a goal of its own.
    """
    where = f"$[{action.index}].params"
    if action.type == EXECUTE_TOOL and _below(path, (f"{where}.tool_id", f"{where}.command")):
        return "`tool_id` and `command` are written out, not referred to"
    return "a goal's words are written out, not referred to" if action.type == DECOMPOSE_GOAL else ""


def _references(action: Action) -> Iterator[tuple[str, str]]:
    return references_in(action.params, f"$[{action.index}].params")


def _holds_reference(value: Any) -> bool:
    return is_reference(value) or any(True for _ in references_in(value, ""))


def _below(path: str, places: Collection[str]) -> bool:
    return any(path == place or path.startswith((f"{place}.", f"{place}[")) for place in places)
